"""Special functions."""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.registry import rule
from veery_lowering.stablehlo import Value


@rule("erf")
def _erf(ctx: Any, x: Value) -> Value:
    return hlo.erf(x)


@rule("erfc")
def _erfc(ctx: Any, x: Value) -> Value:
    return hlo.erfc(x)


@rule("erf_inv")
def _erf_inv(ctx: Any, x: Value) -> Value:
    return hlo.erf_inv(x)


@rule("lgamma")
def _lgamma(ctx: Any, x: Value) -> Value:
    return hlo.lgamma(x)


@rule("digamma")
def _digamma(ctx: Any, x: Value) -> Value:
    return hlo.digamma(x)


@rule("polygamma")
def _polygamma(ctx: Any, n: Value, x: Value) -> Value:
    return hlo.polygamma(n, x)


@rule("zeta")
def _zeta(ctx: Any, x: Value, q: Value) -> Value:
    return hlo.zeta(x, q)


@rule("bessel_i1e")
def _bessel_i1e(ctx: Any, x: Value) -> Value:
    return hlo.bessel_i1e(x)
