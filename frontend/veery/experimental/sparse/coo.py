"""COO: a matrix by the row and the column of each element."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from veery import numpy as jnp
from veery._core.absent import attributes as _attributes
from veery._core.tree_registry import register_pytree_node_class
from veery.experimental.sparse import _matrices
from veery.experimental.sparse.util import Array

Shape = tuple[int, ...]
Dtype = Any


class COOInfo(NamedTuple):
    """What a COO matrix knows beside its buffers."""

    shape: Shape
    rows_sorted: bool = False
    cols_sorted: bool = False


@register_pytree_node_class
class COO(_matrices.SparseMatrix):
    """A matrix by coordinates: COO((data, row, col), shape=...); `BCOO` can do more.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import sparse
    >>> x = sparse.COO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> (x @ jnp.ones(2)).tolist(), (x.T @ jnp.ones(2)).tolist()
    ([2.0, 3.0], [3.0, 2.0])
    """

    def __init__(self, args: Any, *, shape: Any, rows_sorted: bool = False, cols_sorted: bool = False):
        self.data, self.row, self.col = map(jnp.asarray, args)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted
        super().__init__(args, shape=shape)

    nse = property(lambda self: self.data.size)
    _info = property(lambda self: COOInfo(self.shape, self._rows_sorted, self._cols_sorted))

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """The COO of a dense matrix."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        none = jnp.zeros(0, index_dtype)
        return cls((jnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        parts = _matrices.diagonal((N, M), k, dtype or float, index_dtype)
        return cls(parts, shape=(N, M), rows_sorted=True, cols_sorted=True)

    def coordinates(self) -> tuple[Array, Array, Array]:
        return self.data, self.row, self.col

    def transpose(self, axes: Any = None) -> COO:
        """The transposed matrix."""
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        known = {"rows_sorted": self._cols_sorted, "cols_sorted": self._rows_sorted}
        return COO((self.data, self.col, self.row), shape=self.shape[::-1], **known)

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        return (self.data, self.row, self.col), self._info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> COO:
        made = object.__new__(cls)
        made.data, made.row, made.col = children
        made.shape, made._rows_sorted, made._cols_sorted = aux_data.values()
        return made


def coo_fromdense(mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """The COO of a dense matrix; without nse its number of nonzero elements must be known."""
    return COO(_matrices.nonzero(mat, nse, index_dtype), shape=jnp.shape(mat), rows_sorted=True)


def coo_todense(mat: COO) -> Array:
    """The matrix with its zeros."""
    return mat.todense()


def coo_matvec(mat: COO, v: Array, transpose: bool = False) -> Array:
    """The matrix, or its transpose, times a vector."""
    return (mat.T if transpose else mat) @ v


def coo_matmat(mat: COO, B: Array, *, transpose: bool = False) -> Array:
    """The matrix, or its transpose, times a matrix."""
    return (mat.T if transpose else mat) @ B


__getattr__, __dir__ = _attributes(__name__)
