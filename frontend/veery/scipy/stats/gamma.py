"""The gamma distribution."""

from __future__ import annotations

import numpy as np

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import gammainc, gammaincc, xlogy
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log_probability


@real(refusal=TypeError)
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        a: array, the shape parameter, positive.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(pdf(1.0, 2.0)), 4)
    0.3679
    """
    outside = x < loc
    y = jnp.where(outside, 1, (x - loc) / scale)
    inside = xlogy(a - 1, y) - y - lax.lgamma(a) - jnp.log(scale)
    return jnp.where(outside, -np.inf, inside)


@real(refusal=TypeError)
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, a, loc, scale))


@real(refusal=TypeError)
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    below, infinite = x < loc, x == np.inf
    y = jnp.where(below | infinite, 1, x - loc) / scale
    return jnp.where(below, 0, jnp.where(infinite, 1, gammainc(a, y)))


@real(refusal=TypeError)
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return log_probability(cdf(x, a, loc, scale), sf(x, a, loc, scale))


@real(refusal=TypeError)
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    below, infinite = x < loc, x == np.inf
    y = jnp.where(below | infinite, 1, x - loc) / scale
    return jnp.where(below, 1, jnp.where(infinite, 0, gammaincc(a, y)))


@real(refusal=TypeError)
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return log_probability(sf(x, a, loc, scale), cdf(x, a, loc, scale))
