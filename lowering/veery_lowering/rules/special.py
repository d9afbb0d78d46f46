"""Special functions."""

from __future__ import annotations

from collections.abc import Callable

from veery_lowering import stablehlo as hlo
from veery_lowering.numerics import gamma, incomplete
from veery_lowering.numerics._expr import Expr
from veery_lowering.rules.elementwise import elementary


def _zeta(x: Expr, q: Expr) -> Expr:
    return Expr(hlo.zeta(x.value, q.value))


_FORMULAS: dict[str, Callable[..., Expr]] = {
    "erf": gamma.erf,
    "erfc": gamma.erfc,
    "erf_inv": gamma.erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "polygamma": gamma.polygamma,
    "zeta": _zeta,
    "bessel_i0e": gamma.bessel_i0e,
    "bessel_i1e": gamma.bessel_i1e,
    "igamma": incomplete.igamma,
    "igammac": incomplete.igammac,
    "igamma_grad_a": incomplete.igamma_grad_a,
    "random_gamma_grad": incomplete.random_gamma_grad,
    "regularized_incomplete_beta": incomplete.regularized_incomplete_beta,
}
for _name, _formula in _FORMULAS.items():
    elementary(_name, _formula)
