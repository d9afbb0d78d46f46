"""End dispatches after reductions, and before their results are spread over many elements.

Problem: IREE 3.13 fuses reductions with what reads their results. Two in one dispatch, as in a softmax, may not compile
("failed to legalize operation 'arith.constant'", of a vector of the tile's size). A sum of 40 numbers that scales 10**6
others becomes one dispatch, in which one invocation loops over all of them. Fix: barriers. Test:
tests/gpu/test_programs.py.
"""

from __future__ import annotations

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand, behind_barrier
from veery_lowering.passes.stablehlo.shaders._parts import LONGEST_REDUCTION, count_of

_BROADCASTING = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.select",
    "stablehlo.clamp",
    "stablehlo.pad",
)


def end_dispatches_after_reductions(module: ir.Module, backend: str) -> None:
    """Keep a reduction out of the dispatch of its consumers: two in one (a softmax) may fail to compile.

    `failed to legalize operation 'arith.constant'`, of a vector of the tile's size. For CUDA the compiler crashes where
    complex results are fused (`x + x.sum()`): there is no memory for them that a workgroup shares.
    """
    for operation in operations(module.operation):
        if operation.name == "stablehlo.reduce":
            if backend == "vulkan" or any(hlo.dtype_of(result).kind == "c" for result in operation.results):
                behind_barrier(operation)


def end_dispatches_before_wide_broadcasts(module: ir.Module) -> None:
    """Keep a small result out of the dispatch of its large consumers.

    A sum of 40 numbers that scales 10**6 others becomes one dispatch, in which one invocation loops over all of them.
    """
    for operation in operations(module.operation):
        if operation.name not in _BROADCASTING:
            continue
        size = count_of(hlo.shape_of(operation.results[0]))
        arrays = 1 if operation.name == "stablehlo.dynamic_broadcast_in_dim" else len(operation.operands)
        for i, x in enumerate(list(operation.operands)[:arrays]):
            constant = maker(x) in ("stablehlo.constant", "stablehlo.iota")
            if not constant and size > LONGEST_REDUCTION * count_of(hlo.shape_of(x)):
                bar_operand(operation, i)
