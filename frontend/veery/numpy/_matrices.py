"""Matrices of known structure: identities, triangles, diagonals, Vandermonde matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.shapes import canonicalize_axis, canonicalize_shape
from veery._core.trace import Tracer, current_trace, eval_trace
from veery.numpy._arithmetic import choose, power
from veery.numpy._creation import asarray, from_host, ones, place
from veery.numpy._elementwise import run
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    constant,
    ensure_arraylike,
    strong_array,
    to_dtype,
    unwrap,
)
from veery.numpy._selection import nonzero


def _size(function: str, name: str, n: Any) -> int:
    return canonicalize_shape(n, f"argument of '{name}' jnp.{function}()")[0]


def _banded(rows: int, columns: int, k: Any, is_in: Any) -> Any:
    """A mask of the elements (i, j) by their row i + k and their column j: a NumPy array outside of transformations."""
    if not hasattr(k, "aval"):
        k = min(max(int(k), -rows), columns)  # what is further away may be too far for integers of arrays
    if current_trace() is eval_trace and not hasattr(k, "aval"):
        return is_in(np.arange(rows)[:, None] + k, np.arange(columns)[None, :])
    row = lax.broadcasted_iota(np.int32, (rows, columns), 0)
    return is_in(row + to_dtype(k, np.dtype(np.int32)), lax.broadcasted_iota(np.int32, (rows, columns), 1))


def _as_numbers(mask: Any, dtype: Any) -> Array:
    return from_host(mask.astype(dtype)) if isinstance(mask, np.ndarray) else lax.convert_element_type(mask, dtype)


def eye(N: int, M: int | None = None, k: int | ArrayLike = 0, dtype: Any = None, *, device: Any = None) -> Array:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N: number of rows.
        M: number of columns, by default N.
        k: which diagonal: 0 the main one, positive ones above it.
        dtype: of the result; by default the default float.
        device: where to put it.

    >>> eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(float if dtype is None else dtype, "eye")
    rows = _size("eye", "N", N)
    columns = rows if M is None else _size("eye", "M", M)
    k = unwrap(k)
    if rows < 0 or columns < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    return place(_as_numbers(_banded(rows, columns, k, lambda i, j: i == j), dtype), device)


def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix with n rows.

    >>> identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int | ArrayLike = 0, dtype: Any = None) -> Array:
    """A matrix with ones on a diagonal and below it (see `eye`); the diagonal may be traced.

    >>> tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(np.float32 if dtype is None else dtype, "tri")
    rows = _size("tri", "N", N)
    columns = rows if M is None else _size("tri", "M", M)
    diagonal = k if isinstance(k, Tracer) else operator.index(k)
    return _as_numbers(_banded(rows, columns, diagonal, lambda i, j: i >= j), dtype)


def _triangle(name: str, m: ArrayLike, k: int) -> Array:
    m = ensure_arraylike(name, m)
    if np.ndim(m) < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    return (_tril if name == "tril" else _triu)(m, k=operator.index(k))


def tril(m: ArrayLike, k: int = 0) -> Array:
    """Matrices with zeros above a diagonal (see `eye`), over the last two dimensions.

    >>> tril(np.ones((2, 3)))
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    return _triangle("tril", m, k)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """Matrices with zeros below a diagonal (see `eye`), over the last two dimensions.

    >>> triu(np.ones((2, 3)))
    Array([[1., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k)


@jit(static_argnames=("k",))
def _tril(m: ArrayLike, k: int) -> Array:
    rows, columns = np.shape(m)[-2:]
    mask = _banded(rows, columns, k, lambda i, j: i >= j)
    return choose(broadcast_to(mask, np.shape(m)), m, 0)


@jit(static_argnames=("k",))
def _triu(m: ArrayLike, k: int) -> Array:
    rows, columns = np.shape(m)[-2:]
    mask = _banded(rows, columns, k - 1, lambda i, j: i >= j)
    return choose(broadcast_to(mask, np.shape(m)), 0, m)


_tril._name = "tril"
_triu._name = "triu"


def diag(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with a given diagonal (of rank 1), or the diagonal of a given matrix.

    Args:
        v: diagonal or matrix.
        k: which diagonal: 0 the main one, positive ones above it.

    >>> diag(np.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    >>> diag(np.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    v = ensure_arraylike("diag", v)
    if np.ndim(v) not in (1, 2):
        raise ValueError("diag input must be 1d or 2d")
    if np.ndim(v) == 2:
        return diagonal(v, k)
    return run(_matrix_of_diagonal, asarray(v), k=operator.index(k))


def _matrix_of_diagonal(v: Array, *, k: int) -> Array:
    n = v.shape[0] + abs(k)
    column = lax.pad(v, constant(0, v.dtype), [(max(0, -k), max(0, k), 0)])
    mask = lax.eq(lax.broadcasted_iota(np.int32, (n, n), 0) + np.int32(k), lax.broadcasted_iota(np.int32, (n, n), 1))
    matrix = choose(mask, lax.broadcast_in_dim(column, (n, n), (0,)), constant(0, v.dtype))
    return to_dtype(matrix, v.dtype, v.weak_type)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of matrices.

    Args:
        a: array of rank 2 or more.
        offset: which diagonal.
        axis1: the dimension of the rows.
        axis2: that of the columns. Both are replaced by a last dimension.

    >>> diagonal(np.arange(6).reshape(2, 3), offset=1)
    Array([1, 5], dtype=int32)
    """
    a = ensure_arraylike("diagonal", a)
    a = asarray(a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    row, column = canonicalize_axis(axis1, a.ndim), canonicalize_axis(axis2, a.ndim)
    if row == column:
        raise ValueError(f"axis1 and axis2 can not be same. axis1={axis1} and axis2={axis2}")
    return run(_diagonal, a, offset=operator.index(offset), row=row, column=column)


def _diagonal(a: Array, *, offset: int, row: int, column: int) -> Array:
    """Every (columns + 1)-th element of the flattened matrix: slices alone, for they differentiate and batch well."""
    others = [i for i in range(a.ndim) if i not in (row, column)]
    a = lax.transpose(a, (*others, row, column))
    rows, columns = a.shape[-2:]
    first_row, first_column = max(0, -offset), max(0, offset)
    n = max(0, min(rows - first_row, columns - first_column))
    lead = a.shape[:-2]
    if n == 0:
        return lax.full((*lead, 0), 0, a.dtype)
    zeros, ends = (0,) * len(lead), lead
    a = lax.slice(a, (*zeros, first_row, first_column), (*ends, first_row + n, first_column + n))
    flat = lax.reshape(a, (*lead, n * n))
    out = lax.slice(flat, (*zeros, 0), (*ends, n * n), (*(1 for _ in lead), n + 1))
    # JAX has several forms of the diagonal of a square matrix, which join without a weak type.
    return strong_array(out) if not lead and rows == columns and not offset else out


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the elements of an array on a diagonal (see `diag`).

    >>> diagflat(np.array([[1], [2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = ensure_arraylike("diagflat", v)
    v = asarray(v)
    return diag(lax.reshape(to_dtype(v, v.dtype), (v.size,)), k)


# Positions of triangles and diagonals.


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` dimensions of size n.

    >>> diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (from_host(np.arange(n, dtype=dtypes.default_int_dtype())),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array.

    >>> diag_indices_from(np.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    arr = ensure_arraylike("diag_indices_from", arr)
    shape = np.shape(arr)
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def _positions(mask: np.ndarray) -> tuple[Array, Array]:
    row, column = (from_host(i.astype(dtypes.default_int_dtype())) for i in np.nonzero(mask))
    return row, column


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions on a diagonal and below it of a matrix with n rows and m columns.

    >>> tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, k, m = operator.index(n), operator.index(k), operator.index(n if m is None else m)
    return _positions(np.tri(n, m, k, dtype=bool))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions on a diagonal and above it of a matrix with n rows and m columns.

    >>> triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, k, m = operator.index(n), operator.index(k), operator.index(n if m is None else m)
    return _positions(~np.tri(n, m, k - 1, dtype=bool))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """The positions on a diagonal of a matrix and below it.

    >>> tril_indices_from(np.ones((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    shape = np.shape(unwrap(arr))
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted, got array with shape {shape}")
    return tril_indices(shape[0], k, shape[1])


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """The positions on a diagonal of a matrix and above it.

    >>> triu_indices_from(np.ones((2, 2)))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    shape = np.shape(unwrap(arr))
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted, got array with shape {shape}")
    return triu_indices(shape[0], k, shape[1])


def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """The positions where a function such as `triu` leaves ones in a matrix of n rows.

    >>> mask_indices(2, triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    row, column = nonzero(mask_func(ones((n, n)), k), size=size)
    return row, column


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix of powers of numbers: a row for each number, highest powers first.

    Args:
        x: numbers, of rank 1.
        N: number of columns; by default as many as numbers.
        increasing: whether the powers ascend.

    >>> vander(np.array([1, 2, 3]), 2)
    Array([[1, 1],
           [2, 1],
           [3, 1]], dtype=int32)
    """
    x = ensure_arraylike("vander", x)
    x = asarray(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    columns = x.shape[0] if N is None else operator.index(N)
    if columns < 0:
        raise ValueError("N must be nonnegative")
    return run(_vander, x, columns=columns, increasing=bool(increasing))


def _vander(x: Array, *, columns: int, increasing: bool) -> Array:
    exponents = np.arange(columns) if increasing else np.arange(columns)[::-1]
    spread = lambda a, axis: lax.broadcast_in_dim(a, (x.shape[0], columns), (axis,))
    if dtypes.issubdtype(x.dtype, np.inexact):
        return lax.pow(spread(x, 0), spread(exponents.astype(np.int32), 1))
    return power(spread(x, 0), spread(exponents.astype(x.dtype), 1))
