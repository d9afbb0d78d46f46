"""The chi-squared distribution: that of the sum of the squares of df standard normal numbers.

It is the gamma distribution of df / 2 with twice the scale.
"""

from __future__ import annotations

from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real
from veery.scipy.stats import gamma


@real(weak="numbers", refusal=TypeError)
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
    return gamma.logpdf(x, 0.5 * df, loc, 2 * scale)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return gamma.pdf(x, 0.5 * df, loc, 2 * scale)


@real(weak="numbers", refusal=TypeError)
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return gamma.cdf(x, 0.5 * df, loc, 2 * scale)


@real(weak="numbers", refusal=TypeError)
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return gamma.logcdf(x, 0.5 * df, loc, 2 * scale)


@real(weak="numbers", refusal=TypeError)
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return gamma.sf(x, 0.5 * df, loc, 2 * scale)


@real(weak="numbers", refusal=TypeError)
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return gamma.logsf(x, 0.5 * df, loc, 2 * scale)
