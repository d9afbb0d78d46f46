"""The wrapped Cauchy distribution, of angles in [0, 2 pi]."""

from __future__ import annotations

import math

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real


@real(refusal=TypeError)
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density.

    Args:
        x: array of angles.
        c: array, the concentration, between 0 and 1.

    >>> round(float(pdf(0.0, 0.5)), 4)
    0.4775
    """
    inside = (x >= 0) & (x <= 2 * np.pi)
    # 1 + c^2 - 2 c cos(x), where that would cancel
    distance = (1 - c) ** 2 + 4 * c * jnp.sin(0.5 * x) ** 2
    density = jnp.log1p(-c * c) - math.log(2 * math.pi) - jnp.log(distance)
    return jnp.where((c > 0) & (c < 1), jnp.where(inside, density, -np.inf), np.nan)


@real(refusal=TypeError)
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, c))
