"""The multinomial distribution."""

from __future__ import annotations

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery.numpy._promotion import Array, ArrayLike, promote_args_inexact, promote_args_numeric
from veery.scipy.special import xlogy


@jit
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability.

    Args:
        x: array of integers, whose last dimension has the counts of the outcomes.
        n: array of integers, the number of trials.
        p: array whose last dimension has the probabilities of the outcomes.

    Returns:
        Array of the other dimensions of x; -inf where the counts are not n together.

    Raises:
        ValueError: x and n are not of integer dtype.

    >>> import veery.numpy as jnp
    >>> round(float(pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5]))), 4)
    0.5
    """
    (p,) = promote_args_inexact("multinomial.logpmf", p)
    counts, trials = map(jnp.asarray, promote_args_numeric("multinomial.logpmf", x, n))
    if not dtypes.issubdtype(counts.dtype, np.integer):
        raise ValueError(f"x and n must be of integer type; got x.dtype={counts.dtype}, n.dtype={trials.dtype}")
    dtype = jnp.result_type(p)
    y, total = counts.astype(dtype), trials.astype(dtype)
    logarithm = lax.lgamma(total + 1) + jnp.sum(xlogy(y, p) - lax.lgamma(y + 1), -1)
    return jnp.where(jnp.sum(y, -1) == total, logarithm, -np.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability; arguments as for logpmf."""
    return jnp.exp(logpmf(x, n, p))
