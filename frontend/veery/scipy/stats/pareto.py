"""Pareto's distribution, from loc + scale on."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.nn import log1mexp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real


def _logarithm(x: Array, loc: Array, scale: Array) -> tuple[Array, Array]:
    """Whether x is below loc + scale, and the logarithm of (x - loc) / scale, there 1."""
    below = x < loc + scale
    return below, jnp.where(below, 1, jnp.log(jnp.where(below, scale, x - loc) / scale))


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        b: array, the exponent of sf, positive.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(sf(2.0, 3.0)), 4)
    0.125
    """
    below, log_y = _logarithm(x, loc, scale)
    return jnp.where(below, -np.inf, jnp.log(b / scale) - (b + 1) * log_y)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, b, loc, scale))


@real(weak="numbers", refusal=TypeError)
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return -jnp.expm1(logsf(x, b, loc, scale))


@real(refusal=TypeError)
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    below, log_y = _logarithm(x, loc, scale)
    return jnp.where(below, -np.inf, log1mexp(b * log_y))


@real(weak="numbers", refusal=TypeError)
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return jnp.exp(logsf(x, b, loc, scale))


@real(weak="numbers", refusal=TypeError)
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    below, log_y = _logarithm(x, loc, scale)
    return jnp.where(below, 0, -b * log_y)


@real(weak="numbers", refusal=TypeError)
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf, of probabilities q; other arguments as for logpdf."""
    return jnp.where((q >= 0) & (q <= 1), loc + scale * jnp.exp(-jnp.log1p(-q) / b), np.nan)
