"""Values in the form in which they lie in a kernel's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo

# Buffers of a dispatch, and of one of CUDA's.
MOST_BINDINGS, FEWEST_BINDINGS = 32, 16


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


def move_out(ops: Iterable[Any], loop: Any) -> None:
    """Move those operations that are within a loop in front of it; others may have users before it, and stay."""
    for op in ops:
        around = op.operation.parent
        while around is not None and around.operation != loop.operation:
            around = around.operation.parent
        if around is not None:
            op.operation.move_before(loop)
