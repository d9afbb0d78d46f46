"""Bessel functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._core.shapes import concrete_int
from veery.numpy._elementwise import elementwise
from veery.numpy._promotion import Array, ArrayLike, promote_args_inexact
from veery.scipy.special._operands import is_complex, real


@elementwise
def i0e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0, times exp(-|x|).

    Args:
        x: array of real numbers; integers become floats.

    >>> round(float(i0e(1.0)), 4)
    0.4658
    """
    return lax.bessel_i0e(*promote_args_inexact("i0e", x))


@elementwise
def i1e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1, times exp(-|x|).

    Args:
        x: array of real numbers; integers become floats.

    >>> round(float(i1e(1.0)), 4)
    0.2079
    """
    return lax.bessel_i1e(*promote_args_inexact("i1e", x))


def _unscaled(scaled: Array, x: Array) -> Array:
    """scaled times exp(|x|), which overflows before the product does."""
    half = jnp.exp(0.5 * jnp.abs(x))
    return jnp.where(jnp.isinf(x), jnp.copysign(np.inf, scaled), scaled * half * half)


@custom_jvp
def _i0(x: Array) -> Array:
    return _unscaled(lax.bessel_i0e(x), x)


@custom_jvp
def _i1(x: Array) -> Array:
    return _unscaled(lax.bessel_i1e(x), x)


def _i1_slope(i1_of_x: Array, x: Array) -> Array:
    """I0(x) - I1(x) / x, which is 1/2 at 0."""
    safe = jnp.where(x == 0, 1, x)
    return jnp.where(x == 0, 0.5, _i0(safe) - i1_of_x / safe)


_i0.defjvps(lambda t, out, x: t * _i1(x))
_i1.defjvps(lambda t, out, x: t * _i1_slope(out, x))


@real(refusal=TypeError)
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    Args:
        x: array of real numbers.

    >>> round(float(i0(1.0)), 4)
    1.2661
    """
    return _i0(x)


@real(refusal=TypeError)
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    Args:
        x: array of real numbers.

    >>> round(float(i1(1.0)), 4)
    0.5652
    """
    return _i1(x)


# ---------------------------------------------------------------------------------------------------------------------
# Bessel functions of the first kind

_FAR = 25.0  # from here on Hankel's expansion has 16 digits


def _by_ratios(z: Array, v: int, count: int) -> Array:
    """J(0), ..., J(v) at z, from the ratios J(k) / J(k - 1) of falling k and 1 = J(0) + 2 J(2) + 2 J(4) + ...

    W. Gautschi, SIAM Review 9 (1967), 24. The ratios are a continued fraction and, unlike J. C. P. Miller's values,
    do not overflow.
    """

    def step(state: Any, k: Array) -> Any:
        ratio, total = state
        denominator = 2 * k - z * ratio
        ratio = z / jnp.where(denominator == 0, np.finfo(z.dtype).tiny, denominator)
        return (ratio, ratio * (total + jnp.where(k % 2 == 0, 1, 0))), ratio

    zeros = jnp.zeros_like(z)
    (_, total), ratios = lax.scan(step, (zeros, zeros), jnp.arange(1, count + 1, dtype=z.dtype), reverse=True)
    first = 1 / (1 + 2 * total)
    factors = jnp.concatenate([first[None], ratios[:v]])
    return lax.cumprod(factors, 0)


def _hankel(order: int, z: Array) -> Array:
    """J(order) at large z: DLMF 10.17.3, https://dlmf.nist.gov/10.17"""
    sums = [jnp.ones_like(z), jnp.zeros_like(z)]
    term = jnp.ones_like(z)
    for k in range(1, 24):
        term = term * ((4 * order**2 - (2 * k - 1) ** 2) / (8 * k)) / z
        sums[k % 2] = sums[k % 2] + (term if k % 4 < 2 else -term)
    sine, cosine = jnp.sin(z), jnp.cos(z)
    # cos(z - pi/4) and sin(z - pi/4), times the square root of 2; of order 1 a quarter turn later
    ahead, behind = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    return (sums[0] * ahead - sums[1] * behind) / jnp.sqrt(np.pi * z)


def _by_recurrence(z: Array, v: int) -> Array:
    """J(0), ..., J(v) at z, which is greater than v and large, by rising orders."""

    def step(state: Any, k: Array) -> Any:
        before, now = state
        after = 2 * k / z * now - before
        return (now, after), after

    start = _hankel(0, z), _hankel(1, z)
    _, others = lax.scan(step, start, jnp.arange(1, max(v, 1), dtype=z.dtype))
    return jnp.concatenate([start[0][None], start[1][None], others])[: v + 1]


def _bessel_jn(v: int, count: int, z: Array) -> Array:
    magnitude = jnp.abs(z)
    far = (magnitude >= max(_FAR, v)) & (magnitude < np.inf)
    near_values = _by_ratios(jnp.where(far, 0, magnitude), v, count)
    far_values = _by_recurrence(jnp.where(far, magnitude, max(_FAR, v)), v)
    values = jnp.where(far, far_values, jnp.where(magnitude == np.inf, 0, near_values))
    orders = jnp.arange(v + 1).reshape(-1, *[1] * z.ndim)
    odd = (orders % 2 == 1) & lax.broadcast_to_rank(z < 0, orders.ndim)
    return jnp.where(jnp.isnan(z), z, jnp.where(odd, -values, values))


_bessel_jn_with_rule = custom_jvp(_bessel_jn, nondiff_argnums=(0, 1))


@_bessel_jn_with_rule.defjvp
def _bessel_jn_jvp(v: int, count: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """J(k)' = (J(k - 1) - J(k + 1)) / 2, J(-1) = -J(1)"""
    (z,), (t,) = primals, tangents
    values = _bessel_jn_with_rule(v + 1, count, z)
    below = jnp.concatenate([-values[1:2], values[:v]])
    return values[: v + 1], 0.5 * t * (below - values[1:])


@jit(static_argnames=("v", "n_iter"))
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind, of the orders 0 to v.

    Args:
        z: array of real numbers.
        v: the greatest order.
        n_iter: length of the recurrence; where it is too short for 16 digits, it is longer.

    Returns:
        Array of one more dimension than z has: the first one, of size v + 1, for the order.

    Raises:
        ValueError: z is complex, or v negative.

    >>> [round(float(j), 4) for j in bessel_jn(1.0, v=2)]
    [0.7652, 0.4401, 0.1149]
    """
    v = concrete_int(v, "Argument v of bessel_jn.")
    n_iter = concrete_int(n_iter, "Argument n_iter of bessel_jn.")
    if v < 0:
        raise ValueError(f"Argument v of bessel_jn is the greatest order, from 0 on; got {v}.")
    (x,) = promote_args_inexact("bessel_jn", z)
    if is_complex(x):
        raise ValueError("complex input not supported.")
    count = max(n_iter, 60, v + 20 + int(15 * v ** (1 / 3)))
    return real(lambda y: _bessel_jn_with_rule(v, count, y), name="bessel_jn")(z)
