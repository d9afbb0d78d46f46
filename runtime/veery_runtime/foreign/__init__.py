"""Functions of compiled libraries that programs call on the host."""

from veery_runtime.foreign.abi import DTYPES as DTYPES
from veery_runtime.foreign.api import ForeignError as ForeignError
from veery_runtime.foreign.calls import ForeignFunction as ForeignFunction, call_without_frame as call_without_frame
from veery_runtime.foreign.handlers import (
    INCLUDE as INCLUDE,
    pycapsule as pycapsule,
    register as register,
    register_type as register_type,
)
