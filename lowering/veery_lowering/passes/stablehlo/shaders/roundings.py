"""Hide the sums that are summands from the driver's algebra.

Problem: drivers may treat expressions of floats as real ones. Example: Mesa makes x of (x + c) - c, so that rounding by
a large constant and the compensations of exact arithmetic are lost. Fix: an integer minimum, which changes nothing but
one pattern of NaN, keeps the driver from looking through. Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.passes.stablehlo.shaders._parts import FLOATS
from veery_lowering.stablehlo import Value

_SUMS = ("stablehlo.add", "stablehlo.subtract")


def keep_roundings(module: ir.Module) -> None:
    """Hide operands of sums that are sums themselves, in place."""
    for operation in operations(module.operation):
        if operation.name not in _SUMS or hlo.dtype_of(operation.results[0]) not in FLOATS:
            continue
        alike = operation.operands[0] == operation.operands[1]
        for i, x in enumerate(operation.operands):
            if maker(x) in _SUMS or (alike and i == 0):
                with ir.InsertionPoint(operation), operation.location:
                    operation.operands[i] = _opaque(x)


def _opaque(x: Value) -> Value:
    dtype = hlo.dtype_of(x)
    bits = hlo.bitcast_convert(x, FLOATS[dtype])
    integers: Any = np.dtype(FLOATS[dtype])
    highest = hlo.full_like(bits, np.iinfo(integers).max - 1)
    return hlo.bitcast_convert(hlo.minimum(bits, highest), dtype)
