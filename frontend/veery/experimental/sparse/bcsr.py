"""BCSR: batched compressed rows. Columns by element, and for each row where its elements begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import numpy as jnp
from veery._core import dtypes
from veery._core.absent import attributes as _attributes
from veery._core.tree_registry import register_pytree_node_class
from veery.experimental.sparse import _bcoo as bcoo, _reshaping
from veery.experimental.sparse._base import JAXSparse
from veery.experimental.sparse._bcoo import BCOO, fitted
from veery.experimental.sparse.util import Array, nfold_vmap


@register_pytree_node_class
class BCSR(JAXSparse):
    """A sparse array of compressed rows.

    Args:
        args: (data, indices, indptr): arrays of shape (batch..., nse, dense...), (batch..., nse), (batch..., rows + 1).
            Elements indptr[i] to indptr[i + 1] are in row i; those from indptr[rows] on are padding.
        shape: (batch..., rows, columns, dense...).
        indices_sorted, unique_indices: what is known of the indices within each row.

    Raises:
        AssertionError: indices or indptr are no integers.
        ValueError: shapes do not fit together.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import sparse
    >>> x = sparse.BCSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> x.indices.tolist(), x.indptr.tolist(), (x @ jnp.ones(2)).tolist()
    ([1, 0], [0, 1, 2], [2.0, 3.0])
    """

    data: Array
    indices: Array
    indptr: Array

    def __init__(
        self, args: tuple[Array, Array, Array], *, shape: Sequence[int], indices_sorted: bool = False,
        unique_indices: bool = False,
    ):  # fmt: skip
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        for name, x in (("indices", self.indices), ("indptr", self.indptr)):
            if not dtypes.issubdtype(x.dtype, np.integer):
                raise AssertionError(f"the {name} of a BCSR must be integers, got {x.dtype.name}")
        n, rows = self.n_batch, self.shape[self.n_batch] if len(self.shape) > self.n_batch else None
        if len(self.shape) < n + 2 or self.indptr.shape[n:] != (rows + 1 if rows is not None else None,):
            raise ValueError(f"Invalid indptr.shape={self.indptr.shape} for shape={self.shape}")
        if self.data.shape[n:] != (self.nse, *self.shape[n + 2 :]):
            raise ValueError(f"Invalid data.shape={self.data.shape} for nse={self.nse}, shape={self.shape}")

    n_batch = property(lambda self: self.indices.ndim - 1)
    n_sparse = property(lambda self: 2)
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)
    nse = property(lambda self: self.indices.shape[-1])

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """See `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """From a BCOO with two sparse axes."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BCSR.from_bcoo requires n_sparse=2; got arr.n_sparse={arr.n_sparse}")
        arr = arr if arr.indices_sorted else arr.sort_indices()
        data, indices = bcoo.full_batch(arr)
        rows = arr.shape[arr.n_batch]
        begins = lambda row: jnp.searchsorted(row, jnp.arange(rows + 1, dtype=row.dtype)).astype(indices.dtype)
        indptr = nfold_vmap(begins, arr.n_batch, broadcasted=False)(indices[..., 0])
        known = {"indices_sorted": arr.indices_sorted, "unique_indices": arr.unique_indices}
        return cls((data, indices[..., 1], indptr), shape=arr.shape, **known)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """From a sparse matrix of SciPy."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse with nonzero n_dense/n_batch: go through BCOO")
        mat = mat.tocsr()
        index_dtype = index_dtype or np.int32
        indices, indptr = (jnp.asarray(x).astype(index_dtype) for x in (mat.indices, mat.indptr))
        return cls((jnp.asarray(mat.data), indices, indptr), shape=mat.shape)

    def to_bcoo(self) -> BCOO:
        """The array by coordinates."""
        rows, columns = self.shape[self.n_batch : self.n_batch + 2]

        def one(indices: Array, indptr: Array) -> Array:
            place = jnp.arange(self.nse, dtype=indptr.dtype)
            row = (jnp.searchsorted(indptr, place, side="right") - 1).astype(indices.dtype)
            column = jnp.where(row < rows, indices, columns)
            return jnp.stack([row, column], axis=-1)

        indices = nfold_vmap(one, self.n_batch)(self.indices, self.indptr)
        known = {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return BCOO((self.data, indices), shape=self.shape, **known)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array in which no index occurs twice."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))

    def todense(self) -> Array:
        """The array with its zeros."""
        return bcsr_todense(self)

    def transpose(self, axes: Any = None) -> BCSR:
        """The array with its axes in another order."""
        return BCSR.from_bcoo(self.to_bcoo().transpose(axes))

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        info = {"shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return (self.data, self.indices, self.indptr), info

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> BCSR:
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.__dict__.update(aux_data)
        if all(hasattr(x, "shape") for x in children) and len(made.indices.shape) >= 1:
            made.shape = fitted(made.shape, made.data, made.indices, len(made.indices.shape) - 1, 2)
        return made


def bcsr_fromdense(
    mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCSR:
    """The BCSR of a dense array; see `bcoo_fromdense`."""
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
    made = bcoo.bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCSR.from_bcoo(made)


def bcsr_todense(mat: BCSR) -> Array:
    """The array with its zeros."""
    return mat.to_bcoo().todense()


def bcsr_extract(indices: Array, indptr: Array, mat: Array) -> Array:
    """The elements of a dense array at the places of `indices` and `indptr`."""
    mat = jnp.asarray(mat)
    places = BCSR((jnp.zeros(jnp.shape(indices), mat.dtype), indices, indptr), shape=mat.shape)
    return bcoo.bcoo_extract(places.to_bcoo(), mat, assume_unique=True).data


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array in which no index occurs twice; see `bcoo_sum_duplicates`."""
    return mat.sum_duplicates(nse=nse, remove_zeros=False)


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array whose stored zeros are padding."""
    return BCSR.from_bcoo(bcoo.bcoo_eliminate_zeros(mat.to_bcoo(), nse=nse))


def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: None = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """`lax.dot_general` of a BCSR and an array; see `bcoo_dot_general`."""
    coordinates = [x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs)]
    return bcoo.bcoo_dot_general(
        *coordinates, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
    )


def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Any, broadcast_dimensions: Sequence[int], sharding: Any = None) -> BCSR:
    """As `lax.broadcast_in_dim`: new axes in front are axes of the batch."""
    made = bcoo.bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    return BCSR.from_bcoo(made)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """BCSRs one behind the other along an axis."""
    return BCSR.from_bcoo(_reshaping.bcoo_concatenate([op.to_bcoo() for op in operands], dimension=dimension))


__getattr__, __dir__ = _attributes(__name__)
