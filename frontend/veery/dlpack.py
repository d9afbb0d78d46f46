"""Arrays of other libraries, by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.array import Array
from veery.numpy import from_dlpack as _from_dlpack


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An array that another library offers; see `veery.numpy.from_dlpack`.

    >>> from_dlpack(np.arange(3, dtype="int32"))
    Array([0, 1, 2], dtype=int32)
    """
    return _from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be given to other libraries and taken from them.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("float8_e4m3fn")
    (True, False)
    """
    dtype = np.dtype(dtype)
    return dtype == dtypes.bfloat16 or dtype.kind in "biufc" and dtype.isbuiltin == 1
