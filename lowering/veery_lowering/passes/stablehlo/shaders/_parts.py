"""What the rewrites for shaders share: parts of arrays along an axis, and sums over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

# A reduction goes on in one invocation up to here; a longer one, or one of unknown length, is done in stages.
LONGEST_REDUCTION = 4096
LONGEST_CONTRACTION = 1 << 15
FLOATS = {np.dtype(np.float16): np.uint16, np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}


def count_of(sizes: Sequence[Any]) -> float:
    """How many elements there are at most."""
    return math.prod(size if is_static(size) else math.inf for size in sizes)


def replace(operation: Any, values: Sequence[Value]) -> None:
    for old, new in zip(operation.results, values):
        old.replace_all_uses_with(new)
    operation.erase()


def body_of(operation: Any) -> Callable[..., list[Value]]:
    """The body of a reduction as a function that writes a copy of it."""
    block = operation.regions[0].blocks[0]

    def body(*arguments: Value) -> list[Value]:
        values = dict(zip(block.arguments, arguments))
        for original in block.operations:
            here = [values.get(x, x) for x in original.operation.operands]
            if original.operation.name == "stablehlo.return":
                return here
            copy = original.operation.clone()
            for i, x in enumerate(here):
                copy.operands[i] = x
            values.update(zip(original.operation.results, copy.results))
        raise AssertionError("a reduction's body returns")

    return body


def divide_axis(x: Value, axis: int, part: int, padding: Value) -> Value:
    """[..., n, ...] as [..., ceil(n / part), part, ...], filled up with `padding`."""
    shape = hlo.shape_of(x)
    if not all(map(is_static, shape)):
        return hlo.split_axis(x, axis, part, padding)
    parts = -(-shape[axis] // part)
    missing = parts * part - shape[axis]
    if missing:
        zeros = [0] * len(shape)
        x = hlo.pad(x, padding, zeros, [missing if i == axis else 0 for i in range(len(shape))], zeros)
    return hlo.reshape(x, (*shape[:axis], parts, part, *shape[axis + 1 :]))


def part_of(x: Value, axis: int, start: Any, size: Any) -> Value:
    shape = hlo.shape_of(x)
    starts, sizes = [0] * len(shape), list(shape)
    starts[axis], sizes[axis] = start, size
    return hlo.extract_slice(x, starts, sizes, [1] * len(shape))


def slice_axis(x: Value, axis: int, start: int, stop: int) -> Value:
    shape = hlo.shape_of(x)
    starts = [start if i == axis else 0 for i in range(len(shape))]
    return hlo.slice(x, starts, [stop if i == axis else n for i, n in enumerate(shape)])


def sum_of_parts(term: Callable[[Any, Any], Value], length: Any, part: int) -> Value:
    """The sum of what `term` makes of the parts of a length that is known at run time, from their starts and sizes."""
    limit, step = hlo.scalar_of_size(length, np.int32), hlo.constant(np.int32(part))

    def add(start: Value, total: Value) -> list[Value]:
        at = hlo.Index.of_scalar(start)
        return [hlo.add(start, step), hlo.add(total, term(at, (hlo.Index.of(length) - at).min(part)))]

    first = term(0, hlo.Index.of(length).min(part))
    _, total = hlo.while_([step, first], lambda start, _: hlo.compare(start, limit, "LT"), add)
    return total
