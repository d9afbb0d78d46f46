"""Do long reductions in stages.

Problem: llvmpipe ends the loops of a shader after 65535 rounds in all, without a word. Example: a sum of 2**20 ones is
65535. Fix: parts of the longest axis are folded first, until what is left is short. Test:
tests/gpu/test_programs.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import LONGEST_REDUCTION, body_of, count_of, divide_axis, replace
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

_STAGE = 256  # elements of an axis of unknown size that are folded first


def split_reductions(module: ir.Module) -> None:
    """Rewrite long reductions, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.reduce":
            count = len(op.results)
            operands, inits = list(op.operands)[:count], list(op.operands)[count:]
            axes = list(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
            if count_of([hlo.shape_of(operands[0])[axis] for axis in axes]) > LONGEST_REDUCTION:
                with ir.InsertionPoint(op), op.location:
                    replace(op, reduce_by_parts(operands, inits, axes, body_of(op)))


def reduce_by_parts(
    operands: list[Value], inits: Sequence[Value], axes: Sequence[int], body: Callable[..., list[Value]]
) -> list[Value]:
    """Fold parts of the longest axis first, until what is left is short."""
    shape = hlo.shape_of(operands[0])
    total = math.prod(shape[axis] for axis in axes if is_static(shape[axis]))
    unknown = [axis for axis in axes if not is_static(shape[axis])]
    if 0 in shape or (total <= LONGEST_REDUCTION and not unknown):
        results: list[Value] = hlo.reduce(operands, inits, axes, body)
        return results
    if unknown:
        return _reduce_unknown(operands, inits, axes, unknown[0], body)
    axis = max(axes, key=lambda a: shape[a])
    part = min(1024, max(2, 1 << math.ceil(math.log2(math.isqrt(total)))))
    if part >= shape[axis]:
        folded = hlo.reduce(operands, inits, [axis], body)
        return reduce_by_parts(folded, inits, [a - (a > axis) for a in axes if a != axis], body)
    split = [divide_axis(x, axis, part, init) for x, init in zip(operands, inits)]
    return reduce_by_parts(hlo.reduce(split, inits, [axis + 1], body), inits, axes, body)


def _reduce_unknown(
    operands: list[Value], inits: Sequence[Value], axes: Sequence[int], axis: int, body: Callable[..., list[Value]]
) -> list[Value]:
    """Fold an axis of unknown size in two stages, the other axes in the first of them."""
    split = [hlo.split_axis(x, axis, _STAGE, init) for x, init in zip(operands, inits)]
    others = [a + (a > axis) for a in axes if a != axis]
    folded = reduce_by_parts(split, inits, [axis + 1, *others], body)
    results: list[Value] = hlo.reduce(folded, inits, [axis - sum(a < axis for a in others)], body)
    return results
