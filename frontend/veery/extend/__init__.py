"""For libraries that extend veery: the core's data types and all primitives."""

from veery._core.absent import attributes as _attributes
from veery.extend import (
    backend as backend,
    core as core,
    ifrt_programs as ifrt_programs,
    linear_util as linear_util,
    random as random,
    source_info_util as source_info_util,
)

__getattr__, __dir__ = _attributes(__name__)
