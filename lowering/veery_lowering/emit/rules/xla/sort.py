"""Sorting and top_k."""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.sort import compare_keys, of_ranks, ranks


@rule("sort", target="xla")
def _sort(ctx: Context, *operands: Value, dimension: int, num_keys: int = 1, **_: Any) -> list[Value]:
    shape = ctx.avals_in[0].shape
    if shape[dimension] in (0, 1) or 0 in shape:
        return list(operands)

    def precedes(*scalars: Value) -> Value:
        pairs = list(zip(scalars[::2], scalars[1::2]))[:num_keys]
        less, _ = compare_keys(*pairs[-1])
        for a, b in reversed(pairs[:-1]):
            ahead, equal = compare_keys(a, b)
            less = hlo.or_(ahead, hlo.and_(equal, less))
        return less

    return hlo.sort(list(operands), dimension, precedes)


@rule("top_k", target="xla")
def _top_k(ctx: Context, x: Value, *, k: int, axis: int = -1, **_: Any) -> list[Value]:
    """By a sort of integers that order like the numbers, since plugins of other releases do not read chlo.top_k."""
    shape = ctx.avals_in[0].shape
    axis %= len(shape)
    floating = hlo.dtype_of(x).kind not in "biu"
    keys = ranks(x) if floating else x
    index = hlo.iota(ctx.avals_out[1].dtype, shape, axis)
    found = hlo.sort([keys, index], axis, lambda a, b, *_: hlo.compare(a, b, "GT"))
    limits = [k if i == axis else n for i, n in enumerate(shape)]
    values, indices = (hlo.slice(y, [0] * len(shape), limits) for y in found)
    return [of_ranks(values, hlo.dtype_of(x)) if floating else values, indices]
