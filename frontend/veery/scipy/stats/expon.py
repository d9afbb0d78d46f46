"""The exponential distribution, from loc on, of rate 1 / scale."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.nn import log1mexp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real


def _logsf(x: Array, loc: ArrayLike, scale: ArrayLike) -> Array:
    return jnp.where(x < loc, 0, (loc - x) / scale)


@real(refusal=TypeError)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(sf(1.0)), 4)
    0.3679
    """
    return jnp.where(x < loc, -np.inf, -((x - loc) / scale + jnp.log(scale)))


@real(refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.where(x < loc, 0, jnp.exp(-jnp.where(x < loc, 0, x - loc) / scale) / scale)


@real(refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return -jnp.expm1(_logsf(x, loc, scale))


@real(refusal=TypeError)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return jnp.where(x < loc, -np.inf, log1mexp(jnp.where(x < loc, 1, (x - loc) / scale)))


@real(refusal=TypeError)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return jnp.exp(_logsf(x, loc, scale))


@real(refusal=TypeError)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return _logsf(x, loc, scale)


@real(refusal=TypeError)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf, of probabilities q; other arguments as for logpdf."""
    return jnp.where((q >= 0) & (q <= 1), loc - scale * jnp.log1p(-q), np.nan)
