"""The geometric distribution: the number of trials up to the first success."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import xlog1py
from veery.scipy.special._operands import real


@real(weak="numbers", refusal=TypeError)
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability.

    Args:
        k: array of whole numbers.
        p: array, the probability of a success.
        loc: array, the location.

    >>> round(float(pmf(2, 0.5)), 4)
    0.25
    """
    x = k - loc
    outside = x <= 0
    inside = xlog1py(jnp.where(outside, 0, x - 1), -p) + jnp.log(p)
    return jnp.where(outside, -np.inf, inside)


@real(weak="numbers", refusal=TypeError)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(k, p, loc))
