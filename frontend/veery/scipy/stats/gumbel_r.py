"""The Gumbel distribution of greatest values."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log1mexp_of_exp


@real(refusal=TypeError)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(cdf(0.0)), 4)
    0.3679
    """
    z = (x - loc) / scale
    return jnp.where(scale > 0, -z - jnp.exp(-z) - jnp.log(scale), np.nan)


@real(refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, loc, scale))


@real(refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return jnp.exp(logcdf(x, loc, scale))


@real(refusal=TypeError)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return jnp.where(scale > 0, -jnp.exp((loc - x) / scale), np.nan)


@real(weak="numbers", refusal=TypeError)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return -jnp.expm1(logcdf(x, loc, scale))


@real(refusal=TypeError)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return jnp.where(scale > 0, log1mexp_of_exp((loc - x) / scale), np.nan)


@real(refusal=TypeError)
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf, of probabilities p; other arguments as for logpdf."""
    return jnp.where((p > 0) & (p < 1), loc - scale * jnp.log(-jnp.log(p)), np.nan)
