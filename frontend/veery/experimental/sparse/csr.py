"""CSR and CSC: matrices of compressed rows, and of compressed columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import numpy as jnp
from veery._core.absent import attributes as _attributes
from veery._core.tree_registry import register_pytree_node_class
from veery.experimental.sparse import _matrices
from veery.experimental.sparse.util import Array

Shape = tuple[int, ...]


class _Compressed(_matrices.SparseMatrix):
    """What both have: data, indices along one axis, and where the lines along the other begin."""

    def __init__(self, args: Any, *, shape: Any):
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        super().__init__(args, shape=shape)

    nse = property(lambda self: self.data.size)

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        return (self.data, self.indices, self.indptr), {"shape": self.shape}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> Any:
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.shape = aux_data["shape"]
        return made


@register_pytree_node_class
class CSR(_Compressed):
    """A matrix of compressed rows: CSR((data, columns, indptr), shape=...); `BCSR` can do more.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import sparse
    >>> x = sparse.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> (x @ jnp.ones(2)).tolist(), type(x.T).__name__
    ([2.0, 3.0], 'CSC')
    """

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """The CSR of a dense matrix."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        rows = tuple(shape)[0]
        return cls((jnp.zeros(0, dtype), jnp.zeros(0, index_dtype), jnp.zeros(rows + 1, index_dtype)), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        data, row, col = _matrices.diagonal((N, M), k, dtype or float, index_dtype)
        return cls((data, col, _matrices.indptr_of(row, N)), shape=(N, M))

    def coordinates(self) -> tuple[Array, Array, Array]:
        return self.data, _matrices.rows_of(self.indptr, self.nse), self.indices

    def transpose(self, axes: Any = None) -> CSC:
        """The transposed matrix."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@register_pytree_node_class
class CSC(_Compressed):
    """A matrix of compressed columns: CSC((data, rows, indptr), shape=...)."""

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """The CSC of a dense matrix."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._empty(tuple(shape)[::-1], dtype=dtype, index_dtype=index_dtype).T

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).T

    def coordinates(self) -> tuple[Array, Array, Array]:
        return self.data, self.indices, _matrices.rows_of(self.indptr, self.nse)

    def transpose(self, axes: Any = None) -> CSR:
        """The transposed matrix."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def csr_fromdense(mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """The CSR of a dense matrix; without nse its number of nonzero elements must be known."""
    data, row, col = _matrices.nonzero(mat, nse, index_dtype)
    return CSR((data, col, _matrices.indptr_of(row, jnp.shape(mat)[0])), shape=jnp.shape(mat))


def csr_todense(mat: CSR) -> Array:
    """The matrix with its zeros."""
    return mat.todense()


def csr_matvec(mat: CSR, v: Array, transpose: bool = False) -> Array:
    """The matrix, or its transpose, times a vector."""
    return (mat.T if transpose else mat) @ v


def csr_matmat(mat: CSR, B: Array, *, transpose: bool = False) -> Array:
    """The matrix, or its transpose, times a matrix."""
    return (mat.T if transpose else mat) @ B


__getattr__, __dir__ = _attributes(__name__)
