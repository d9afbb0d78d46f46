"""Systems of linear equations with sparse matrices, and eigenvalues."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.shape_structs import ShapeDtypeStruct
from veery._core import dtypes
from veery._core.absent import attributes as _attributes
from veery.experimental.sparse._eigenvalues import lobpcg_standard as lobpcg_standard
from veery.experimental.sparse._matrices import product, rows_of
from veery.experimental.sparse.util import Array
from veery.lax._callback import pure_callback


def spsolve(data: Array, indices: Array, indptr: Array, b: Array, tol: float = 1e-6, reorder: int = 1) -> Array:
    """The solution x of A x = b for a square sparse matrix, by `scipy.sparse.linalg.spsolve`, on the host.

    Args:
        data, indices, indptr: the matrix in CSR form.
        b: the right-hand side.
        tol: without effect.
        reorder: 0, 1, 2 or 3; without effect.

    Returns:
        A vector like `b`. It has derivatives with respect to `data` and `b`; under `vmap` systems are solved in turn.

    Raises:
        ValueError: dtypes or shapes do not fit.

    >>> import veery.numpy as jnp
    >>> data, indices, indptr = jnp.array([2.0, 1.0, 4.0]), jnp.array([0, 0, 1]), jnp.array([0, 1, 3])
    >>> spsolve(data, indices, indptr, jnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(jnp.asarray, (data, indices, indptr, b))
    _check(data, indices, indptr, b, reorder)
    rows = rows_of(indptr, data.shape[0])
    times = functools.partial(product, data, rows, indices, (b.shape[0], b.shape[0]))

    def solve(_: Any, b: Array, transposed: bool = False) -> Array:
        arrays = (data, indices, indptr, b)
        solver = functools.partial(_solved, transposed=transposed)
        return pure_callback(solver, ShapeDtypeStruct(b.shape, b.dtype), *arrays, vmap_method="sequential")

    return lax.custom_linear_solve(times, b, solve, functools.partial(solve, transposed=True))


def _check(data: Array, indices: Array, indptr: Array, b: Array, reorder: int) -> None:
    if data.dtype != b.dtype:
        raise ValueError(f"data types do not match: data.dtype={data.dtype} b.dtype={b.dtype}")
    if not all(dtypes.issubdtype(x.dtype, np.integer) for x in (indices, indptr)):
        raise ValueError(
            f"index arrays must be integer typed; got indices.dtype={indices.dtype} indptr.dtype={indptr.dtype}"
        )
    shapes = f"data.shape={data.shape} indices.shape={indices.shape} indptr.shape={indptr.shape} b.shape={b.shape}"
    if not data.ndim == indices.ndim == indptr.ndim == b.ndim == 1:
        raise ValueError(f"Arrays must be one-dimensional. Got {shapes}")
    if indptr.size != b.size + 1 or data.shape != indices.shape:
        raise ValueError(f"Invalid CSR buffer sizes: {shapes}")
    if reorder not in (0, 1, 2, 3):
        raise ValueError(f"reorder={reorder} not valid, must be one of [0, 1, 2, 3]")


def _solved(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, b: np.ndarray, *, transposed: bool) -> Any:
    import scipy.sparse.linalg  # which takes a tenth of a second

    matrix = scipy.sparse.csr_matrix(tuple(map(np.asarray, (data, indices, indptr))), shape=(b.size, b.size))
    matrix = matrix.T if transposed else matrix
    return np.asarray(scipy.sparse.linalg.spsolve(matrix.tocsc(), np.asarray(b))).astype(b.dtype)


__getattr__, __dir__ = _attributes(__name__)
