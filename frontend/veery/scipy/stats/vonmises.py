"""Von Mises' distribution, of angles, around 0."""

from __future__ import annotations

import numpy as np

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special._operands import real


@real(refusal=TypeError)
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density.

    Args:
        x: array of angles.
        kappa: array, the concentration, positive.

    >>> round(float(pdf(0.0, 1.0)), 4)
    0.3417
    """
    safe = jnp.where(kappa > 0, kappa, 1)
    inside = -2 * safe * jnp.sin(0.5 * x) ** 2 - jnp.log(2 * np.pi * lax.bessel_i0e(safe))
    return jnp.where(kappa > 0, inside, np.nan)


@real(refusal=TypeError)
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, kappa))
