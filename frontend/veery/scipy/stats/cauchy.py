"""The Cauchy distribution."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log1p_of_square


def _cdf(z: Array) -> Array:
    """1/2 + arctan(z) / pi, accurate in the lower tail."""
    return jnp.arctan2(jnp.ones_like(z), -z) * (1 / np.pi)


def _ppf(q: Array) -> Array:
    """-1 / tan(pi q), by the nearer end of [0, 1]; NaN outside of it."""
    tail = jnp.where(q < 0.5, q, 1 - q)
    size = 1 / jnp.tan(np.pi * jnp.where(tail > 0, tail, 0.25))
    size = jnp.where(tail > 0, size, jnp.where(tail == 0, np.inf, np.nan))
    return jnp.where(q < 0.5, -size, size)


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(cdf(1.0)), 4)
    0.75
    """
    z = (x - loc) / scale
    return -jnp.log(np.pi * scale) - log1p_of_square(z)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    z = (x - loc) / scale
    return 1 / (np.pi * scale * (1 + z * z))


@real(weak="numbers", refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return _cdf((x - loc) / scale)


@real(weak="numbers", refusal=TypeError)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return jnp.log(_cdf((x - loc) / scale))


@real(weak="numbers", refusal=TypeError)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return _cdf((loc - x) / scale)


@real(weak="numbers", refusal=TypeError)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return jnp.log(_cdf((loc - x) / scale))


@real(weak="numbers", refusal=TypeError)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf, of probabilities q; other arguments as for logpdf."""
    return _ppf(q) * scale + loc


@real(weak="numbers", refusal=TypeError)
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf, of probabilities q; other arguments as for logpdf."""
    return -_ppf(q) * scale + loc
