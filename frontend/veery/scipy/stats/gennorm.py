"""The generalised normal distribution, with density proportional to exp(-|x|^beta)."""

from __future__ import annotations

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import gammaincc
from veery.scipy.special._operands import real


@real(refusal=TypeError)
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        beta: array, the exponent, positive.

    >>> round(float(pdf(0.0, 2.0)), 4)
    0.5642
    """
    return jnp.log(0.5 * beta) - lax.lgamma(1 / beta) - jnp.abs(x) ** beta


@real(refusal=TypeError)
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, beta))


@real(refusal=TypeError)
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    power = jnp.abs(x) ** beta
    # The power is next to nothing, and may be too small for its dtype, where |x| is not.
    small = (power < 1e-18) & (beta > 0)
    tail = 0.5 * gammaincc(1 / beta, jnp.where(small, 1, power))
    near = 0.5 + 0.5 * x * jnp.exp(-lax.lgamma(1 + 1 / beta))
    return jnp.where(small, near, jnp.where(x > 0, 1 - tail, tail))
