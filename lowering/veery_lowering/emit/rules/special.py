"""Special functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veery_lowering.emit.numerics import error_function, gamma, incomplete, samples
from veery_lowering.emit.numerics._expr import Expr
from veery_lowering.emit.rules.elementwise import elementary


def _erf(x: Expr) -> Expr:
    return error_function.erf(x) if x.dtype == np.float32 else gamma.erf(x)


def _erf_inv(x: Expr) -> Expr:
    return error_function.erf_inv(x) if x.dtype == np.float32 else gamma.erf_inv(x)


_FORMULAS: dict[str, Callable[..., Expr]] = {
    "erf": _erf,
    "erfc": gamma.erfc,
    "erf_inv": _erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "polygamma": gamma.polygamma,
    "zeta": gamma.zeta,
    "bessel_i0e": gamma.bessel_i0e,
    "bessel_i1e": gamma.bessel_i1e,
    "igamma": incomplete.igamma,
    "igammac": incomplete.igammac,
    "igamma_grad_a": incomplete.igamma_grad_a,
    "random_gamma_grad": incomplete.random_gamma_grad,
    "regularized_incomplete_beta": incomplete.regularized_incomplete_beta,
    "sample_exp": samples.exp,
    "sample_log": samples.log,
    "sample_log1p": samples.log1p,
    "sample_pow": samples.pow,
    "sample_rsqrt": samples.rsqrt,
    "sample_tan": samples.tan,
}
for _name, _formula in _FORMULAS.items():
    elementary(_name, _formula)
