"""The normal distribution between loc + a scale and loc + b scale."""

from __future__ import annotations

import math

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._error_functions import log_ndtr_of, ndtr_of
from veery.scipy.special._operands import of_each, real

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _log_mass(a: Array, b: Array) -> Array:
    """The logarithm of the normal probability between a < b, from the tail in which the two are."""
    far = 1e9  # has no probability to any precision, and a finite derivative
    a, b = jnp.clip(a, -far, far), jnp.clip(b, -far, far)
    right = a > 0
    central = ~right & (b > 0)
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    empty = low >= high
    low, high = jnp.where(central | empty, -2, low), jnp.where(central | empty, -1, high)
    of_low, of_high = of_each(log_ndtr_of, low, high)
    tail = of_high + jnp.log(-jnp.expm1(of_low - of_high))
    below, above = of_each(ndtr_of, jnp.where(central, a, -1), jnp.where(central, -b, -1))
    middle = jnp.log1p(-below - above)
    return jnp.where(empty, -np.inf, jnp.where(central, middle, tail))


def _logcdf(z: Array, a: Array, b: Array) -> Array:
    inside = (z > a) & (z < b)
    safe = jnp.where(inside, z, jnp.clip(0, a, b))
    z, a, b, safe = jnp.broadcast_arrays(z, a, b, safe)
    mass, of_lower, of_upper = _log_mass(jnp.stack([a, a, safe]), jnp.stack([b, safe, b]))
    lower = of_lower - mass
    near_one = lower > -0.1
    upper = jnp.where(near_one, of_upper - mass, -1)
    value = jnp.where(near_one, jnp.log1p(-jnp.exp(upper)), lower)
    value = jnp.where(inside, value, jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0, np.nan)))
    return jnp.where(a < b, value, np.nan)


@real(weak=False, refusal=TypeError)
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        a: array, the lower end, in units of scale from loc.
        b: array, the upper end, in units of scale from loc.
        loc: array, the mean of the normal distribution.
        scale: array, its standard deviation, positive.

    >>> round(float(pdf(0.0, -1.0, 1.0)), 4)
    0.5844
    """
    z = (x - loc) / scale
    inside = -0.5 * z * z - jnp.log(jnp.abs(scale)) - _HALF_LOG_2PI - _log_mass(a, b)
    return jnp.where(a < b, jnp.where((z < a) | (z > b), -np.inf, inside), np.nan)


@real(weak=False, refusal=TypeError)
def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


@real(weak=False, refusal=TypeError)
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return jnp.exp(_logcdf((x - loc) / scale, a, b))


@real(weak=False, refusal=TypeError)
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return _logcdf((x - loc) / scale, a, b)


@real(weak=False, refusal=TypeError)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return jnp.exp(_logcdf((loc - x) / scale, -b, -a))


@real(weak=False, refusal=TypeError)
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return _logcdf((loc - x) / scale, -b, -a)
