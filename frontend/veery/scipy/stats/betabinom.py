"""The beta-binomial distribution: the successes of n trials whose probability has a beta distribution."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import betaln
from veery.scipy.special._operands import real


@real(weak="numbers", refusal=TypeError)
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability.

    Args:
        k: array of whole numbers.
        n: array of whole numbers, not negative.
        a: array, a parameter of the beta distribution, positive.
        b: array, the other one.
        loc: array, the location.

    >>> round(float(pmf(1, 2, 1.0, 1.0)), 4)
    0.3333
    """
    y = jnp.floor(k) - loc
    outside = (y < 0) | (y > n)
    undefined = (n < 0) | (a <= 0) | (b <= 0)
    safe_y, safe_n = jnp.where(outside, 0, y), jnp.where(undefined, 0, n)
    rest = jnp.where(outside | undefined, 0, safe_n - safe_y)
    combinations = -jnp.log1p(safe_n) - betaln(rest + 1, safe_y + 1)
    inside = combinations + betaln(safe_y + a, rest + b) - betaln(a, b)
    return jnp.where(undefined, np.nan, jnp.where(outside, -np.inf, inside))


@real(weak="numbers", refusal=TypeError)
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(k, n, a, b, loc))
