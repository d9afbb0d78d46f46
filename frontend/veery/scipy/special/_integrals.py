"""Exponential, trigonometric and Fresnel integrals, and the dilogarithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real, real_floats
from veery.scipy.special._polynomials import piecewise
from veery.scipy.special._tables import (
    CI,
    E1_FAR,
    E1_NEAR,
    EI_FAR,
    EI_NEAR,
    FRESNEL_C,
    FRESNEL_F,
    FRESNEL_G,
    FRESNEL_S,
    SI,
    SICI_F,
    SICI_G,
)

# The zero of Ei, also as a number of float32 and the rest.
_EI_ROOT = 0.3725074107813666
_EI_ROOT_HEAD = 0.3725074231624603
_EI_ROOT_TAIL = -1.2381093692686445e-08

# ---------------------------------------------------------------------------------------------------------------------
# Exponential integrals


@custom_jvp
def _exp1(x: Array) -> Array:
    near = jnp.where(x <= 1, x, 1)
    series = near * E1_NEAR[0](near) - jnp.log(near) - np.euler_gamma
    far = jnp.where(x <= 1, 1, x)
    scaled = jnp.exp(-far) / far * piecewise(E1_FAR, 1 / far)
    value = jnp.where(x <= 1, series, scaled)
    return jnp.where(x == 0, np.inf, jnp.where(x < 0, np.nan, value))


_exp1.defjvps(lambda t, out, x: -t * jnp.exp(-x) / x)


@real(weak=False)
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1: that of exp(-t) / t from x to infinity; NaN for negative x.

    Args:
        x: array of real numbers.

    >>> round(float(exp1(1.0)), 4)
    0.2194
    """
    return _exp1(x)


@custom_jvp
def _expi(x: Array) -> Array:
    near = jnp.clip(x, 0, 6)
    distance = (near - _EI_ROOT_HEAD) - _EI_ROOT_TAIL  # so that digits remain next to the zero
    close = jnp.abs(distance) < 0.15
    relative = jnp.where(close, distance * (1 / _EI_ROOT), 0)
    logarithm = jnp.where(close, jnp.log1p(relative), jnp.log(near * (1 / _EI_ROOT)))
    lower = logarithm + distance * piecewise(EI_NEAR, near)
    far = jnp.where(x > 6, x, 6)
    half = jnp.exp(0.5 * far)  # in two factors, since exp(x) overflows before exp(x) / x
    upper = half / far * piecewise(EI_FAR, 1 / far) * half
    positive = jnp.where(x > 6, jnp.where(x == np.inf, np.inf, upper), lower)
    return jnp.where(x < 0, -_exp1(jnp.abs(x)), jnp.where(jnp.isnan(x), x, positive))


_expi.defjvps(lambda t, out, x: t * jnp.exp(x) / x)


@real(weak=False)
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei: that of exp(t) / t from -infinity to x, around the pole at 0.

    Args:
        x: array of real numbers.

    >>> round(float(expi(1.0)), 4)
    1.8951
    """
    return _expi(x)


def _expn_series(n: Array, x: Array) -> Array:
    """M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 5.1.12: for 0 < x <= 1."""
    order = jnp.where(n <= 1, 1, n)
    # The sum of (-x)^k / ((n - 1 - k) k!) without k = n - 1, and (-x)^(n - 1) / (n - 1)!
    total, power = jnp.zeros_like(x), jnp.ones_like(x)
    singular = jnp.where(order == 1, 1, 0).astype(x.dtype)
    for k in range(25):
        gap = order - 1 - k
        total = total + jnp.where(gap == 0, 0, power / jnp.where(gap == 0, 1, gap))
        power = power * -x / (k + 1)
        singular = jnp.where(gap == 1, power, singular)
    psi = lax.digamma(jnp.where(order < 30, order, 30))
    return jnp.where(singular == 0, 0, singular * (psi - jnp.log(x))) + total


def _expn_fraction(n: Array, x: Array) -> Array:
    """The same, 5.1.22, evaluated by Lentz's method: for x > 1."""
    b = x + n
    d = 1 / b

    def step(i: Array, state: Any) -> Any:
        c, d, h = state
        k = i.astype(x.dtype)
        numerator = -k * (n - 1 + k)
        term = b + 2 * k
        d = 1 / (numerator * d + term)
        c = term + numerator / c
        return c, d, h * c * d

    count = 40 if x.dtype == np.float32 else 90
    _, _, value = lax.fori_loop(1, count, step, (jnp.full_like(b, 1e30), d, d))
    return value * jnp.exp(-x)


def _expn(n: Array, x: Array) -> Array:
    series = _expn_series(n, jnp.where((x > 0) & (x <= 1), x, 0.5))
    fraction = _expn_fraction(jnp.where(n > 0, n, 1), jnp.where((x > 1) & (x < np.inf), x, 2))
    value = jnp.where(x > 1, jnp.where(x == np.inf, 0, fraction), series)
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    value = jnp.where(x == 0, jnp.where(n < 2, np.inf, 1 / jnp.where(n < 2, 1, n - 1)), value)
    return jnp.where((n < 0) | (x < 0) | jnp.isnan(n) | jnp.isnan(x), np.nan, value)


_expn_with_rule = custom_jvp(lambda n, x: _expn(*jnp.broadcast_arrays(n, x)), nondiff_argnums=(0,))


@_expn_with_rule.defjvp
def _expn_jvp(n: Array, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    inverse = 1 / x
    return _expn_with_rule(n, x), -t * jnp.where(
        n == 0, jnp.exp(-x) * inverse * (1 + inverse), _expn_with_rule(n - 1, x)
    )


@real(weak=False)
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The generalised exponential integral E_n: that of exp(-x t) / t^n from 1 to infinity; NaN for negative n or x.

    Args:
        n: array of whole numbers; there is no derivative by them.
        x: array of real numbers.

    >>> round(float(expn(2, 1.0)), 4)
    0.1485
    """
    return _expn_with_rule(n, x)


# ---------------------------------------------------------------------------------------------------------------------
# Trigonometric integrals


@custom_jvp
def _sici(x: Array) -> tuple[Array, Array]:
    magnitude = jnp.abs(x)
    near = jnp.where(magnitude < 4, magnitude, 1)
    square = near * near
    si_near = near * SI[0](square)
    ci_near = np.euler_gamma + jnp.log(near) + square * CI[0](square)
    far = jnp.where((magnitude >= 4) & (magnitude < np.inf), magnitude, 4)
    inverse = 1 / far
    square = inverse * inverse
    f, g = inverse * piecewise(SICI_F, square), square * piecewise(SICI_G, square)
    sine, cosine = jnp.sin(far), jnp.cos(far)
    si_far, ci_far = 0.5 * np.pi - f * cosine - g * sine, f * sine - g * cosine
    infinite = magnitude == np.inf
    si = jnp.where(magnitude < 4, si_near, jnp.where(infinite, 0.5 * np.pi, si_far))
    ci = jnp.where(magnitude < 4, ci_near, jnp.where(infinite, 0, ci_far))
    ci = jnp.where(x == -np.inf, np.nan, ci)
    return jnp.where(jnp.isnan(x), x, jnp.copysign(si, x)), jnp.where(jnp.isnan(x), x, ci)


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _sici(x), (t * jnp.sinc(x * (1 / np.pi)), t * jnp.cos(x) / x)


@real(weak=False)
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine and the cosine integral.

    Args:
        x: array of real numbers.

    Returns:
        Si, the integral of sin(t) / t from 0 to x, and Ci, Euler's constant and log |x| and the integral of
        (cos(t) - 1) / t from 0 to x.

    >>> [round(float(y), 4) for y in sici(1.0)]
    [0.9461, 0.3374]
    """
    return _sici(x)


# ---------------------------------------------------------------------------------------------------------------------
# Fresnel integrals


def _half_turns(x: Array) -> Array:
    """x^2 / 2 less a multiple of 2, without the rounding of x^2."""
    bits = (8, 11) if x.dtype == np.float32 else (11, 25)
    head = lax.reduce_precision(x, *bits)  # its square is exact
    tail = x - head
    whole = jnp.fmod(head * head, 4) + jnp.fmod(2 * head * tail, 4) + jnp.fmod(tail * tail, 4)
    return 0.5 * jnp.fmod(whole, 4)


@custom_jvp
def _fresnel(x: Array) -> tuple[Array, Array]:
    magnitude = jnp.abs(x)
    near = jnp.where(magnitude < 1.5, magnitude, 0)
    square = near * near
    fourth = square * square
    s_near, c_near = near * square * FRESNEL_S[0](fourth), near * FRESNEL_C[0](fourth)
    regular = (magnitude >= 1.5) & (magnitude < 1e18)
    far = jnp.where(regular, magnitude, 1.5)
    inverse = 1 / far
    square = inverse * inverse
    fourth = square * square
    f = inverse * piecewise(FRESNEL_F, fourth) * (1 / np.pi)
    g = inverse * square * piecewise(FRESNEL_G, fourth) * (1 / np.pi**2)
    angle = np.pi * _half_turns(far)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    s_far, c_far = 0.5 - f * cosine - g * sine, 0.5 + f * sine - g * cosine

    def signed(near_value: Array, far_value: Array) -> Array:
        value = jnp.where(magnitude < 1.5, near_value, jnp.where(regular, far_value, 0.5))
        return jnp.where(jnp.isnan(x), x, jnp.copysign(value, x))

    return signed(s_near, s_far), signed(c_near, c_far)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    angle = np.pi * _half_turns(x)
    return _fresnel(x), (t * jnp.sin(angle), t * jnp.cos(angle))


@real(weak=False, refusal=NotImplementedError)
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals S and C: those of sin(pi t^2 / 2) and of cos(pi t^2 / 2) from 0 to x.

    Args:
        x: array of real numbers.

    >>> [round(float(y), 4) for y in fresnel(1.0)]
    [0.4383, 0.7799]
    """
    return _fresnel(x)


# ---------------------------------------------------------------------------------------------------------------------
# The dilogarithm


def _spence_series(u: Array) -> Array:
    """Li2(1 - exp(-u)) = the sum of B(k) u^(k + 1) / (k + 1)!, of Bernoulli's numbers, for |u| <= log 2."""
    even = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510]
    terms = [b / math.factorial(2 * k + 1) for k, b in enumerate(even, 1)]
    square = u * u
    total = jnp.full_like(u, terms[-1])
    for term in terms[-2::-1]:
        total = total * square + term
    return u - 0.25 * square + u * square * total


@custom_jvp
def _spence(x: Array) -> Array:
    inside = (x > 0) & (x < np.inf)
    safe = jnp.where(inside, x, 1)
    low, high = safe < 0.5, safe > 2
    # Of x < 1/2, and of 1/x for x > 2, the function follows from that of the complement, which is in [1/2, 1].
    complement = jnp.where(low, safe, jnp.where(high, 1 / safe, 0))
    logarithm = jnp.log(safe)
    u = jnp.where(low | high, -jnp.log1p(-complement), -logarithm)
    series = _spence_series(u)
    reflected = np.pi**2 / 6 + logarithm * u - series
    inverted = series - np.pi**2 / 6 + logarithm * (u - 0.5 * logarithm)
    value = jnp.where(low, reflected, jnp.where(high, inverted, series))
    at_end = jnp.where(x == 0, np.pi**2 / 6, jnp.where(x == np.inf, -np.inf, np.nan))
    return jnp.where(inside, value, at_end)


def _spence_slope(x: Array) -> Array:
    """-log(x) / (x - 1), which is -1 at 1."""
    at_one = x == 1
    safe = jnp.where(at_one, 2, x)
    return jnp.where(at_one, -1 + 0.5 * (x - 1), -jnp.log(safe) / (safe - 1))


_spence.defjvps(lambda t, out, x: t * _spence_slope(x))


@real_floats
def spence(x: ArrayLike) -> Array:
    """Spence's function: the integral of log(t) / (1 - t) from 1 to x, the dilogarithm of 1 - x; NaN for negative x.

    Args:
        x: array of floats.

    Raises:
        TypeError: x is not of a float dtype.

    >>> round(float(spence(0.0)), 4)
    1.6449
    """
    return _spence(x)
