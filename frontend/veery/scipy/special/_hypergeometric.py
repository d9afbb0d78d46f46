"""Hypergeometric functions of real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import jvp
from veery._api.custom_derivatives import custom_jvp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._gamma import gamma_of
from veery.scipy.special._operands import of_each, real

_MOST_TERMS = 1000


def _sum(first: Array, ratio: Callable[[Array], Array], active: Array) -> Array:
    """first + first ratio(0) + first ratio(0) ratio(1) + ..., until terms do not count any more."""
    epsilon = float(np.finfo(first.dtype).eps) / 8

    def condition(state: Any) -> Array:
        k, going, _, _ = state
        return (k < _MOST_TERMS) & jnp.any(going)

    def body(state: Any) -> Any:
        k, going, total, term = state
        term = jnp.where(going, term * ratio(k.astype(first.dtype)), 0)
        total = total + term
        return k + 1, going & (jnp.abs(term) > epsilon * jnp.abs(total)), total, term

    return lax.while_loop(condition, body, (jnp.array(0), active, first, first))[2]


def _is_pole(x: Array) -> Array:
    """Whether x is 0, -1, -2, ..."""
    return (x <= 0) & (x == jnp.round(x))


def _partial(fun: Callable[..., Array], position: int, *xs: Array) -> Array:
    """The derivative by one argument, in forward mode, since loops of unknown length have no reverse mode."""

    def of_one(x: Array) -> Array:
        return fun(*xs[:position], x, *xs[position + 1 :])

    return jvp(of_one, (xs[position],), (jnp.ones_like(xs[position]),))[1]


# ---------------------------------------------------------------------------------------------------------------------
# Kummer's function


def _hyp1f1_formula(a: Array, b: Array, x: Array) -> Array:
    """By the series, in which all terms have one sign after Kummer's transformation, or for large x asymptotically."""
    far_from = 50.0 if x.dtype == np.float32 else 100.0  # the series is long from here on, and reaches exp of it
    negative = x < 0
    top, size = jnp.where(negative, b - a, a), jnp.abs(x)
    finite = jnp.isfinite(a) & jnp.isfinite(b) & jnp.isfinite(x)
    undefined = _is_pole(b) & ~(_is_pole(a) & (a >= b))
    by_series = (size < far_from) | _is_pole(top)
    active = finite & ~undefined
    s = jnp.where(active & by_series, size, 0)
    bottom = jnp.where(undefined, 1, b)
    ones = jnp.ones_like(x)
    series = _sum(ones, lambda k: (top + k) * _over(s, bottom + k) / (k + 1), active & by_series)
    far = jnp.where(active & ~by_series, size, far_from)
    tail = _sum(ones, lambda k: (bottom - top + k) * (1 - top + k) / ((k + 1) * far), active & ~by_series)
    # In two factors, of which none overflows before the result does.
    of_bottom, of_top = of_each(gamma_of, bottom, jnp.where(by_series, 1, top))
    scale = of_bottom / of_top * far ** (top - bottom)
    growth = jnp.exp(jnp.where(negative, x, 0))
    near = growth * series
    half = jnp.exp(0.5 * jnp.where(negative, 0, far))
    value = jnp.where(by_series, near, half * (scale * tail) * half)
    return jnp.where(undefined, np.inf, jnp.where(finite, value, np.nan))


def _over(x: Array, y: Array) -> Array:
    """x / y, and 0 where y is: the terms there are zero already."""
    return jnp.where(y == 0, 0, x / jnp.where(y == 0, 1, y))


@custom_jvp
def _hyp1f1(a: Array, b: Array, x: Array) -> Array:
    return _hyp1f1_formula(a, b, x)


_hyp1f1.defjvps(
    lambda t, out, a, b, x: t * _partial(_hyp1f1_formula, 0, a, b, x),
    lambda t, out, a, b, x: t * _partial(_hyp1f1_formula, 1, a, b, x),
    lambda t, out, a, b, x: t * a / b * _hyp1f1(a + 1, b + 1, x),
)


@real(weak=False)
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function 1F1(a; b; x).

    Args:
        a: array of real numbers.
        b: the same; where it is 0, -1, ... the function is infinite.
        x: the same.

    >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 4)
    1.7183
    """
    return _hyp1f1(*jnp.broadcast_arrays(a, b, x))


# ---------------------------------------------------------------------------------------------------------------------
# Gauss' function

_CLOSE = 0.9  # from here on the series in x is long, and that in 1 - x is short


def _terms(a: Array, b: Array, c: Array, z: Array) -> Callable[[Array], Array]:
    return lambda k: (a + k) * (b + k) * _over(z, (c + k) * (k + 1))


def _near_one(a: Array, b: Array, c: Array, z: Array, active: Array) -> Array:
    """For z in (0.9, 1) and c - a - b >= 0 no integer: A&S 15.3.6."""
    d = c - a - b
    y = 1 - z
    ones = jnp.ones_like(z)
    of_c, of_d, of_ca, of_cb, of_minus_d, of_a, of_b = of_each(gamma_of, c, d, c - a, c - b, -d, a, b)
    first = of_c * of_d / (of_ca * of_cb)
    second = of_c * of_minus_d / (of_a * of_b) * y**d
    return first * _sum(ones, _terms(a, b, 1 - d, y), active) + second * _sum(
        ones, _terms(c - a, c - b, 1 + d, y), active
    )


def _near_one_with_logarithm(a: Array, b: Array, c: Array, z: Array, active: Array) -> Array:
    """For z in (0.9, 1) and c - a - b = 0, 1, 2, ...: A&S 15.3.10 and 15.3.11."""
    m = jnp.round(c - a - b)
    y = 1 - z
    ones = jnp.ones_like(z)

    def finite_ratio(k: Array) -> Array:
        return jnp.where(k + 1 < m, (a + k) * (b + k) * y / ((k + 1) * jnp.where(k + 1 < m, 1 - m + k, 1)), 0)

    arguments = jnp.where(m > 0, m, 1), c, a + m, b + m, m + 1, a, b
    of_m, of_c, of_am, of_bm, factorial, of_a, of_b = of_each(gamma_of, *arguments)
    finite = _sum(ones, finite_ratio, active & (m > 1)) * of_m * of_c / (of_am * of_bm)

    psi_m, psi_am, psi_bm = of_each(lax.digamma, m + 1, a + m, b + m)
    bracket = jnp.log(y) + np.euler_gamma - psi_m + psi_am + psi_bm
    first = y**m / factorial
    epsilon = float(np.finfo(z.dtype).eps) / 8

    def condition(state: Any) -> Array:
        k, going, *_ = state
        return (k < _MOST_TERMS) & jnp.any(going)

    def body(state: Any) -> Any:
        i, going, total, term, inner = state
        k = i.astype(z.dtype)
        total = total + jnp.where(going, term * inner, 0)
        inner = inner - 1 / (k + 1) - 1 / (k + m + 1) + 1 / (a + m + k) + 1 / (b + m + k)
        term = term * (a + m + k) * (b + m + k) * y / ((k + 1) * (k + m + 1))
        return i + 1, going & (jnp.abs(term * inner) > epsilon * jnp.abs(total)), total, term, inner

    start = jnp.array(0), active, jnp.zeros_like(z), first, bracket
    infinite = lax.while_loop(condition, body, start)[2]
    infinite = infinite * of_c / (of_a * of_b)
    return jnp.where(m > 0, finite, 0) - jnp.where(m % 2 == 0, infinite, -infinite)


def _hyp2f1_formula(a: Array, b: Array, c: Array, x: Array) -> Array:
    """By the series, after transformations to arguments and parameters for which it converges well."""
    finite = jnp.isfinite(a) & jnp.isfinite(b) & jnp.isfinite(c) & jnp.isfinite(x)
    polynomial = _is_pole(a) | _is_pole(b)
    degree = jnp.where(_is_pole(a), jnp.where(_is_pole(b), jnp.maximum(a, b), a), b)  # less its sign
    undefined = _is_pole(c) & ~(polynomial & (degree >= c))
    x, c = jnp.where(finite, x, 0), jnp.where(undefined, 1, c)
    ones = jnp.ones_like(x)
    direct = _sum(ones, _terms(a, b, c, jnp.where(polynomial, x, 0)), polynomial & finite)

    general = finite & ~undefined & ~polynomial & (x < 1)
    # Pfaff's transformation takes negative arguments to (0, 1).
    negative = x < 0
    z = jnp.where(negative, x / (x - 1), x)
    z = jnp.where(general, z, 0)
    q = jnp.where(negative, c - b, b)
    prefactor = jnp.where(negative, (1 - jnp.where(negative, x, 0)) ** -a, 1)
    # Euler's makes c - a - b positive.
    d = c - a - q
    flipped = d < 0
    prefactor = prefactor * jnp.where(flipped, (1 - z) ** jnp.where(flipped, d, 1), 1)
    p, q = jnp.where(flipped, c - a, a), jnp.where(flipped, c - q, q)
    d = jnp.abs(d)
    short = _is_pole(p) | _is_pole(q) | (z < _CLOSE)
    series = _sum(ones, _terms(p, q, c, jnp.where(short, z, 0)), general & short)
    whole = jnp.abs(d - jnp.round(d)) < 50 * float(np.finfo(x.dtype).eps)
    close = jnp.where(short, 0.95, z)

    def at(condition: Array, value: Array, other: float) -> Array:
        return jnp.where(condition & ~short, value, other)

    active = general & ~short
    smooth = _near_one(at(~whole, p, 0.3), at(~whole, q, 0.4), at(~whole, c, 1.2), close, active & ~whole)
    ends = at(whole, p, 0.5), at(whole, q, 0.5), at(whole, c, 1.0)
    logarithmic = _near_one_with_logarithm(ends[0], ends[1], ends[2], close, active & whole)
    value = prefactor * jnp.where(short, series, jnp.where(whole, logarithmic, smooth))

    d = c - a - b
    converges = (x == 1) & (d > 0)
    of_c, of_d, of_ca, of_cb = of_each(gamma_of, c, jnp.where(converges, d, 1), c - a, c - b)
    beyond = jnp.where(converges, of_c * of_d / (of_ca * of_cb), np.inf)
    value = jnp.where(polynomial, direct, jnp.where(x < 1, value, beyond))
    return jnp.where(finite, jnp.where(undefined, np.inf, value), np.nan)


@custom_jvp
def _hyp2f1(a: Array, b: Array, c: Array, x: Array) -> Array:
    return _hyp2f1_formula(a, b, c, x)


_hyp2f1.defjvps(
    lambda t, out, a, b, c, x: t * _partial(_hyp2f1_formula, 0, a, b, c, x),
    lambda t, out, a, b, c, x: t * _partial(_hyp2f1_formula, 1, a, b, c, x),
    lambda t, out, a, b, c, x: t * _partial(_hyp2f1_formula, 2, a, b, c, x),
    lambda t, out, a, b, c, x: t * a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x),
)


@real(weak=False, refusal=TypeError)
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss' hypergeometric function 2F1(a, b; c; x).

    Args:
        a: array of real numbers.
        b: the same.
        c: the same; where it is 0, -1, ... the function is infinite, unless a or b ends the series before.
        x: the same; beyond 1 the function is infinite, unless it is a polynomial.

    >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863
    """
    return _hyp2f1(*jnp.broadcast_arrays(a, b, c, x))
