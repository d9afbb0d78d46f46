"""dot_general."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.convert import convert_dtype, is_float
from veery_lowering.types import is_static

# The sizes of 8-bit integers; rows and columns of what is worth conversions (of 8x512 by 512x512 it takes 68 us, so
# 102); in how many parts sums may be taken.
_LARGEST = {np.dtype(np.bool_): 1, np.dtype(np.int8): 128, np.dtype(np.uint8): 255}
_LEAST_SIDE = 48
_MOST_PARTS = 16


@rule("dot_general", any_shape=True)
def _dot_general(ctx: Context, a: Value, b: Value, *, dimension_numbers: Any, **_: Any) -> Value:
    """Precision is not passed on: IREE computes in the operands' full precision."""
    contracting, batch = dimension_numbers
    out = np.dtype(ctx.avals_out[0].dtype)
    if ctx.target == "cpu" and (depth := _exact_depth(ctx, contracting, batch)):
        exact = _by_floats(a, b, contracting, batch, depth)
        return hlo.convert(exact, out) if out != np.int32 else exact
    a, b, accumulator = factors(a, b, out)
    if all(is_static(size) for aval in ctx.avals_in for size in aval.shape):
        product = hlo.dot_general(a, b, contracting=contracting, batch=batch, dtype=accumulator)
    else:
        product = _dynamic_product(ctx, a, b, contracting, batch, accumulator)
    return convert_dtype(product, out)


def _exact_depth(ctx: Context, contracting: Any, batch: Any) -> int:
    """Of how many terms float32 has sums of products of such integers exactly; 0 where floats are no gain.

    IREE multiplies matrices of 8-bit integers by scalar code: two of 316x316 take 2.6 ms, as float32 0.4.
    """
    (left, right), out = ctx.avals_in, np.dtype(ctx.avals_out[0].dtype)
    known = all(is_static(size) for aval in ctx.avals_in for size in aval.shape)
    if not known or out.kind not in "biu" or not {left.dtype, right.dtype} <= _LARGEST.keys():
        return 0
    sides = [
        math.prod(size for i, size in enumerate(x.shape) if i not in (*summed, *batched))
        for x, summed, batched in zip((left, right), contracting, batch)
    ]
    if min(sides) < _LEAST_SIDE:
        return 0
    depth = (1 << 24) // (_LARGEST[left.dtype] * _LARGEST[right.dtype])
    terms = _size(left.shape, contracting[0])
    return depth if terms <= depth or (len(contracting[0]) == 1 and terms <= _MOST_PARTS * depth) else 0


def _by_floats(a: Value, b: Value, contracting: Any, batch: Any, depth: int) -> Value:
    """A product of small integers as the sum, in int32, of those of at most `depth` terms in float32."""
    # Apart, for within the product IREE converts element by element: 2.4 ms.
    a, b = hlo.optimization_barrier([hlo.convert(x, np.float32) for x in (a, b)])
    total = None
    shapes = [hlo.shape_of(x) for x in (a, b)]
    for start in range(0, max(1, _size(shapes[0], contracting[0])), depth):
        parts = [_part(x, axes, start, depth) for x, axes in zip((a, b), contracting)]
        part = hlo.convert(hlo.dot_general(*parts, contracting=contracting, batch=batch, dtype=np.float32), np.int32)
        total = part if total is None else hlo.add(total, part)
    assert total is not None
    return total


def _part(x: Value, axes: Sequence[int], start: int, depth: int) -> Value:
    """The indices of the only contracted axis from `start` on; all of several, which are few."""
    shape = hlo.shape_of(x)
    if _size(shape, axes) <= depth:
        return x
    (axis,) = axes
    limits = [min(start + depth, n) if i == axis else n for i, n in enumerate(shape)]
    return hlo.slice(x, [start if i == axis else 0 for i in range(len(shape))], limits)


def _dynamic_product(ctx: Context, a: Value, b: Value, contracting: Any, batch: Any, dtype: np.dtype) -> Value:
    """A product of (batch, rows, depth) and (batch, depth, columns), without batch, rows and columns that are one.

    IREE brings other products into this form with reshapes to dynamic shapes, which it cannot compile.
    """
    shapes = [aval.shape for aval in ctx.avals_in]
    free = [[i for i in range(len(s)) if i not in (*c, *d)] for s, c, d in zip(shapes, contracting, batch)]
    rows, columns = (group if _size(s, group) != 1 else [] for s, group in zip(shapes, free))
    left, left_sizes = _grouped(a, shapes[0], batch[0], rows, contracting[0], depth_last=True)
    right, right_sizes = _grouped(b, shapes[1], batch[1], columns, contracting[1], depth_last=False)
    batched = [0] if batch[0] else []
    depths = len(left_sizes) - 1, len(batched)
    if rows and columns:
        product = hlo.dot_general(
            left, right, contracting=([depths[0]], [depths[1]]), batch=(batched, batched), dtype=dtype
        )
    else:
        # Of a matrix and a vector: IREE would make a product of matrices of it, and reshape the result.
        matrix, vector = (left, right) if rows else (right, left)
        shape, depth = (left_sizes, depths[0]) if rows else (right_sizes, depths[1])
        spread = hlo.broadcast_in_dim(hlo.convert(vector, dtype), shape, [*batched, depth])
        terms = hlo.multiply(hlo.convert(matrix, dtype), spread)
        product = hlo.reduce(terms, hlo.constant(np.zeros((), dtype)), (depth,), hlo.add)
    sizes = [*left_sizes[:-1], *right_sizes[len(batched) + 1 :]]
    return hlo.reshape(product, ctx.avals_out[0].shape, sizes)


def _grouped(
    x: Value, shape: Sequence[Any], batch: Sequence[int], free: Sequence[int], depth: Sequence[int], *, depth_last: bool
) -> tuple[Value, list[Any]]:
    """x with its batch, free and contracted axes as one each (there is always a depth), and that shape."""
    groups = [*([batch] if batch else []), *([free] if free else [])]
    groups.insert(len(groups) if depth_last else bool(batch), depth)
    order = [axis for group in groups for axis in group]
    order += [axis for axis in range(len(shape)) if axis not in order]  # of size 1
    sizes = [_size(shape, group) for group in groups]
    return hlo.reshape(hlo.transpose(x, order), sizes, [shape[axis] for axis in order]), sizes


def _size(shape: Sequence[Any], axes: Sequence[int]) -> Any:
    return math.prod(shape[axis] for axis in axes)


def factors(a: Value, b: Value, out: np.dtype) -> tuple[Value, Value, np.dtype]:
    """The operands of a product in a dtype that compilers multiply, and the dtype in which to sum.

    Of operands of one dtype both are left as they are, and widened within the product. What is asked for in a dtype
    that does not hold the sum (`preferred_element_type`), of complex numbers a real one, of floats integers, is
    converted from the sum.
    """
    left, right = hlo.dtype_of(a), hlo.dtype_of(b)
    if "c" in (left.kind, right.kind, out.kind):
        summed = factor = np.result_type(*(x for x in (left, right, out) if x.kind == "c"))
    elif out == np.bool_ or left == right == np.bool_:  # the sum of products of i1 is an exclusive or
        a, b = convert_dtype(a, np.bool_), convert_dtype(b, np.bool_)
        summed, factor = accumulator_of(out), np.dtype(np.int32)
    else:
        floats = [x for x in (left, right) if is_float(x)]
        if floats and not is_float(out):
            out = np.dtype(np.float64 if np.float64 in floats else np.float32)
        summed = accumulator_of(out)
        # Within a product IREE takes integers that become floats, or are of another width, as signed.
        alike = left == right and is_float(left) == is_float(out)
        factor = left if alike else summed
    return convert_dtype(a, factor), convert_dtype(b, factor), summed


def accumulator_of(out: np.dtype) -> np.dtype:
    """The dtype to sum in: half precision loses digits with every term."""
    if out == np.bool_:
        return np.dtype(np.int32)
    narrow_float = out.kind in "fV" and out.itemsize < 4
    return np.dtype(np.float32) if narrow_float else out
