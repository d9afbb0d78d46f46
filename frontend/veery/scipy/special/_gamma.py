"""The gamma and beta functions and their relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import jvp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.avals import aval_of
from veery._core.shapes import concrete_int
from veery.numpy._elementwise import elementwise
from veery.numpy._promotion import Array, ArrayLike, promote_args_inexact
from veery.scipy.special._complex_gamma import STIRLING, complex_gamma, complex_loggamma
from veery.scipy.special._operands import is_complex, of_each, real
from veery.scipy.special._tables import GAMMA

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LARGE = 10.0  # from here on Stirling's series gives 16 digits

# ---------------------------------------------------------------------------------------------------------------------
# The gamma function


def stirling_tail(x: Array) -> Array:
    """The sum of Stirling's series, for x >= 10."""
    z = 1 / x
    square = z * z
    total = jnp.full_like(x, STIRLING[-1])
    for coefficient in STIRLING[-2::-1]:
        total = total * square + coefficient
    return total * z


def _gamma_of_positive(x: Array) -> Array:
    """Gamma(x) for x > 0: by a polynomial on [1, 2] and recurrence, from 10 on by Stirling's formula."""
    small = jnp.where(x < _LARGE, x, 1)
    factor = jnp.where(small < 1, 1 / small, 1)
    y = jnp.where(small < 1, small, small - 1)  # Gamma(1 + y), y exact
    for _ in range(int(_LARGE) - 2):
        factor = jnp.where(y > 1, factor * y, factor)
        y = jnp.where(y > 1, y - 1, y)
    near = factor * GAMMA[0](y)
    overflow = 36.0 if x.dtype == np.float32 else 172.0
    large = jnp.clip(x, _LARGE, overflow)
    half_power = jnp.power(large, 0.5 * large - 0.25)  # in two factors, of which none overflows
    far = half_power * jnp.exp(-large) * half_power * jnp.exp(_HALF_LOG_2PI + stirling_tail(large))
    return jnp.where(x < _LARGE, near, far)


def _sin_pi(x: Array) -> Array:
    """sin(pi x), exact in its zeros."""
    nearest = jnp.round(x)
    return jnp.sin(np.pi * (x - nearest)) * jnp.where(nearest % 2 == 0, 1, -1)


@custom_jvp
def gamma_of(x: Array) -> Array:
    """Gamma(x) of float32 or float64."""
    magnitude = jnp.abs(x)
    positive = _gamma_of_positive(jnp.where(magnitude > 0, magnitude, 1))
    pole = (x <= 0) & (x == jnp.floor(x))
    # Gamma(x) Gamma(-x) = -pi / (x sin(pi x))
    safe = jnp.where(pole | (x > 0), -0.5, x)
    negative = -np.pi / _sin_pi(safe) / (safe * positive)
    at_pole = jnp.where(x == 0, jnp.copysign(np.inf, x), np.nan)
    return jnp.where(jnp.isnan(x), x, jnp.where(pole, at_pole, jnp.where(x > 0, positive, negative)))


gamma_of.defjvps(lambda t, out, x: t * out * lax.digamma(x))


@elementwise
def gamma(x: ArrayLike) -> Array:
    """The gamma function; NaN at negative integers, infinite at zero.

    Args:
        x: array of real or complex numbers; integers become floats.

    >>> float(gamma(5.0))
    24.0
    """
    (y,) = promote_args_inexact("gamma", x)
    return complex_gamma(y) if is_complex(y) else _gamma(x)


_gamma = real(lambda x: gamma_of(x), name="gamma", weak=False)


@elementwise
def gammaln(x: ArrayLike) -> Array:
    """log |Gamma(x)|.

    Args:
        x: array of real numbers; integers become floats.

    >>> round(float(gammaln(5.0)), 4)
    3.1781
    """
    return lax.lgamma(*promote_args_inexact("gammaln", x))


@real(weak=False)
def gammasgn(x: ArrayLike) -> Array:
    """The sign of Gamma(x): that of the zero at zeros, NaN at negative integers.

    Args:
        x: array of real numbers.

    >>> gammasgn(np.array([2.5, -0.5, -1.5])).tolist()
    [1.0, -1.0, 1.0]
    """
    floor = jnp.floor(x)
    undefined = jnp.isnan(x) | ((x < 0) & (x == floor))
    negative = ((x < 0) & (floor % 2 != 0)) | ((x == 0) & jnp.signbit(x))
    return jnp.where(undefined, np.nan, jnp.where(negative, -1, 1)).astype(x.dtype)


@elementwise
def loggamma(x: ArrayLike) -> Array:
    """The principal branch of log Gamma(x); of real numbers NaN where x is not positive.

    Args:
        x: array of real or complex numbers; integers become floats.

    >>> round(float(loggamma(5.0)), 4)
    3.1781
    """
    (x,) = promote_args_inexact("loggamma", x)
    return complex_loggamma(x) if is_complex(x) else jnp.where(x > 0, lax.lgamma(x), np.nan)


@real(refusal=TypeError)
def _factorial(n: Array) -> Array:
    large = n > 1
    value = gamma_of(jnp.where(large, n, jnp.where(n < 0, 0, n) + 1))
    return jnp.where(n < 0, 0, jnp.where(large, n * value, value))  # n Gamma(n) where n + 1 would be rounded


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Gamma(n + 1), and 0 for negative n.

    Args:
        n: array of real numbers.
        exact: must be False.

    Raises:
        NotImplementedError: exact is True; Python's `math.factorial` gives such numbers.

    >>> float(factorial(4))
    24.0
    """
    if exact:
        raise NotImplementedError("factorial with exact=True: results are floats here; see math.factorial")
    return _factorial(n)


# ---------------------------------------------------------------------------------------------------------------------
# The beta function


def _log_ratio(a: Array, b: Array) -> Array:
    """log(Gamma(b) / Gamma(a + b)) for b >= 10, a >= 0: of Stirling's formula for both, large terms meet by hand."""
    total = a + b
    tail, tail_of_total = of_each(stirling_tail, b, total)
    ratio = a / b  # which may be too small for its dtype
    grown = jnp.where(jnp.abs(ratio) < 1e-20, a, (total - 0.5) * jnp.log1p(ratio))
    return tail - tail_of_total - grown - a * (jnp.log(b) - 1)


def _beta_of_small(p: Array, q: Array) -> Array:
    """B(p, q) for 0 < p, q < 10."""
    of_p, of_q, of_both = of_each(gamma_of, p, q, p + q)
    return of_p / of_both * of_q


def _log_beta_of_large(a: Array, b: Array) -> Array:
    """log |B(a, b)| unless both are small and positive."""
    p, q = jnp.minimum(a, b), jnp.maximum(a, b)
    below = (p < 0) & (p + q >= _LARGE)
    regular = ((p > 0) | below) & (q < np.inf)
    s = jnp.where(regular & (q >= _LARGE), q, 2 * _LARGE)
    r = jnp.where(regular & (p < _LARGE), p, 1)
    of_r, of_a, of_b, of_both = of_each(lax.lgamma, r, a, b, a + b)
    mixed = of_r + _log_ratio(r, s)
    r = jnp.where(regular & (p >= _LARGE), p, _LARGE)
    ratio = r / s
    tail_r, tail_s, tail = of_each(stirling_tail, r, s, r + s)
    far = _HALF_LOG_2PI - 0.5 * jnp.log(s) + (tail_r + tail_s - tail)
    far = far + (r - 0.5) * jnp.log(ratio / (1 + ratio)) - s * jnp.log1p(ratio)
    # The limits, and what has signs: there digits may cancel.
    other = jnp.where((p > 0) & (q == np.inf), -np.inf, of_a + of_b - of_both)
    other = jnp.where((p == 0) & (q < np.inf), np.inf, other)
    return jnp.where(regular, jnp.where(p < _LARGE, mixed, far), other)


def _are_small(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Whether 0 < a, b < 10; a and b, where they are."""
    small = (jnp.minimum(a, b) > 0) & (jnp.maximum(a, b) < _LARGE)
    return small, jnp.where(small, a, 1), jnp.where(small, b, 1)


@custom_jvp
def betaln_of(a: Array, b: Array) -> Array:
    """log |B(a, b)| of float32 or float64."""
    small, p, q = _are_small(a, b)
    return jnp.where(small, jnp.log(_beta_of_small(p, q)), _log_beta_of_large(a, b))


betaln_of.defjvps(
    lambda t, out, a, b: t * (lax.digamma(a) - lax.digamma(a + b)),
    lambda t, out, a, b: t * (lax.digamma(b) - lax.digamma(a + b)),
)


@real(refusal=TypeError)
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log |B(a, b)|, the logarithm of the beta function; for positive a and b without cancellation.

    Args:
        a: array of real numbers.
        b: the same.

    >>> round(float(betaln(2.0, 3.0)), 4)
    -2.4849
    """
    return betaln_of(a, b)


@custom_jvp
def beta_of(a: Array, b: Array) -> Array:
    """B(a, b) of float32 or float64."""
    small, p, q = _are_small(a, b)
    sign_a, sign_b, sign = of_each(gammasgn, a, b, a + b)
    return jnp.where(small, _beta_of_small(p, q), sign_a * sign_b * sign * jnp.exp(_log_beta_of_large(a, b)))


beta_of.defjvps(
    lambda t, out, a, b: t * out * (lax.digamma(a) - lax.digamma(a + b)),
    lambda t, out, a, b: t * out * (lax.digamma(b) - lax.digamma(a + b)),
)


@real(weak=False)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function Gamma(a) Gamma(b) / Gamma(a + b).

    Args:
        a: array of real numbers.
        b: the same.

    >>> round(float(beta(2.0, 3.0)), 4)
    0.0833
    """
    return beta_of(a, b)


@real(refusal=TypeError)
def _comb(N: Array, k: Array) -> Array:
    return _binomial(N, k)


@real(refusal=TypeError)
def _comb_with_repetition(N: Array, k: Array) -> Array:
    return jnp.where((k == 0) & (N >= 0), 1, _binomial(N + k - 1, k))


def _binomial(n: Array, k: Array) -> Array:
    outside = (k > n) | (n < 0) | (k < 0)
    safe_n, safe_k = jnp.where(outside, 0, n), jnp.where(outside, 0, k)
    return jnp.where(outside, 0, 1 / ((safe_n + 1) * beta_of(safe_n - safe_k + 1, safe_k + 1)))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose k of N things: 0 unless 0 <= k <= N.

    Args:
        N: array of real numbers.
        k: the same.
        repetition: whether a thing may be chosen several times.

    >>> round(float(comb(5, 2)), 4), round(float(comb(5, 2, repetition=True)), 4)
    (10.0, 15.0)
    """
    return _comb_with_repetition(N, k) if repetition else _comb(N, k)


@custom_jvp
def _poch(z: Array, m: Array) -> Array:
    total = z + m
    large = (z >= _LARGE) & (total >= _LARGE) & (z < np.inf) & (total < np.inf)
    # Of the greater one to the smaller one, so that the difference is not negative.
    low = jnp.where(large, jnp.minimum(z, total), _LARGE)
    log_ratio = _log_ratio(jnp.where(large, jnp.abs(m), 1), low)
    far = jnp.exp(jnp.where(m < 0, log_ratio, -log_ratio))
    of_total, of_z = of_each(gamma_of, jnp.where(large, 1, total), jnp.where(large, 1, z))
    return jnp.where(m == 0, 1, jnp.where(large, far, of_total / of_z))


_poch.defjvps(
    lambda t, out, z, m: t * out * (lax.digamma(z + m) - lax.digamma(z)),
    lambda t, out, z, m: t * out * lax.digamma(z + m),
)


@real(weak=False)
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer's symbol Gamma(z + m) / Gamma(z); 1 where m is 0.

    Args:
        z: array of real numbers.
        m: the same.

    >>> round(float(poch(3.0, 2.0)), 4)
    12.0
    """
    return _poch(z, m)


# ---------------------------------------------------------------------------------------------------------------------
# Incomplete functions, derivatives, sums


@elementwise
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function; it has no derivatives by a and b.

    Args:
        a: array of real numbers, not negative.
        b: the same.
        x: array of numbers in [0, 1].

    Raises:
        ValueError: an operand is complex.

    >>> round(float(betainc(1.0, 2.0, 0.5)), 4)
    0.75
    """
    operands = promote_args_inexact("betainc", a, b, x)
    if is_complex(operands[0]):
        raise ValueError("betainc does not support complex-valued inputs.")
    return lax.betainc(*operands)


@elementwise
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function.

    Args:
        a: array of real numbers, not negative.
        x: the same.

    >>> round(float(gammainc(1.0, 1.0)), 4)
    0.6321
    """
    return lax.igamma(*promote_args_inexact("gammainc", a, x))


@elementwise
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function, 1 - gammainc(a, x).

    Args:
        a: array of real numbers, not negative.
        x: the same.

    >>> round(float(gammaincc(1.0, 1.0)), 4)
    0.3679
    """
    return lax.igammac(*promote_args_inexact("gammaincc", a, x))


@elementwise
def digamma(x: ArrayLike) -> Array:
    """The derivative of gammaln; NaN at 0 and negative integers.

    Args:
        x: array of real numbers.

    >>> round(float(digamma(1.0)), 4)
    -0.5772
    """
    return lax.digamma(*promote_args_inexact("digamma", x))


@elementwise
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma.

    Args:
        n: array of integers, not negative.
        x: array of real numbers.

    Raises:
        ValueError: n has no integer dtype, or x is complex.

    >>> round(float(polygamma(1, 1.0)), 4)
    1.6449
    """
    dtype = aval_of(n).dtype  # type: ignore[attr-defined]
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"Argument `n` to polygamma must be of integer type. Got dtype {dtype}.")
    order, x = promote_args_inexact("polygamma", n, x)
    if is_complex(x):
        raise ValueError("polygamma does not support complex-valued inputs.")
    return lax.polygamma(order, x)


@custom_jvp
def _zeta(x: Array, q: Array) -> Array:
    return lax.zeta(x, q)


def _zeta_by_summation(x: Array, q: Array) -> Array:
    """Euler and Maclaurin's formula, whose derivative by x is that of zeta."""
    count = 10
    total = jnp.zeros_like(x)
    for k in range(count):
        total = total + (q + k) ** (-x)
    end = q + count
    total = total + end ** (1 - x) / (x - 1) + 0.5 * end ** (-x)
    term = end ** (-x) * x / end
    for k, bernoulli_number in enumerate(_bernoulli_numbers(16)[2::2], 1):
        total = total + bernoulli_number / math.factorial(2 * k) * term
        term = term * (x + 2 * k - 1) * (x + 2 * k) / (end * end)
    return total


@_zeta.defjvp
def _zeta_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    x, q = primals
    by_x = jvp(lambda v: _zeta_by_summation(v, q), (x,), (tangents[0],))[1]
    return _zeta(x, q), by_x - tangents[1] * x * _zeta(x + 1, q)


_real_zeta = real(lambda x, q: _zeta(*jnp.broadcast_arrays(x, q)), name="zeta", refusal=TypeError)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz' zeta function: the sum over k >= 0 of (k + q)^-x, for x > 1.

    Args:
        x: array of real numbers.
        q: the same.

    Raises:
        NotImplementedError: q is None.

    >>> round(float(zeta(2.0, 1.0)), 4)
    1.6449
    """
    if q is None:
        raise NotImplementedError(
            "Riemann zeta function not implemented; pass q != None to compute the Hurwitz Zeta function, of which "
            "q = 1 is Riemann's."
        )
    return _real_zeta(x, q)


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The logarithm of the multivariate gamma function of dimension d.

    Args:
        a: array of real numbers, greater than (d - 1) / 2.
        d: an integer.

    Raises:
        ConcretizationTypeError: d is traced.

    >>> round(float(multigammaln(3.0, 2)), 3)
    1.55
    """
    return _multigammaln(a, d=concrete_int(d, "d argument of multigammaln"))


@jit(static_argnames=("d",))
def _multigammaln(a: ArrayLike, *, d: int) -> Array:
    (a,) = promote_args_inexact("multigammaln", a, float(d))[:1]
    total = jnp.full_like(a, 0.25 * d * (d - 1) * math.log(math.pi))
    for i in range(d):
        total = total + lax.lgamma(lax.sub(a, 0.5 * i))
    return total


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B(0), B(1) = -1/2, ..., B(n).

    Args:
        n: the last index, not negative.

    Raises:
        ValueError: n is negative.

    >>> [round(float(b), 4) for b in bernoulli(4)]
    [1.0, -0.5, 0.1667, 0.0, -0.0333]
    """
    n = concrete_int(n, "Argument n of bernoulli")
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    return jnp.array(_bernoulli_numbers(n))


def _bernoulli_numbers(n: int) -> list[float]:
    """B(2 k) = (-1)^(k + 1) 2 (2 k)! zeta(2 k) / (2 pi)^(2 k)"""
    numbers = [1.0, -0.5, 1 / 6, 0.0, -1 / 30, 0.0, 1 / 42]
    factor = 2 * math.factorial(6) / (2 * math.pi) ** 6
    for m in range(8, n + 1, 2):
        factor *= -m * (m - 1) / (2 * math.pi) ** 2
        numbers += [0.0, factor * sum(k**-m for k in range(1, 100))]
    return [*numbers, 0.0][: n + 1]
