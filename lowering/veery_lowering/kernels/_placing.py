"""Values in the form in which they lie in a kernel's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations

# Buffers of a dispatch, and of one of CUDA's.
MOST_BINDINGS, FEWEST_BINDINGS = 32, 16
_BOOLEANS = "veery.booleans"  # marks what makes booleans of bytes that a kernel wrote, each of which is 0 or 1


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
        booleans = hlo.convert(value, dtype)
        booleans.owner.attributes[_BOOLEANS] = ir.UnitAttr.get()
        return booleans
    return hlo.bitcast_convert(value, dtype) if dtype.kind == "u" else value


def keep_bytes(module: Any) -> None:
    """Have kernels read booleans as the bytes that others wrote, in place.

    Else a dispatch between the two makes booleans of bytes, and bytes of booleans.
    """
    for op in operations(module):
        if _BOOLEANS in op.attributes:
            del op.attributes[_BOOLEANS]
            _take_bytes(op.results[0], op.operands[0])


def _take_bytes(booleans: Any, byte: Any) -> None:
    for user in [use.owner.operation for use in booleans.uses]:
        if user.name == "stablehlo.reshape":
            with user.location, ir.InsertionPoint(user):
                _take_bytes(user.results[0], hlo.reshape(byte, hlo.shape_of(user.results[0])))
        elif user.name == "stablehlo.convert" and hlo.dtype_of(user.results[0]) == np.int8:
            user.results[0].replace_all_uses_with(byte)


def move_out(ops: Iterable[Any], loop: Any) -> None:
    """Move those operations that are within a loop in front of it; others may have users before it, and stay."""
    for op in ops:
        around = op.operation.parent
        while around is not None and around.operation != loop.operation:
            around = around.operation.parent
        if around is not None:
            op.operation.move_before(loop)
