"""Compute what constants of one element say, before the compiler does.

Problem: IREE 3.13 takes what is computed of constants for something to be computed when a program is loaded, and
compiles a dispatch for it. Example: the gradient of a mean has `-(1.0) / 32.0`, and so each training step had a
dispatch more, 20 of 800 ms of its compilation. Fix: NumPy computes it, where it gives the same bits: operations that
IEEE 754 rounds exactly, and those of integers that have no exceptions. Test: tests/lowering/test_folding.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations

_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.clamp": lambda low, x, high: np.minimum(np.maximum(low, x), high),
}
_OF_FLOATS = _OF_INTEGERS | {"stablehlo.divide": np.divide, "stablehlo.sqrt": np.sqrt}
_FLOATS = ("float32", "float64")


def fold_constants(module: Any) -> None:
    """Replace elementwise results of constants whose elements are equal by constants, in place."""
    for op in operations(module):
        element = _element(op) if op.name in _OF_FLOATS else None
        if element is not None:
            with op.location, ir.InsertionPoint(op):
                folded = hlo.full(element, hlo.shape_of(op.results[0]), element.dtype)
            op.results[0].replace_all_uses_with(folded)
            op.erase()


def _element(op: Any) -> np.ndarray[Any, Any] | None:
    """What each element of an operation's result is, if that is known and the same for all."""
    dtype = hlo.dtype_of(op.results[0])
    table = _OF_FLOATS if dtype.name in _FLOATS else _OF_INTEGERS if dtype.kind in "iu" else {}
    if op.name not in table:
        return None
    elements = [hlo.splat_of(x) for x in op.operands]
    if any(element is None for element in elements):
        return None
    with np.errstate(all="ignore"):
        element = np.asarray(table[op.name](*elements), dtype)
    return None if np.isnan(element) else element  # the compiler chooses the bits of a NaN
