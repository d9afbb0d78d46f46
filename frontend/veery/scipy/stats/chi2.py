"""The chi-squared distribution: that of the sum of the squares of df standard normal numbers."""

from __future__ import annotations

import math

import numpy as np

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import gammainc, gammaincc, xlogy
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log_probability


@real(refusal=TypeError)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        df: array, the degrees of freedom, positive.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(sf(3.841, 1.0)), 3)
    0.05
    """
    outside = x < loc
    y = jnp.where(outside, 1, (x - loc) / scale)
    half = 0.5 * df
    inside = xlogy(half - 1, y) - 0.5 * y - lax.lgamma(half) - math.log(2) * half - jnp.log(scale)
    return jnp.where(outside, -np.inf, inside)


@real(refusal=TypeError)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, df, loc, scale))


@real(refusal=TypeError)
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    below, infinite = x < loc, x == np.inf
    y = jnp.where(below | infinite, 1, x - loc) / (2 * scale)
    return jnp.where(below, 0, jnp.where(infinite, 1, gammainc(0.5 * df, y)))


@real(refusal=TypeError)
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return log_probability(cdf(x, df, loc, scale), sf(x, df, loc, scale))


@real(refusal=TypeError)
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    below, infinite = x < loc, x == np.inf
    y = jnp.where(below | infinite, 1, x - loc) / (2 * scale)
    return jnp.where(below, 1, jnp.where(infinite, 0, gammaincc(0.5 * df, y)))


@real(refusal=TypeError)
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return log_probability(sf(x, df, loc, scale), cdf(x, df, loc, scale))
