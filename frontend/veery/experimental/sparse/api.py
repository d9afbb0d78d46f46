"""Sparse arrays of any format: made empty, with ones on a diagonal, and made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery import numpy as jnp
from veery._core.absent import attributes as _attributes
from veery._core.ad import LINEAR
from veery._core.primitive import Primitive
from veery._core.trace import Tracer
from veery.experimental.sparse import _matrices
from veery.experimental.sparse._base import JAXSparse
from veery.experimental.sparse._bcoo import BCOO
from veery.experimental.sparse.bcsr import BCSR
from veery.experimental.sparse.coo import COO
from veery.experimental.sparse.csr import CSC, CSR
from veery.experimental.sparse.util import Array


def todense(arr: Any) -> Array:
    """A sparse array as a dense one; dense ones stay. Within `sparsify` it says where arrays may become dense.

    >>> from veery.experimental import sparse
    >>> sparse.sparsify(lambda x: jnp.cos(sparse.todense(x)))(sparse.eye(2)).round(3).tolist()
    [[0.5400000214576721, 1.0], [1.0, 0.5400000214576721]]
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return todense_p.bind(arr) if isinstance(arr, Tracer) else jnp.asarray(arr)


# An array that stands for a sparse one while a function is traced for `sparsify`.
todense_p: Primitive = Primitive(
    "todense",
    abstract_eval=lambda x: x,
    jvp=LINEAR,
    transpose=lambda ct, x: [ct],
    batch=lambda args, dims: (todense_p.bind(args[0]), dims[0]),
    impl=lambda x: x,
    reference=lambda x: x,
)
todense_p.lowered_as = lambda x: [x]


_MATRICES: dict[str, Any] = {"coo": COO, "csr": CSR, "csc": CSC}
_FORMATS = (*_MATRICES, "bcoo", "bcsr")


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo", **kwds: Any
) -> JAXSparse:
    """A sparse array without elements.

    Args:
        shape: of the array.
        dtype, index_dtype: of the elements and of the indices.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        **kwds: of a BCOO: nse, n_batch, n_dense.

    Raises:
        KeyError: there is no such format.
    """
    _check(sparse_format)
    if sparse_format in _MATRICES:
        made: JAXSparse = _MATRICES[sparse_format]._empty(shape, dtype=dtype, index_dtype=index_dtype)
        return made
    coordinates = _empty_bcoo(tuple(shape), dtype, index_dtype, **kwds)
    return coordinates if sparse_format == "bcoo" else BCSR.from_bcoo(coordinates)


def _check(sparse_format: str) -> None:
    if sparse_format not in _FORMATS:
        raise KeyError(sparse_format)


def _empty_bcoo(
    shape: tuple[int, ...], dtype: Any, index_dtype: Any, nse: int = 0, n_batch: int = 0, n_dense: int = 0
) -> BCOO:
    n_sparse = len(shape) - n_batch - n_dense
    if n_sparse < 0:
        raise ValueError(f"Invalid inputs: shape={shape}, n_batch={n_batch}, n_dense={n_dense}")
    batch, sizes, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
    indices = jnp.broadcast_to(jnp.asarray(sizes, index_dtype), (*batch, nse, n_sparse))
    known = {"indices_sorted": True, "unique_indices": True}
    return BCOO((jnp.zeros((*batch, nse, *dense), dtype), indices), shape=shape, **known)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", **kwds: Any,
) -> JAXSparse:  # fmt: skip
    """A sparse matrix with ones on a diagonal; see `numpy.eye` and `empty`.

    >>> from veery.experimental import sparse
    >>> sparse.eye(3).todense().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    _check(sparse_format)
    M = N if M is None else M
    if sparse_format in _MATRICES:
        made: JAXSparse = _MATRICES[sparse_format]._eye(N, M, k, dtype=dtype, index_dtype=index_dtype)
        return made
    layout = {name: kwds.pop(name, 0) for name in ("n_batch", "n_dense")}
    data, row, col = _matrices.diagonal((N, M), k, dtype or float, index_dtype)
    known = {"indices_sorted": True, "unique_indices": True}
    coordinates = BCOO((data, jnp.stack([row, col], axis=-1)), shape=(N, M), **known)
    if any(layout.values()):
        coordinates = BCOO.fromdense(coordinates.todense(), index_dtype=index_dtype, **layout)
    return coordinates if sparse_format == "bcoo" else BCSR.from_bcoo(coordinates)


__getattr__, __dir__ = _attributes(__name__)
