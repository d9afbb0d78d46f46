"""The greatest eigenvalues of a matrix that is known by its products: LOBPCG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.inspection import eval_shape
from veery._api.shape_structs import ShapeDtypeStruct
from veery._core import dtypes
from veery.experimental.sparse._base import JAXSparse
from veery.experimental.sparse.util import Array


def lobpcg_standard(
    A: Array | Callable[[Array], Array], X: Array, m: int | Array = 100, tol: float | Array | None = None
) -> tuple[Array, Array, Array]:
    """The greatest eigenvalues of a symmetric matrix, by LOBPCG (Knyazev, 2001), without a preconditioner.

    Each step looks for the eigenvectors among sums of those found, their residuals and the last step's directions.

    Args:
        A: the matrix [n, n], dense or sparse, or a function from an array [n, k] to the product with it.
        X: array [n, k] of where to begin, of full rank; 5 k < n.
        m: how many steps are made at most.
        tol: an eigenpair (v, x) has converged when |A x - v x| <= tol * 10 * n * (v + |A x|); the precision of the
            dtype if None.

    Returns:
        (eigenvalues [k], the greatest first; eigenvectors [n, k], orthonormal; the number of steps).

    Raises:
        ValueError: shapes or dtypes do not fit.
        TypeError: the dtype is not real and floating-point.

    >>> import veery, veery.numpy as jnp
    >>> with veery.disable_jit():
    ...     values, vectors, steps = lobpcg_standard(jnp.diag(jnp.arange(1.0, 12.0)), jnp.ones((11, 1)), tol=1e-6)
    >>> values.round(2).tolist(), vectors.shape
    ([11.0], (11, 1))
    """
    X = jnp.asarray(X)
    times = A if callable(A) else lambda x: A @ x if isinstance(A, JAXSparse) else _mm(A, x)
    _check(X, times)
    n, k = X.shape
    tol = float(jnp.finfo(X.dtype).eps) if tol is None else tol

    def residuals(x: Array, values: Array) -> tuple[Array, Array]:
        product = times(x)
        rest = product - x * values[None]
        size = jnp.linalg.norm(product, axis=0) + values
        return rest, jnp.linalg.norm(rest, axis=0) <= tol * 10 * n * size

    def step(state: Any) -> Any:
        i, x, values, last, rest, _ = state
        rest, rest_there = _basis(rest, x)
        last, last_there = _basis(last, jnp.concatenate([x, rest], axis=1))
        space = jnp.concatenate([x, rest, last], axis=1)
        there = jnp.concatenate([jnp.ones(k, bool), rest_there, last_there])
        values, chosen = _greatest(space, times(space), there, k)
        found = _mm(space, chosen)
        towards = _mm(space[:, k:], chosen[k:])
        return i + 1, found, values, towards, *residuals(found, values)

    x, _ = _basis(X, jnp.zeros((n, 0), X.dtype))
    values, chosen = _greatest(x, times(x), jnp.ones(k, bool), k)
    x = _mm(x, chosen)
    start = (0, x, values, jnp.zeros_like(x), *residuals(x, values))
    i, x, values, *_ = lax.while_loop(lambda s: (s[0] < m) & ~jnp.all(s[-1]), step, start)
    return values, x, i


def _check(X: Array, times: Callable[[Array], Array]) -> None:
    if X.ndim != 2:
        raise ValueError(f"expected X of shape [n, k], got {X.shape}")
    n, k = X.shape
    if k == 0:
        raise ValueError("must have search dim > 0, got 0")
    if k * 5 >= n:
        raise ValueError(f"expected search dim * 5 < matrix dim (got {k * 5}, {n})")
    if not dtypes.issubdtype(X.dtype, np.floating):
        raise TypeError(f"lobpcg_standard: X is of a real floating-point dtype, got {X.dtype}")
    out = eval_shape(times, ShapeDtypeStruct((n, 1), X.dtype))
    if out.dtype != X.dtype:
        raise ValueError(f"A, X must have same dtypes (were {out.dtype}, {X.dtype})")
    if out.shape != (n, 1):
        raise ValueError(f"A must be ({n}, {n}) matrix A, got output {out.shape}")


def _mm(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _basis(vectors: Array, known: Array) -> tuple[Array, Array]:
    """An orthonormal basis of what vectors have beside a known one: zeros where there is less, and where it is there.

    Twice, since what is left after the first time may be mostly rounding (Stathopoulos and Wu, 2002).
    """
    there = jnp.ones(vectors.shape[1], bool)
    for _ in range(2):
        for _ in range(2):
            vectors = vectors - _mm(known, _mm(known.T, vectors))
        norms = jnp.linalg.norm(vectors, axis=0, keepdims=True)
        scaled = vectors / jnp.where(norms > 0, norms, 1)
        values, inner = jnp.linalg.eigh(_mm(scaled.T, scaled))
        there = values > 10 * jnp.finfo(vectors.dtype).eps * vectors.shape[1]
        vectors = _mm(scaled, inner) * jnp.where(there, lax.rsqrt(jnp.where(there, values, 1)), 0)[None]
    return vectors, there


def _greatest(space: Array, product: Array, there: Array, k: int) -> tuple[Array, Array]:
    """The greatest eigenvalues of a matrix within a space, and the eigenvectors in its basis.

    Vectors of the basis that are not there stand behind all others.
    """
    inner = _mm(space.T, product)
    inner = (inner + inner.T) / 2
    behind = -1 - 2 * jnp.linalg.norm(inner)
    values, vectors = jnp.linalg.eigh(inner + jnp.diag(jnp.where(there, 0, behind)))
    return values[-k:][::-1], vectors[:, -k:][:, ::-1]
