"""Logarithms of probabilities."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array


def log_probability(p: Array, complement: Array) -> Array:
    """log(p), where p is close to 1 from 1 - p."""
    small, nothing = p < 0.5, p == 0
    logarithm = jnp.log(jnp.where(small & ~nothing, p, 1))
    logarithm = jnp.where(small, logarithm, jnp.log1p(-jnp.where(small, 0, complement)))
    return jnp.where(nothing, -np.inf, logarithm)
