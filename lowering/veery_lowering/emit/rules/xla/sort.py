"""Sorting and top_k."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.sort import compare_keys


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
    shape = ctx.avals_in[0].shape
    last = len(shape) - 1
    order = [i for i in range(len(shape)) if i != axis % len(shape)] + [axis % len(shape)]
    if hlo.dtype_of(x).kind not in "biu":  # all NaN are alike; XLA orders them by their signs
        x = hlo.select(hlo.compare(x, x, "NE"), hlo.full_like(x, np.nan), x)
    values, indices = hlo.top_k(hlo.transpose(x, order), k)
    back = [int(i) for i in np.argsort(order)]
    indices = hlo.convert(indices, ctx.avals_out[1].dtype)
    return [hlo.transpose(y, back) if order[last] != last else y for y in (values, indices)]
