"""Static and dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule


@rule("slice", any_shape=True)
def _slice(
    ctx: Context,
    x: Value,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
    **_: Any,
) -> Value:
    if tuple(limit_indices) == ctx.avals_in[0].shape and not any(start_indices) and set(strides or (1,)) == {1}:
        return x
    return hlo.slice(x, start_indices, limit_indices, strides)


@rule("dynamic_slice", any_shape=True)
def _dynamic_slice(ctx: Context, x: Value, *starts: Value, slice_sizes: Sequence[int], **_: Any) -> Value:
    if tuple(slice_sizes) == ctx.avals_in[0].shape:
        return x
    if 0 in slice_sizes:
        return hlo.full(0, tuple(slice_sizes), hlo.dtype_of(x))
    return hlo.dynamic_slice(x, start_indices(starts), tuple(slice_sizes))


@rule("dynamic_update_slice", any_shape=True)
def _dynamic_update_slice(ctx: Context, x: Value, update: Value, *starts: Value, **_: Any) -> Value:
    if 0 in ctx.avals_in[1].shape:
        return x
    if ctx.avals_in[1].shape == ctx.avals_in[0].shape:
        return update
    return hlo.dynamic_update_slice(x, update, start_indices(starts))


def start_indices(starts: Sequence[Value]) -> list[Value]:
    """The start indices in one dtype for which IREE clamps rightly: int32, or what they are if that is wider.

    Negative ones of 8 and 16 bits are not clamped to 0 by it, uint64 ones above 2**63 are.
    """
    dtypes = {hlo.dtype_of(start) for start in starts}
    if dtypes <= {np.dtype(np.int32)} or dtypes == {np.dtype(np.int64)} or dtypes == {np.dtype(np.uint32)}:
        return list(starts)
    wide = any(dtype.itemsize == 8 for dtype in dtypes) or np.dtype(np.uint32) in dtypes
    return [_signed(start, np.int64 if wide else np.int32) for start in starts]


def _signed(start: Value, dtype: type) -> Value:
    if hlo.dtype_of(start) == np.uint64:
        start = hlo.minimum(start, hlo.full_like(start, np.iinfo(np.int64).max))
    return hlo.convert(start, dtype)
