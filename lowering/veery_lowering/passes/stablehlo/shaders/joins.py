"""Write what is joined into one array, where shapes are symbolic.

Problem: IREE's loop over the elements of the result reads a column from another place. Example: of x[:, 1:2], in an
`all` over two columns, it reads x[1:, 0]; the result is wrong from the sixth of seven rows on. Fix: the parts are
written into one array, one after the other. Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import replace


def join_by_writing(module: ir.Module) -> None:
    """Rewrite concatenations to arrays of unknown sizes, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.concatenate" and not op.results[0].type.has_static_shape:
            with ir.InsertionPoint(op), op.location:
                axis = ir.IntegerAttr(op.attributes["dimension"]).value
                replace(op, hlo.optimization_barrier([hlo.join_by_writing(list(op.operands), axis)]))
