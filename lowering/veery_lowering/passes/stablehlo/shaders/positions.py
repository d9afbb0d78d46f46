"""Keep positions out of reductions.

Problem: IREE 3.13 does not compile reductions into which an iota is fused ("failed to legalize 'memref.alloc'").
Example: `argmax`. Fix: positions are arrays of their own in programs with reductions. Test:
tests/gpu/test_programs.py.
"""

from __future__ import annotations

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import replace


def materialize_positions(module: ir.Module) -> None:
    """Put barriers behind positions, in place, if there are reductions."""
    found = operations(module.operation)
    if not any(op.name == "stablehlo.reduce" for op in found):
        return
    for operation in found:
        if operation.name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
            continue
        (result,) = operation.results
        shape = hlo.shape_of(result) if operation.name == "stablehlo.iota" else hlo.sizes_of(operation.operands[0])
        axis = ir.IntegerAttr(operation.attributes["iota_dimension"]).value
        with ir.InsertionPoint(operation), operation.location:
            line = hlo.iota(hlo.dtype_of(result), (shape[axis],), 0)
            (line,) = hlo.optimization_barrier([line])
            replace(operation, [hlo.broadcast_in_dim(line, shape, [axis])])
