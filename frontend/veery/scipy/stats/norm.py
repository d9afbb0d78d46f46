"""The normal distribution."""

from __future__ import annotations

import math

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._error_functions import exp_of_square, log_ndtr_of, ndtr_of, ndtri_of
from veery.scipy.special._operands import real

_SQRT_2PI = math.sqrt(2 * math.pi)
_HALF_LOG_2PI = math.log(_SQRT_2PI)


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(logpdf(1.0)), 4)
    -1.4189
    """
    z = (x - loc) / scale
    return -0.5 * z * z - jnp.log(jnp.abs(scale)) - _HALF_LOG_2PI


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    z = (x - loc) / scale
    return exp_of_square(z, -0.5) / (_SQRT_2PI * jnp.abs(scale))


@real(weak=False, refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return ndtr_of((x - loc) / scale)


@real(weak=False, refusal=TypeError)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return log_ndtr_of((x - loc) / scale)


@real(weak=False, refusal=TypeError)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return ndtr_of((loc - x) / scale)


@real(weak=False, refusal=TypeError)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return log_ndtr_of((loc - x) / scale)


@real(weak=False, refusal=TypeError)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf, of probabilities q; other arguments as for logpdf."""
    return ndtri_of(q) * scale + loc


@real(weak=False, refusal=TypeError)
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf, of probabilities q; other arguments as for logpdf."""
    return -ndtri_of(q) * scale + loc
