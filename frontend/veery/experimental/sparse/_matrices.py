"""The matrices of COO, CSR and CSC: what they have in common, by way of coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import numpy as jnp, ops
from veery._core.dtypes import canonicalize_dtype
from veery.experimental.sparse._base import JAXSparse
from veery.experimental.sparse.util import Array


def rows_of(indptr: Array, nse: int) -> Array:
    """The row of each of nse elements; the number of rows for padding."""
    place = jnp.arange(nse, dtype=indptr.dtype)
    return (jnp.searchsorted(indptr, place, side="right") - 1).astype(indptr.dtype)


def indptr_of(rows: Array, count: int) -> Array:
    """Where each of `count` rows begins, by the sorted rows of the elements."""
    return jnp.searchsorted(rows, jnp.arange(count + 1, dtype=rows.dtype)).astype(rows.dtype)


def nonzero(mat: Array, nse: int | None, index_dtype: Any) -> tuple[Array, Array, Array]:
    """The elements of a matrix that are not zero, and their rows and columns."""
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ValueError(f"expected a matrix, got an array of shape {mat.shape}")
    nse = int((mat != 0).sum()) if nse is None else nse
    row, col = (i.astype(index_dtype) for i in jnp.nonzero(mat, size=nse, fill_value=mat.shape))
    return mat.at[row, col].get(mode="fill", fill_value=0), row, col


def dense(data: Array, row: Array, col: Array, shape: tuple[int, ...]) -> Array:
    """The matrix with its zeros."""
    return jnp.zeros(shape, data.dtype).at[row, col].add(data, mode="drop")


def product(data: Array, row: Array, col: Array, shape: tuple[int, ...], other: Array) -> Array:
    """The matrix times a vector or a matrix: rows of the other by column, summed by row."""
    other = jnp.asarray(other)
    dtype = jnp.result_type(data, other)
    if other.ndim not in (1, 2) or other.shape[0] != shape[1]:
        raise TypeError(f"matrix of shape {shape} times an array of shape {other.shape}: inner sizes must agree")
    found = other.at[col].get(mode="fill", fill_value=0).astype(dtype)
    values = data.astype(dtype).reshape(-1, *[1] * (other.ndim - 1))
    return ops.segment_sum(values * found, row, num_segments=shape[0])


class SparseMatrix(JAXSparse):
    """A matrix in one of the older formats, which multiplies vectors and matrices."""

    def coordinates(self) -> tuple[Array, Array, Array]:
        """The elements, their rows and their columns."""
        raise NotImplementedError

    def todense(self) -> Array:
        """The matrix with its zeros."""
        return dense(*self.coordinates(), self.shape)

    def __matmul__(self, other: Any) -> Array:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.")
        return product(*self.coordinates(), self.shape, other)

    def __rmatmul__(self, other: Any) -> Array:
        data, row, col = self.coordinates()
        other = jnp.asarray(other)
        return product(data, col, row, self.shape[::-1], other.T).T


def diagonal(shape: tuple[int, int], k: int, dtype: Any, index_dtype: Any) -> tuple[Array, Array, Array]:
    """The elements, rows and columns of a matrix with ones on a diagonal."""
    size = max(0, min(shape[0] + min(k, 0), shape[1] - max(k, 0)))
    place = np.arange(size)
    ones = jnp.ones(size, canonicalize_dtype(dtype))
    return ones, jnp.asarray(place - min(k, 0), index_dtype), jnp.asarray(place + max(k, 0), index_dtype)
