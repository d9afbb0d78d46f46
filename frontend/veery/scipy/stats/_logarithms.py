"""Logarithms of probabilities."""

from __future__ import annotations

import numpy as np

from veery import numpy as jnp
from veery.nn import log1mexp
from veery.numpy._promotion import Array, ArrayLike


def log_probability(p: Array, complement: Array) -> Array:
    """log(p), where p is close to 1 from 1 - p."""
    small, nothing = p < 0.5, p == 0
    logarithm = jnp.log(jnp.where(small & ~nothing, p, 1))
    logarithm = jnp.where(small, logarithm, jnp.log1p(-jnp.where(small, 0, complement)))
    return jnp.where(nothing, -np.inf, logarithm)


def log1p_of_square(z: Array, divisor: ArrayLike = 1) -> Array:
    """log(1 + z^2 / divisor), where the square is too large for its dtype, too."""
    large = z * z / divisor > 1e16
    near, far = jnp.where(large, 0, z), jnp.where(large, z, 1)
    return jnp.where(large, 2 * jnp.log(jnp.abs(far)) - jnp.log(divisor), jnp.log1p(near * near / divisor))


def log1mexp_of_exp(z: Array) -> Array:
    """log(1 - exp(-exp(z))), which is z where exp(z) is next to nothing."""
    tiny = z < -40
    return jnp.where(tiny, z, log1mexp(jnp.exp(jnp.where(tiny, 0, z))))
