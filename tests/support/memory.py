"""Memory that devices can share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ALIGNMENT = 64


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised NumPy array whose data start at a multiple of 64 bytes."""
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + nbytes].view(dtype).reshape(shape)
