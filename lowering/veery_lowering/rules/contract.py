"""dot_general."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.registry import Context, Value, rule


@rule("dot_general")
def _dot_general(ctx: Context, a: Value, b: Value, *, dimension_numbers: Any, **_: Any) -> Value:
    """Precision is not passed on: IREE computes in the operands' full precision."""
    contracting, batch = dimension_numbers
    out = np.dtype(ctx.avals_out[0].dtype)
    if hlo.dtype_of(a) == np.bool_:
        # The sum of products of i1 is an exclusive or.
        a, b = hlo.convert(a, np.int32), hlo.convert(b, np.int32)
    accumulator = _accumulator(out)
    product = hlo.dot_general(a, b, contracting=contracting, batch=batch, dtype=accumulator)
    if out == np.bool_:
        return hlo.compare(product, hlo.full_like(product, 0), "NE")
    return hlo.convert(product, out) if accumulator != out else product


def _accumulator(out: np.dtype) -> np.dtype:
    """The dtype to sum in: half precision loses digits with every term."""
    if out == np.bool_:
        return np.dtype(np.int32)
    narrow_float = out.kind in "fV" and out.itemsize < 4
    return np.dtype(np.float32) if narrow_float else out
