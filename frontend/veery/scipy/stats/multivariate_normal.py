"""The multivariate normal distribution."""

from __future__ import annotations

import math

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact

_LOG_2PI = math.log(2 * math.pi)


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density.

    Args:
        x: array whose last dimension has the coordinates of a point.
        mean: array that broadcasts with x; a scalar for one dimension.
        cov: matrices of covariances that broadcast with the points, or the variance of each coordinate.
        allow_singular: must be None.

    Returns:
        Array of the other dimensions.

    Raises:
        ValueError: the shapes do not fit.
        NotImplementedError: allow_singular is given.

    >>> import veery.numpy as jnp
    >>> round(float(logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 4)
    -1.8379
    """
    if allow_singular is not None:
        raise NotImplementedError("allow_singular argument of multivariate_normal.logpdf")
    x, mean, cov = ensure_arraylike("multivariate_normal.logpdf", x, mean, cov)
    return _logpdf(x, mean, cov)


@jit
def _logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    x, mean, cov = map(jnp.asarray, promote_dtypes_inexact(x, mean, cov))
    if mean.ndim and cov.ndim and cov.shape[-2:] != mean.shape[-1:] * 2:
        raise ValueError("multivariate_normal.logpdf got incompatible shapes")
    y = x - mean
    if mean.ndim == 0:
        return -0.5 * (y * y / cov + _LOG_2PI + jnp.log(cov))
    n = mean.shape[-1]
    if cov.ndim == 0:
        return -0.5 * (jnp.sum(y * y, -1) / cov + n * (_LOG_2PI + jnp.log(cov)))
    factor = lax.linalg.cholesky(cov)
    if cov.ndim == 2:  # all points are one right-hand side
        columns = lax.linalg.triangular_solve(factor, y.reshape(-1, n).T, left_side=True, lower=True)
        squares = jnp.sum(columns * columns, 0).reshape(y.shape[:-1])
    else:
        batch = jnp.broadcast_shapes(y.shape[:-1], cov.shape[:-2])
        factors = jnp.broadcast_to(factor, (*batch, n, n))
        points = jnp.broadcast_to(y, (*batch, n))[..., None]
        columns = lax.linalg.triangular_solve(factors, points, left_side=True, lower=True)
        squares = jnp.sum(columns * columns, (-2, -1))
    log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * (squares + n * _LOG_2PI + log_determinant)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, mean, cov))
