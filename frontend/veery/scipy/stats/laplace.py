"""Laplace's distribution, the double exponential one."""

from __future__ import annotations

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
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
    return -jnp.abs(x - loc) / scale - jnp.log(2 * scale)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(-jnp.abs(x - loc) / scale) / (2 * scale)


@real(weak="numbers", refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    z = (x - loc) / scale
    tail = 0.5 * jnp.exp(jnp.where(z <= 0, z, -z))
    return jnp.where(z <= 0, tail, 1 - tail)
