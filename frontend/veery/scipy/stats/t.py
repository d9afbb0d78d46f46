"""Student's t distribution."""

from __future__ import annotations

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import betaln
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log1p_of_square


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        df: array, the degrees of freedom, positive.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(pdf(0.0, 1.0)), 4)
    0.3183
    """
    z = (x - loc) / scale
    norm = betaln(0.5 * jnp.ones_like(df), 0.5 * df) + 0.5 * jnp.log(df) + jnp.log(jnp.abs(scale))
    return -norm - 0.5 * (df + 1) * log1p_of_square(z, df)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, df, loc, scale))
