"""Keep XLA from writing into what it still reads.

Problem: XLA computes a part of an array right into its place, in a copy of the array, even if the part is computed from
what it overwrites there. It looks whether that is so, but not through reshapes, which it moves past the update where a
dimension has size 1, and which it makes of gathers. Examples: `x.at[1:].set(x[:-1] + 1)[:, 0]` of a column, and
`y.at[1:].set(y[:-1])` of `y = 2 * x[rows]`, whose later elements came from new ones. Fix: such a part is written into
zeros, and the result selected from those and the array. Cost: time in proportion to the array instead of its part, so
that it is done only where there are such dimensions, reshapes or gathers.

Test: tests/xla/test_overlaps.py.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, maker, operations, sizes
from veery_lowering.passes.stablehlo.updates import crosses, is_single, viewed

_APART = frozenset("call cholesky convolution custom_call dot_general fft triangular_solve".split())


def part_overlaps(module: Any) -> None:
    """Write parts that are computed from other parts of the same array into zeros."""
    for op in operations(module.operation):
        if op.name == "stablehlo.dynamic_update_slice" and _may_be_reshaped(op.operands[0]):
            target, part, *starts = op.operands
            if _is_given(part) or (not is_single(part) and crosses(op, target, 1)):
                with op.location, ir.InsertionPoint(op):
                    op.results[0].replace_all_uses_with(_selected(target, part, starts))
                op.erase()


def _may_be_reshaped(target: Any) -> bool:
    return 1 in sizes(target) or viewed(target)[0] != target or _is_gathered(target)


def _is_gathered(target: Any) -> bool:
    """Whether a value is computed from what a gather gives, with nothing between that XLA computes by itself."""
    stack, found = [target], {target}
    while stack:
        x = stack.pop()
        name = base_name(maker(x))
        if name == "gather":
            return True
        if name and name not in _APART and not len(x.owner.regions):
            new = set(x.owner.operands) - found
            found |= new
            stack += new
    return False


def _is_given(part: Any) -> bool:
    """Whether a part is an argument of a function within the program, which may be computed from any other."""
    block = viewed(part)[0].owner
    if not isinstance(block, ir.Block) or block.owner.operation.name != "func.func":
        return False
    attributes = block.owner.operation.attributes
    return "sym_visibility" in attributes and ir.StringAttr(attributes["sym_visibility"]).value == "private"


def _selected(target: Any, part: Any, starts: list[Any]) -> Any:
    written = hlo.dynamic_update_slice(hlo.full_like(target, 0), part, starts)
    shape, lengths = hlo.shape_of(target), hlo.shape_of(part)
    inside = []
    for axis, (size, length) in enumerate(zip(shape, lengths, strict=True)):
        if length == size:
            continue
        start = hlo.convert(starts[axis], np.int32)
        zero, last = (hlo.constant(np.int32(n)) for n in (0, size - length))
        first = hlo.broadcast_in_dim(hlo.clamp(zero, start, last), shape, [])
        place = hlo.iota(np.int32, shape, axis)
        end = hlo.add(first, hlo.full_like(first, length))
        inside += [hlo.compare(place, first, "GE"), hlo.compare(place, end, "LT")]
    return hlo.select(functools.reduce(hlo.and_, inside), written, target) if inside else written
