"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real


@real(refusal=TypeError)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> float(cdf(0.25))
    0.25
    """
    return jnp.where((x < loc) | (x > loc + scale), -np.inf, -jnp.log(scale))


@real(refusal=TypeError)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.where((x < loc) | (x > loc + scale), 0, 1 / jnp.asarray(scale))


@real(weak=False, refusal=TypeError)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return jnp.where(x < loc, 0, jnp.where(x > loc + scale, 1, (x - loc) / scale))


@real(refusal=TypeError)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf, of probabilities q; other arguments as for logpdf."""
    return jnp.where((q >= 0) & (q <= 1), loc + scale * q, np.nan)
