"""Arrays of other libraries, by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery._core import dtypes
from veery.numpy import from_dlpack as from_dlpack


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be given to other libraries and taken from them.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("float8_e4m3fn")
    (True, False)
    """
    dtype = np.dtype(dtype)
    return dtype == dtypes.bfloat16 or dtype.kind in "biufc" and dtype.isbuiltin == 1
