"""Special functions: the error function, the gamma and beta families, zeta, Bessel functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery._core import cost
from veery.lax._arithmetic import add, div, mul, neg, sign, square, sub
from veery.lax._compare import eq, select
from veery.lax._declare import FLOAT, nary, unary
from veery.lax._operands import Array, ArrayLike, apply, full_like
from veery.lax._reference import in_double
from veery.lax._special_reference import (
    betainc_reference,
    digamma_reference,
    igamma_grad_a_reference,
    polygamma_reference,
    random_gamma_grad_reference,
    scipy_special,
    zeta_reference,
)
from veery.lax._transcendental import exp, log, log1p

# Public functions. All take floats.


def erf(x: ArrayLike) -> Array:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    >>> from veery import lax
    >>> round(float(lax.erf(1.0)), 4)
    0.8427
    """
    return apply(erf_p, x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate for large x.

    >>> from veery import lax
    >>> round(float(lax.erfc(1.0)), 4)
    0.1573
    """
    return apply(erfc_p, x)


def erf_inv(x: ArrayLike) -> Array:
    """The number whose erf is x.

    >>> from veery import lax
    >>> round(float(lax.erf_inv(0.5)), 4)
    0.4769
    """
    return apply(erf_inv_p, x)


def lgamma(x: ArrayLike) -> Array:
    """log |Gamma(x)|.

    >>> from veery import lax
    >>> round(float(lax.lgamma(5.0)), 4)
    3.1781
    """
    return apply(lgamma_p, x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of lgamma; NaN at 0 and the negative integers.

    >>> from veery import lax
    >>> round(float(lax.digamma(1.0)), 4)
    -0.5772
    """
    return apply(digamma_p, x)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x, for whole numbers m given as floats.

    >>> from veery import lax
    >>> round(float(lax.polygamma(1.0, 1.0)), 4)
    1.6449
    """
    return apply(polygamma_p, m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz' zeta function: the sum over k >= 0 of (k + q)^-x, for x > 1.

    >>> from veery import lax
    >>> round(float(lax.zeta(2.0, 1.0)), 4)
    1.6449
    """
    return apply(zeta_p, x, q)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function: the distribution function of Gamma(a) at x.

    >>> from veery import lax
    >>> round(float(lax.igamma(1.0, 1.0)), 4)
    0.6321
    """
    return apply(igamma_p, a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """1 - igamma(a, x), accurate for large x.

    >>> from veery import lax
    >>> round(float(lax.igammac(1.0, 1.0)), 4)
    0.3679
    """
    return apply(igammac_p, a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of igamma(a, x) with respect to a.

    >>> from veery import lax
    >>> round(float(lax.igamma_grad_a(1.0, 1.0)), 4)
    -0.4317
    """
    return apply(igamma_grad_a_p, a, x)


def random_gamma_grad(a: ArrayLike, x: ArrayLike, *, dtype: Any = None) -> Array:
    """The derivative with respect to a of a sample x of the distribution Gamma(a), at a fixed probability.

    Args:
        a: the distribution's shape parameter, positive.
        x: samples.
        dtype: must be None or that of the operands.

    >>> from veery import lax
    >>> round(float(lax.random_gamma_grad(1.0, 1.0)), 4)
    1.1736
    """
    return apply(random_gamma_grad_p, a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function: the distribution function of Beta(a, b) at x in [0, 1].

    >>> from veery import lax
    >>> round(float(lax.betainc(1.0, 2.0, 0.5)), 4)
    0.75
    """
    return apply(regularized_incomplete_beta_p, a, b, x)


def bessel_i0e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0, times exp(-|x|).

    >>> from veery import lax
    >>> round(float(lax.bessel_i0e(1.0)), 4)
    0.4658
    """
    return apply(bessel_i0e_p, x)


def bessel_i1e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1, times exp(-|x|).

    >>> from veery import lax
    >>> round(float(lax.bessel_i1e(1.0)), 4)
    0.2079
    """
    return apply(bessel_i1e_p, x)


# Primitives. `t` is the tangent, `out` the result.


def _no_derivative(message: str) -> Any:
    def rule(t: Any, *_: Any) -> Any:
        raise ValueError(message)

    return rule


def _gamma_density(a: Any, x: Any) -> Any:
    """x^(a-1) exp(-x) / Gamma(a)"""
    return exp(sub(sub(mul(sub(a, 1), log(x)), x), lgamma(a)))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b)"""
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    return exp(sub(add(mul(sub(b, 1), log1p(neg(x))), mul(sub(a, 1), log(x))), log_beta))


def _bessel_i1e_jvp(t: Any, out: Any, x: Any) -> Any:
    """i0e(x) - i1e(x) (sign(x) + 1/x), whose limit at 0 is 1/2"""
    at_zero = eq(x, 0)
    y = select(at_zero, full_like(x, 1), x)
    slope = sub(bessel_i0e(y), mul(out, add(sign(y), div(1.0, y))))
    return mul(t, select(at_zero, full_like(x, 0.5), slope))


erf_p = unary(
    "erf", FLOAT, checks=("nan",), cost=cost.transcendental, reference=in_double(lambda x: scipy_special().erf(x)),
    jvp=lambda t, out, x: mul(t, mul(exp(neg(square(x))), 2 / math.sqrt(math.pi))),
)  # fmt: skip


def _erfc_reference(x: np.ndarray) -> np.ndarray:
    """1 - erf(x) of doubles: SciPy's loses the digits that rounding x**2 costs, 256 ulp at 25."""
    a = np.clip(x, 1.0, 30.0)
    head = (a.view(np.uint64) >> np.uint64(27) << np.uint64(27)).view(np.float64)
    tail = scipy_special().erfcx(a) * np.exp(-(head * head)) * np.exp((head - a) * (a + head))
    return np.where(x > 1, tail, scipy_special().erfc(x))


erfc_p = unary(
    "erfc", FLOAT, checks=("nan",), cost=cost.transcendental, reference=in_double(_erfc_reference),
    jvp=lambda t, out, x: mul(t, mul(exp(neg(square(x))), -2 / math.sqrt(math.pi))),
)  # fmt: skip
erf_inv_p = unary(
    "erf_inv", FLOAT, checks=("nan",), cost=cost.transcendental,
    reference=in_double(lambda x: scipy_special().erfinv(x)),
    jvp=lambda t, out, x: mul(t, mul(exp(square(out)), math.sqrt(math.pi) / 2)),
)  # fmt: skip
lgamma_p = unary(
    "lgamma", FLOAT, checks=("nan",), cost=cost.transcendental,
    reference=in_double(lambda x: np.where(np.isinf(x), np.inf, scipy_special().gammaln(x))),
    jvp=lambda t, out, x: mul(t, digamma(x)),
)  # fmt: skip
digamma_p = unary(
    "digamma", FLOAT, checks=("nan",), cost=cost.transcendental, reference=in_double(digamma_reference),
    jvp=lambda t, out, x: mul(t, polygamma(full_like(x, 1), x)),
)  # fmt: skip
polygamma_p = nary(
    "polygamma", 2, FLOAT, reference=in_double(polygamma_reference),
    jvp=(
        _no_derivative("polygamma gradient with respect to m is not supported"),
        lambda t, out, m, x: mul(t, polygamma(add(m, 1), x)),
    ),
)  # fmt: skip
zeta_p = nary(
    "zeta", 2, FLOAT, reference=in_double(zeta_reference),
    jvp=(
        _no_derivative("zeta gradient with respect to x is not supported"),
        lambda t, out, x, q: mul(t, neg(mul(x, zeta(add(x, 1), q)))),
    ),
)  # fmt: skip
igamma_p = nary(
    "igamma", 2, FLOAT, checks=("nan",), reference=in_double(lambda a, x: scipy_special().gammainc(a, x)),
    jvp=(lambda t, out, a, x: mul(t, igamma_grad_a(a, x)), lambda t, out, a, x: mul(t, _gamma_density(a, x))),
)  # fmt: skip
igammac_p = nary(
    "igammac", 2, FLOAT, checks=("nan",), reference=in_double(lambda a, x: scipy_special().gammaincc(a, x)),
    jvp=(
        lambda t, out, a, x: mul(t, neg(igamma_grad_a(a, x))),
        lambda t, out, a, x: mul(t, neg(_gamma_density(a, x))),
    ),
)  # fmt: skip
igamma_grad_a_p = nary(
    "igamma_grad_a", 2, FLOAT, reference=in_double(igamma_grad_a_reference),
    jvp=(
        _no_derivative("igamma_grad_a gradient with respect to a is not supported"),
        # the derivative by a of the density of Gamma(a)
        lambda t, out, a, x: mul(t, mul(_gamma_density(a, x), sub(log(x), digamma(a)))),
    ),
)  # fmt: skip
random_gamma_grad_p = nary(
    "random_gamma_grad", 2, FLOAT, reference=in_double(random_gamma_grad_reference),
    jvp=(_no_derivative("random_gamma_grad gradient is not supported"),) * 2,
)  # fmt: skip
regularized_incomplete_beta_p = nary(
    "regularized_incomplete_beta", 3, FLOAT, checks=("nan",), reference=in_double(betainc_reference),
    jvp=(
        *(_no_derivative("Betainc gradient with respect to a and b not supported."),) * 2,
        lambda t, out, a, b, x: mul(t, _beta_density(a, b, x)),
    ),
)  # fmt: skip
bessel_i0e_p = unary(
    "bessel_i0e", FLOAT, checks=("nan",), reference=in_double(lambda x: scipy_special().i0e(x)),
    jvp=lambda t, out, x: mul(t, sub(bessel_i1e(x), mul(sign(x), out))),
)  # fmt: skip
bessel_i1e_p = unary(
    "bessel_i1e", FLOAT, checks=("nan",), reference=in_double(lambda x: scipy_special().i1e(x)), jvp=_bessel_i1e_jvp
)
