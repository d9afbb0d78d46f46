"""Values in the form in which they lie in a kernel's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo

# Buffers of a dispatch on the CPU.
MOST_BINDINGS = 32

def packed(value: Any, shape: Sequence[int]) -> Any:
    """A value in a kernel's memory: of a shape, booleans as bytes, integers without sign."""
    dtype = hlo.dtype_of(value)
    if dtype.kind == "b":
        value = hlo.convert(value, np.dtype(np.int8))
    elif dtype.kind == "u":
        value = hlo.bitcast_convert(value, np.dtype(f"int{8 * dtype.itemsize}"))
    return hlo.reshape(value, shape)


def unpacked(value: Any, shape: Sequence[int], dtype: np.dtype) -> Any:
    """What `packed` was made of."""
    value = hlo.reshape(value, shape)
    if dtype.kind == "b":
        return hlo.convert(value, dtype)
    return hlo.bitcast_convert(value, dtype) if dtype.kind == "u" else value
