"""dot_general."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.types import is_static


@rule("dot_general", any_shape=True)
def _dot_general(ctx: Context, a: Value, b: Value, *, dimension_numbers: Any, **_: Any) -> Value:
    """Precision is not passed on: IREE computes in the operands' full precision."""
    contracting, batch = dimension_numbers
    out = np.dtype(ctx.avals_out[0].dtype)
    if hlo.dtype_of(a) == np.bool_:
        # The sum of products of i1 is an exclusive or.
        a, b = hlo.convert(a, np.int32), hlo.convert(b, np.int32)
    accumulator = _accumulator(out)
    if all(is_static(size) for aval in ctx.avals_in for size in aval.shape):
        product = hlo.dot_general(a, b, contracting=contracting, batch=batch, dtype=accumulator)
    else:
        product = _dynamic_product(ctx, a, b, contracting, batch, accumulator)
    if out == np.bool_:
        return hlo.compare(product, hlo.full_like(product, 0), "NE")
    return hlo.convert(product, out) if accumulator != out else product


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


def _accumulator(out: np.dtype) -> np.dtype:
    """The dtype to sum in: half precision loses digits with every term."""
    if out == np.bool_:
        return np.dtype(np.int32)
    narrow_float = out.kind in "fV" and out.itemsize < 4
    return np.dtype(np.float32) if narrow_float else out
