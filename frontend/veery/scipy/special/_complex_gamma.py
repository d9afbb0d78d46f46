"""The gamma function of complex numbers."""

from __future__ import annotations

import math

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery.numpy._promotion import Array

# log Gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + sum of c[k] / x^(2 k + 1)
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 10  # with a real part of this size these terms give 15 digits


def _is_pole(z: Array) -> Array:
    x = jnp.real(z)
    return (jnp.imag(z) == 0) & (x <= 0) & (x == jnp.floor(x))


def _right_half(z: Array) -> Array:
    """log Gamma(z) where Re z >= 1/2, by Stirling's formula at z + 10.

    Of the factors z + k two are multiplied at a time: their arguments are less than pi / 2 each, so that logarithms of
    the products are those of the principal branch.
    """
    logs = [jnp.log((z + k) * (z + k + 1)) for k in range(0, _SHIFT, 2)]
    end = z + _SHIFT
    inverse = 1 / end
    square = inverse * inverse
    total = jnp.full_like(z, STIRLING[-1])
    for coefficient in STIRLING[-2::-1]:
        total = total * square + coefficient
    stirling = (end - 0.5) * jnp.log(end) - end + 0.5 * math.log(2 * math.pi) + total * inverse
    return stirling - sum(logs[1:], logs[0])


def _log_sin_pi(x: Array, y: Array) -> Array:
    """log sin(pi (x + i y)) for y >= 0: pi y - log 2 + i pi (1/2 - x) + log(1 - exp(2 pi i (x + i y)))"""
    angle = 2 * np.pi * (x - jnp.round(x))
    growth = jnp.expm1(-2 * np.pi * y)
    real = -(growth * jnp.cos(angle) - 2 * jnp.sin(0.5 * angle) ** 2)
    imag = -(1 + growth) * jnp.sin(angle)
    last = jnp.log(lax.complex(real, imag))
    return last + lax.complex(np.pi * y - math.log(2), np.pi * (0.5 - x))


def _upper_half(x: Array, y: Array) -> Array:
    """log Gamma(x + i y) for y >= 0."""
    mirrored = x < 0.5
    right = _right_half(lax.complex(jnp.where(mirrored, 1 - x, x), jnp.where(mirrored, -y, y)))
    left = math.log(math.pi) - _log_sin_pi(jnp.where(mirrored, x, 0.25), y) - right
    return jnp.where(mirrored, left, right)


@custom_jvp
def complex_loggamma(z: Array) -> Array:
    """The principal branch of log Gamma(z); NaN at the poles."""
    undefined = _is_pole(z) | jnp.isnan(z)
    safe = jnp.where(undefined, 1, z)
    x, y = jnp.real(safe), jnp.imag(safe)
    upper = _upper_half(x, jnp.abs(y))
    value = jnp.where(jnp.signbit(y), jnp.conj(upper), upper)
    return jnp.where(undefined, complex(np.nan, np.nan), value)


@custom_jvp
def complex_gamma(z: Array) -> Array:
    """Gamma(z); NaN at the poles."""
    return jnp.exp(complex_loggamma(z))


def _digamma(z: Array) -> Array:
    """The derivative of log Gamma(z), by the derivative of what computes it."""
    mirrored = jnp.real(z) < 0.5
    right = jnp.where(mirrored, 1 - z, z)
    end = right + _SHIFT
    inverse = 1 / end
    square = inverse * inverse
    total = jnp.full_like(z, -(2 * len(STIRLING) - 1) * STIRLING[-1])
    for k in range(len(STIRLING) - 2, -1, -1):
        total = total * square - (2 * k + 1) * STIRLING[k]
    value = jnp.log(end) - 0.5 * inverse + total * square
    for k in range(_SHIFT):
        value = value - 1 / (right + k)
    fraction = jnp.where(mirrored, z - jnp.round(jnp.real(z)), 0.25)
    return jnp.where(mirrored, value - np.pi / jnp.tan(np.pi * fraction), value)


complex_loggamma.defjvps(lambda t, out, z: t * _digamma(z))
complex_gamma.defjvps(lambda t, out, z: t * out * _digamma(z))
