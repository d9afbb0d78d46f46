"""The logistic distribution."""

from __future__ import annotations

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import logit
from veery.scipy.special._operands import real


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(cdf(0.0)), 4)
    0.5
    """
    half = 0.5 * ((x - loc) / scale)
    return -2 * jnp.logaddexp(half, -half) - jnp.log(scale)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, loc, scale))


@real(refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return lax.logistic((x - loc) / scale)


@real(refusal=TypeError)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return lax.logistic((loc - x) / scale)


@real(weak="numbers", refusal=TypeError)
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf; arguments as for logpdf."""
    return logit(x) * scale + loc


@real(weak="numbers", refusal=TypeError)
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf; arguments as for logpdf."""
    return -logit(x) * scale + loc
