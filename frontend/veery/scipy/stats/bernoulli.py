"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import xlog1py, xlogy
from veery.scipy.special._operands import real


@real(weak="numbers", refusal=TypeError)
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability.

    Args:
        k: array of numbers, of which 0 and 1 have a probability.
        p: array, the probability of 1.
        loc: array, the location.

    >>> round(float(pmf(1, 0.25)), 4)
    0.25
    """
    x = k - loc
    outside = (x < 0) | (x > 1)
    safe = jnp.where(outside, 0, x)
    return jnp.where(outside, -np.inf, xlogy(safe, p) + xlog1py(1 - safe, -p))


@real(weak="numbers", refusal=TypeError)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(k, p, loc))


@real(weak="numbers", refusal=TypeError)
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of values up to k; arguments as for logpmf."""
    undefined = jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1)
    return jnp.where(undefined, np.nan, jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)))


@real(weak="numbers", refusal=TypeError)
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The inverse of cdf, of probabilities q; other arguments as for logpmf."""
    undefined = jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1)
    return jnp.where(undefined, np.nan, jnp.where(q <= 1 - p, 0, 1))
