"""Logarithms of probabilities."""

from __future__ import annotations

from veery import numpy as jnp
from veery.numpy._promotion import Array


def log_probability(p: Array, complement: Array) -> Array:
    """log(p), where p is close to 1 from 1 - p."""
    small = p < 0.5
    return jnp.where(small, jnp.log(jnp.where(small, p, 1)), jnp.log1p(-jnp.where(small, 0, complement)))
