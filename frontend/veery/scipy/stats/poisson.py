"""The Poisson distribution."""

from __future__ import annotations

import math

import numpy as np

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import gammaincc, xlogy
from veery.scipy.special._operands import real


@real(refusal=TypeError)
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability.

    Args:
        k: array of numbers, of which whole ones have a probability.
        mu: array, the mean, not negative.
        loc: array, the location.

    >>> round(float(pmf(1, 1.0)), 4)
    0.3679
    """
    x = k - loc
    outside = (x < 0) | (jnp.round(k) != k)
    safe = jnp.where(outside, 0, x)
    return jnp.where(outside, -np.inf, xlogy(safe, mu) - lax.lgamma(safe + 1) - mu)


@real(refusal=TypeError)
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(k, mu, loc))


@real(weak="numbers", refusal=TypeError)
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of values up to k; arguments as for logpmf."""
    x = k - loc
    return jnp.where(x < 0, 0, gammaincc(jnp.where(x < 0, 1, jnp.floor(1 + x)), mu))


_MOST = 250  # of the values that a number of mean less than 100 has with a probability that counts


def _by_sum(mu: Array) -> Array:
    counts = jnp.arange(_MOST, dtype=mu.dtype).reshape(-1, *[1] * mu.ndim)
    logarithms = logpmf(counts, jnp.where(mu == 0, 1, mu))
    return jnp.where(mu == 0, 0, -jnp.sum(jnp.exp(logarithms) * logarithms, 0))


@real(weak=False, refusal=TypeError)
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy: a sum for means less than 100, of greater ones the first terms of its expansion in 1 / mu.

    Args:
        mu: array, the mean, not negative.
        loc: array, the location, on which the entropy does not depend.

    >>> round(float(entropy(1.0)), 4)
    1.3048
    """
    large = jnp.where(mu < 100, 100, mu)
    z = 1 / large
    tail = z * (1 / 12 + z * (1 / 24 + z * (19 / 360 + z * (9 / 80))))
    far = 0.5 * jnp.log(large) + (0.5 * math.log(2 * math.pi * math.e) - tail)
    value = jnp.where(mu < 100, _by_sum(jnp.where(mu < 100, mu, 1)), far)
    return value + jnp.zeros_like(loc)
