"""Multiply by -1 instead of negating.

Problem: IREE 3.13 subtracts what is negated before it is summed, and of a difference it finds no neutral element: an
error. Fix: in programs with reductions floats are multiplied by -1, which gives the same bits. Test:
tests/gpu/test_programs.py.
"""

from __future__ import annotations

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import FLOATS, replace


def multiply_for_negations(module: ir.Module) -> None:
    """Rewrite negations of floats, in place, if there are reductions."""
    found = operations(module.operation)
    if not any(op.name == "stablehlo.reduce" for op in found):
        return
    for operation in found:
        if operation.name == "stablehlo.negate" and hlo.dtype_of(operation.results[0]) in FLOATS:
            with ir.InsertionPoint(operation), operation.location:
                (x,) = operation.operands
                replace(operation, [hlo.multiply(x, hlo.full_like(x, -1))])
