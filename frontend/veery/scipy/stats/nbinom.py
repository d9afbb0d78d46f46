"""The negative binomial distribution: the failures before the n-th success."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import betaln, xlog1py, xlogy
from veery.scipy.special._operands import real


@real(weak="numbers", refusal=TypeError)
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability.

    Args:
        k: array of whole numbers.
        n: array, the number of successes, positive.
        p: array, the probability of a success.
        loc: array, the location.

    >>> round(float(pmf(1, 2, 0.5)), 4)
    0.25
    """
    y = k - loc
    outside = y < 0
    safe = jnp.where(outside, 0, y)
    combinations = -jnp.log(n + safe) - betaln(n, safe + 1)
    return jnp.where(outside, -np.inf, combinations + xlogy(n, p) + xlog1py(safe, -p))


@real(weak="numbers", refusal=TypeError)
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(k, n, p, loc))
