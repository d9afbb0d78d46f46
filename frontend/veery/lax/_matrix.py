"""Matrices in the last two dimensions: what the decompositions of `lax.linalg` are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery.lax import _arithmetic, _compare, _contract, _convert, _fill, _reduce, _shape, _slicing
from veery.lax._declare import INEXACT, check_dtype


def check_rank(name: str, x: ShapedArray, rank: int = 2, position: int = 0) -> None:
    """Raise TypeError unless an operand is of an inexact dtype that LAPACK knows and has at least some rank."""
    check_dtype(name, x.dtype, INEXACT)
    if is_narrow(x.dtype):
        raise NotImplementedError(f"{name}: unsupported dtype {x.dtype.name}; convert to float32 or wider.")
    if x.ndim < rank:
        raise TypeError(f"Input {position} to {name} must have rank at least {rank}, but got shape={x.shape}")


def is_narrow(dtype: Any) -> bool:
    """Whether a dtype is of floats narrower than LAPACK's."""
    return dtypes.issubdtype(dtype, np.floating) and dtype.itemsize < 4


def check_square(name: str, x: ShapedArray, message: str) -> None:
    """Raise ValueError with a message in which {} is the shape, unless the matrices are square."""
    check_rank(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(message.format(x.shape))


def real_dtype(x: Any) -> Any:
    """The dtype of the parts of x."""
    return dtypes.finfo(dtype_of(x)).dtype


def dtype_of(x: Any) -> Any:
    return _convert.dtype(x)


def is_complex(x: Any) -> bool:
    return dtypes.issubdtype(dtype_of(x), np.complexfloating)


def conj(x: Any) -> Any:
    return _arithmetic.conj(x) if is_complex(x) else x


def transpose(x: Any) -> Any:
    """The matrices transposed."""
    rank = np.ndim(x)
    return _shape.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Any) -> Any:
    """The conjugates of the transposed matrices."""
    return conj(transpose(x))


def matmul(a: Any, b: Any) -> Any:
    """Products of matrices, in the precision of their dtype."""
    return _contract.batch_matmul(a, b, precision=_contract.Precision.HIGHEST)


def indices(x: Any, axis: int) -> Any:
    """The int32 row (axis -2) or column (axis -1) numbers of each element."""
    return _shape.broadcasted_iota(np.int32, np.shape(x), np.ndim(x) + axis)


def select(mask: Any, x: Any, otherwise: Any) -> Any:
    """x where the mask, elsewhere an array or a number."""
    if np.shape(otherwise) != np.shape(x):
        otherwise = _fill.full_like(x, otherwise)
    return _compare.select(mask, x, otherwise)


def tril(x: Any, k: int = 0) -> Any:
    """The elements on and below diagonal k."""
    return select(_spread(_tri(x, k), x), x, 0)


def triu(x: Any, k: int = 0) -> Any:
    """The elements on and above diagonal k."""
    return select(_spread(~_tri(x, k - 1), x), x, 0)


def _tri(x: Any, k: int) -> np.ndarray:
    m, n = np.shape(x)[-2:]
    return np.tri(m, n, k, dtype=bool)


def triangle(x: Any, lower: bool, strict: bool = False) -> Any:
    """The lower or upper triangle, with or without the diagonal."""
    return tril(x, -strict) if lower else triu(x, int(strict))


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    return _reduce.reduce_sum(select(_eye_mask(x), x, 0), (np.ndim(x) - 1,))


def on_diagonal(d: Any) -> Any:
    """Matrices with d on the diagonal, zero elsewhere."""
    n = np.shape(d)[-1]
    wide = _shape.broadcast_in_dim(d, (*np.shape(d), n), tuple(range(np.ndim(d))))
    return select(_eye_mask(wide), wide, 0)


def eye_like(x: Any, rows: int | None = None, columns: int | None = None) -> Any:
    """Identities of the dtype and the leading dimensions of x, of its own size unless that is given."""
    *batch, m, n = np.shape(x)
    shape = (m if rows is None else rows, n if columns is None else columns)
    identity = np.eye(*shape, dtype=dtype_of(x))
    return _shape.broadcast_in_dim(identity, (*batch, *shape), (len(batch), len(batch) + 1))


def _eye_mask(x: Any) -> Any:
    return _spread(np.eye(*np.shape(x)[-2:], dtype=bool), x)


def _spread(mask: np.ndarray, x: Any) -> Any:
    rank = np.ndim(x)
    return mask if rank == 2 else _shape.broadcast_in_dim(mask, np.shape(x), (rank - 2, rank - 1))


def rows(x: Any, start: int, stop: int) -> Any:
    return _slicing.slice_in_dim(x, start, stop, axis=np.ndim(x) - 2)


def columns(x: Any, start: int, stop: int) -> Any:
    return _slicing.slice_in_dim(x, start, stop, axis=np.ndim(x) - 1)


def as_rows(d: Any, like: Any) -> Any:
    """Vectors repeated as the rows of matrices of the shape of `like`."""
    rank = np.ndim(like)
    return _shape.broadcast_in_dim(d, np.shape(like), (*range(rank - 2), rank - 1))


def as_columns(d: Any, like: Any) -> Any:
    """Vectors repeated as the columns of matrices of the shape of `like`."""
    return _shape.broadcast_in_dim(d, np.shape(like), tuple(range(np.ndim(like) - 1)))


def promoted(x: Any, like: Any) -> Any:
    """x in the dtype of another array: real factors of complex matrices."""
    dtype = dtype_of(like)
    return x if dtype_of(x) == dtype else _convert.convert_element_type(x, dtype)


def batch_in_front(primitive: Primitive) -> None:
    """Give a primitive of matrices the batching rule that its leading dimensions are: the batch is one more."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        size = _shape.batch_size(args, dims)
        out = primitive.bind(*(_shape.bdim_at_front(x, d, size) for x, d in zip(args, dims)), **params)
        return (out, [0] * len(out)) if primitive.multiple_results else (out, 0)

    primitive.batch = batch
