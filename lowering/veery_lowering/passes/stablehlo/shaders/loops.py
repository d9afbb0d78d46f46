"""Let each loop start from arrays of its own, where shapes are symbolic.

Problem: of two loops that start from one array the one writes into the other's, or frees it ("queued for
deallocation"). Fix: barriers before what loops start from. Test: tests/gpu/test_many_sizes.py.
"""

from __future__ import annotations

from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand


def separate_loops(module: ir.Module) -> None:
    """Put barriers before operands of unknown sizes of loops, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.while":
            for i, x in enumerate(op.operands):
                if not x.type.has_static_shape:
                    bar_operand(op, i)
