"""Products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.contract import accumulator_of, factors
from veery_lowering.emit.rules.convert import convert_dtype

_PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")


def _precisions(precision: Any) -> list[str] | None:
    """The precision of both operands in StableHLO's words; None where nothing was asked for."""
    if precision is None:
        return None
    both = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    names = [str(getattr(each, "name", each)).upper() for each in both]
    return [name if name in _PRECISIONS else "DEFAULT" for name in names]


@rule("dot_general", target="xla")
def _dot_general(ctx: Context, a: Value, b: Value, *, dimension_numbers: Any, precision: Any = None, **_: Any) -> Value:
    contracting, batch = dimension_numbers
    out = np.dtype(ctx.avals_out[0].dtype)
    a, b, accumulator = factors(a, b, out)
    product = hlo.dot_general(
        a, b, contracting=contracting, batch=batch, dtype=accumulator, precision=_precisions(precision)
    )
    return convert_dtype(product, out)


@rule("conv_general_dilated", target="xla")
def _conv_general_dilated(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    **_: Any,
) -> Value:
    out = ctx.avals_out[0]
    dtype = np.dtype(out.dtype)
    if 0 in out.shape or 0 in hlo.shape_of(lhs) or 0 in hlo.shape_of(rhs):
        return hlo.full(0, out.shape, dtype)
    numbers = dimension_numbers
    specs = zip((numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec), ("bf", "oi", "bf"))
    lhs_text, rhs_text, out_text = (_layout(*spec) for spec in specs)
    result = hlo.convolution(
        lhs,
        rhs,
        dimension_numbers=f"{lhs_text}x{rhs_text}->{out_text}",
        shape=out.shape,
        dtype=accumulator_of(dtype),
        window_strides=window_strides,
        padding=padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=_precisions(precision),
    )
    return hlo.convert(result, dtype)


def _layout(spec: Sequence[int], letters: str) -> str:
    """StableHLO's text of a layout: spec lists the axes of two kinds, named by letters, and then those of space."""
    names = {axis: letters[i] if i < 2 else str(i - 2) for i, axis in enumerate(spec)}
    return f"[{', '.join(names[axis] for axis in range(len(spec)))}]"
