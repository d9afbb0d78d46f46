"""Sum long products by parts.

Problem: llvmpipe ends the loops of a shader after 65535 rounds in all, without a word. Example: the product of two
vectors of 2**17 ones is 65535. Fix: parts of the longest contracted axis are multiplied first, and summed. Test:
tests/gpu/test_programs.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import (
    LONGEST_CONTRACTION,
    count_of,
    divide_axis,
    part_of,
    replace,
    sum_of_parts,
)
from veery_lowering.passes.stablehlo.shaders.reductions import reduce_by_parts
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

_STAGE = 1 << 10


def split_contractions(module: ir.Module) -> None:
    """Rewrite products that sum many terms, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.dot_general":
            with ir.InsertionPoint(op), op.location:
                _split(op)


def _split(operation: Any) -> None:
    a, b = operation.operands
    batch, contracting = hlo.product_axes(operation, "batching"), hlo.product_axes(operation, "contracting")
    shape = hlo.shape_of(a)
    if count_of([shape[axis] for axis in contracting[0]]) <= LONGEST_CONTRACTION:
        return
    if not all(is_static(shape[axis]) for axis in contracting[0]):  # there is one contracted axis then
        (left,), (right,) = contracting
        # The loop reads arrays: of what it would compute in turn it frees what is not its own ("queue_dealloca").
        a, b = hlo.optimization_barrier([a, b])

        def product(start: Any, size: Any) -> Value:
            sides = part_of(a, left, start, size), part_of(b, right, start, size)
            dtype = hlo.dtype_of(operation.results[0])
            return hlo.dot_general(*sides, contracting=contracting, batch=batch, dtype=dtype)

        return replace(operation, [sum_of_parts(product, shape[left], LONGEST_CONTRACTION)])
    longest = max(range(len(contracting[0])), key=lambda i: shape[contracting[0][i]])
    sides, batches, rests = [], [], []
    for x, own, shared in zip((a, b), contracting, batch):
        axis = own[longest]
        sides.append(divide_axis(x, axis, _STAGE, hlo.full(0, (), hlo.dtype_of(x))))
        batches.append([*(i + (i > axis) for i in shared), axis])
        rests.append([i + (i >= axis) for i in own])
    dtype = hlo.dtype_of(operation.results[0])
    product = hlo.dot_general(*sides, contracting=(rests[0], rests[1]), batch=(batches[0], batches[1]), dtype=dtype)
    zero = hlo.full(0, (), dtype)
    total = reduce_by_parts([product], [zero], [len(batches[0]) - 1], lambda x, y: [hlo.add(x, y)])
    replace(operation, total)
