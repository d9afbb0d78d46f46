"""The binomial distribution: the successes of n trials."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import betaln, xlog1py, xlogy
from veery.scipy.special._operands import real


@real(refusal=TypeError)
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability.

    Args:
        k: array of whole numbers.
        n: array of whole numbers, the number of trials.
        p: array, the probability of a success.
        loc: array, the location.

    >>> round(float(pmf(1, 2, 0.5)), 4)
    0.5
    """
    y = k - loc
    outside = ~((y >= 0) & (y < n + 1))
    safe_y, safe_n = jnp.where(outside, 0, y), jnp.where(outside, 0, n)
    combinations = -jnp.log1p(safe_n) - betaln(safe_n - safe_y + 1, safe_y + 1)
    inside = combinations + xlogy(safe_y, p) + xlog1py(safe_n - safe_y, -p)
    return jnp.where(outside, -np.inf, inside)


@real(refusal=TypeError)
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(k, n, p, loc))
