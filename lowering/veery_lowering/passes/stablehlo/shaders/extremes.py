"""Fold signed integers to their extreme as unsigned ones.

Problem: IREE 3.13 fills the idle invocations of a reduction to a signed extreme with the neutral element of the
unsigned one. Example: the minimum of 24 positive numbers is -1 on a device with subgroups of 8. Fix: the sign bit is
flipped, which keeps the order, and the extreme is that of unsigned numbers. Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import replace
from veery_lowering.stablehlo import Value

_BODIES: dict[str, Callable[[Value, Value], list[Value]]] = {
    "stablehlo.minimum": lambda a, b: [hlo.minimum(a, b)],
    "stablehlo.maximum": lambda a, b: [hlo.maximum(a, b)],
}


def fold_unsigned_extremes(module: ir.Module) -> None:
    """Rewrite reductions of signed integers to a minimum or maximum, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.reduce" and _is_signed_extreme(op):
            with ir.InsertionPoint(op), op.location:
                x, init = map(_exchange_signedness, op.operands)
                axes = list(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
                folded = hlo.reduce([x], [init], axes, _BODIES[_first(op)])
                replace(op, [_exchange_signedness(x) for x in folded])


def _first(reduction: Any) -> str:
    return str(reduction.regions[0].blocks[0].operations[0].operation.name)


def _is_signed_extreme(op: Any) -> bool:
    alone = len(op.results) == 1 and len(op.regions[0].blocks[0].operations) == 2
    return alone and _first(op) in _BODIES and hlo.dtype_of(op.operands[0]).kind == "i"


def _exchange_signedness(x: Value) -> Value:
    """Between signed and unsigned integers in an order-preserving way."""
    dtype = hlo.dtype_of(x)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    top = 1 << (8 * dtype.itemsize - 1)
    if dtype.kind == "i":
        bits = hlo.bitcast_convert(x, unsigned)
        return hlo.xor(bits, hlo.full_like(bits, top))
    return hlo.bitcast_convert(hlo.xor(x, hlo.full_like(x, top)), np.dtype(f"i{dtype.itemsize}"))
