"""Comparisons, selection and clamping."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import rule
from veery_lowering.emit.rules.elementwise import elementwise
from veery_lowering.stablehlo import Value

_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _compare(direction: str, ctx: Any, a: Value, b: Value, **_: Any) -> Value:
    return hlo.compare(a, b, direction)


def _compare_total(direction: str, ctx: Any, a: Value, b: Value, **_: Any) -> Value:
    """Floats in the order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    is_float = ctx.avals_in[0].dtype.kind not in "biu"
    return hlo.compare(a, b, direction, "TOTALORDER" if is_float else None)


for _direction in _DIRECTIONS:
    elementwise(_direction.lower())(partial(_compare, _direction))
for _direction in ("EQ", "LT", "LE"):
    elementwise(f"{_direction.lower()}_to")(partial(_compare_total, _direction))


@rule("select_n", any_shape=True)
def _select_n(ctx: Any, which: Value, *cases: Value) -> Value:
    """cases[which]: `which` is bool (False picks the first) or int32, of the cases' shape or rank 0."""
    if len(cases) == 1:
        return cases[0]
    if hlo.dtype_of(which) == np.bool_:
        return hlo.select(which, cases[1], cases[0])
    result = cases[-1]
    for position in reversed(range(len(cases) - 1)):
        result = hlo.select(hlo.compare(which, hlo.full_like(which, position), "LE"), cases[position], result)
    return result


@rule("clamp", any_shape=True)
def _clamp(ctx: Any, low: Value, x: Value, high: Value) -> Value:
    return hlo.clamp(low, x, high)
