"""The Dirichlet distribution."""

from __future__ import annotations

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact
from veery.scipy.special import xlogy


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density.

    Args:
        x: array whose first dimension has the numbers of a simplex, or all of them but the last.
        alpha: array of one dimension, the exponents plus 1, positive.

    Returns:
        Array of the other dimensions of x; -inf where x is outside of the simplex.

    Raises:
        ValueError: alpha is not of one dimension, or has another size.

    >>> import veery.numpy as jnp
    >>> round(float(pdf(jnp.array([0.3, 0.7]), jnp.array([2.0, 1.0]))), 4)
    0.6
    """
    x, alpha = ensure_arraylike("dirichlet.logpdf", x, alpha)
    return _logpdf(x, alpha)


@jit
def _logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    x, alpha = map(jnp.asarray, promote_dtypes_inexact(x, alpha))
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    if x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, 1 - jnp.sum(x, 0, keepdims=True)])
    norm = jnp.sum(lax.lgamma(alpha)) - lax.lgamma(jnp.sum(alpha))
    exponents = jnp.reshape(alpha - 1, (-1, *[1] * (x.ndim - 1)))
    on_simplex = jnp.all(x > 0, 0) & (jnp.abs(jnp.sum(x, 0) - 1) < 1e-6)
    return jnp.where(on_simplex, jnp.sum(xlogy(exponents, x), 0) - norm, -np.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, alpha))
