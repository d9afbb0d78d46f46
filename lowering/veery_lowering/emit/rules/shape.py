"""Operations that move elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule


@rule("broadcast_in_dim", any_shape=True)
def _broadcast_in_dim(
    ctx: Context, x: Value, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any
) -> Value:
    return hlo.broadcast_in_dim(x, tuple(shape), tuple(broadcast_dimensions))


@rule("reshape", any_shape=True)
def _reshape(ctx: Context, x: Value, *, new_sizes: Sequence[int], dimensions: Any = None, **_: Any) -> Value:
    old = ctx.avals_in[0].shape
    if dimensions is not None:
        x, old = hlo.transpose(x, tuple(dimensions)), [old[i] for i in dimensions]
    return hlo.reshape(x, tuple(new_sizes), old)


@rule("squeeze", any_shape=True)
def _squeeze(ctx: Context, x: Value, **_: Any) -> Value:
    return hlo.reshape(x, ctx.avals_out[0].shape, ctx.avals_in[0].shape)


@rule("transpose", any_shape=True)
def _transpose(ctx: Context, x: Value, *, permutation: Sequence[int], **_: Any) -> Value:
    product = hlo.transposed_product(x, permutation)
    return hlo.transpose(x, tuple(permutation)) if product is None else product


@rule("concatenate", any_shape=True)
def _concatenate(ctx: Context, *operands: Value, dimension: int, **_: Any) -> Value:
    # Empty operands between dynamic ones fail in IREE ("offset 1 is out-of-bounds").
    filled = [x for x, aval in zip(operands, ctx.avals_in) if aval.shape[dimension] != 0] or operands[:1]
    return filled[0] if len(filled) == 1 else hlo.concatenate(filled, dimension)


@rule("pad", any_shape=True)
def _pad(ctx: Context, x: Value, value: Value, *, padding_config: Sequence[tuple[int, int, int]], **_: Any) -> Value:
    low, high, interior = zip(*padding_config) if padding_config else ((), (), ())
    if not any((*low, *high, *interior)):
        return x
    return hlo.pad(x, value, low, high, interior)


@rule("rev", any_shape=True)
def _rev(ctx: Context, x: Value, *, dimensions: Sequence[int], **_: Any) -> Value:
    return reverse(x, tuple(dimensions))


def reverse(x: Value, dimensions: Sequence[int]) -> Value:
    """Reverse; unsigned integers go through the signed type, since `reverse` of them does not compile."""
    dtype = hlo.dtype_of(x)
    if not dimensions:
        return x
    if dtype.kind == "u":
        signed = hlo.bitcast_convert(x, np.dtype(f"int{8 * dtype.itemsize}"))
        return hlo.bitcast_convert(hlo.reverse(signed, dimensions), dtype)
    return hlo.reverse(x, dimensions)


@rule("iota", any_shape=True)
def _iota(ctx: Context, *_: Value, shape: Sequence[int], dimension: int, **__: Any) -> Value:
    return hlo.iota(ctx.avals_out[0].dtype, tuple(shape), dimension)


@rule("dim_as_value", any_shape=True)
def _dim_as_value(ctx: Context, *, dim: Any) -> Value:
    return hlo.scalar_of_size(dim, ctx.avals_out[0].dtype)


@rule("split", any_shape=True)
def _split(ctx: Context, x: Value, *, sizes: Sequence[int], axis: int, **_: Any) -> list[Value]:
    shape = hlo.shape_of(x)
    pieces, start = [], 0
    for size in sizes:
        starts = [start if i == axis else 0 for i in range(len(shape))]
        limits = [start + size if i == axis else n for i, n in enumerate(shape)]
        pieces.append(hlo.slice(x, starts, limits))
        start += size
    return pieces


@rule("copy", any_shape=True)
def _copy(ctx: Context, x: Value, **_: Any) -> Value:
    return x


@rule("optimization_barrier", any_shape=True)
def _optimization_barrier(ctx: Context, *operands: Value, **_: Any) -> list[Value]:
    return hlo.optimization_barrier(operands) if operands else []
