"""Linear algebra: factorisations and systems, norms, powers, and products of vectors and matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._core import dtypes
from veery._core.shapes import canonicalize_axis
from veery.lax._placement import lays_out
from veery.numpy import _arithmetic, _products, _reductions
from veery.numpy._decompositions import (
    cholesky as cholesky,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    lstsq as lstsq,
    matrix_rank as matrix_rank,
    pinv as pinv,
    qr as qr,
    svd as svd,
    svdvals as svdvals,
)
from veery.numpy._einsum import einsum
from veery.numpy._elementwise import run
from veery.numpy._linear_systems import (
    check_square,
    det as det,
    inv as inv,
    slogdet as slogdet,
    solve as solve,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
)
from veery.numpy._matrices import diagonal as _diagonal, eye
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    ensure_arraylikes,
    promote_args_inexact,
    promote_dtypes,
)
from veery.numpy._selection import where
from veery.numpy._shaping import matrix_transpose as _matrix_transpose, moveaxis as _moveaxis

__all__ = [
    *("cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul"),
    *("matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr"),
    *("slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm"),
]

# Norms.


def norm(
    x: ArrayLike,
    ord: int | float | str | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Array:
    """The norm of vectors or matrices.

    Args:
        x: array.
        ord: which norm. By default the root of the sum of squares. Of vectors: `inf`, `-inf`, 0 (how many elements are
            not zero), or any other number p for `sum(abs(x) ** p) ** (1 / p)`. Of matrices: "fro", 1, -1, inf or
            -inf; 2, -2 or "nuc" for the largest, the smallest or the sum of the singular values.
        axis: one axis for vectors, two for matrices; by default all axes of x.
        keepdims: whether the axes stay, with size 1.

    Raises:
        ValueError: there is no such norm, or there are neither one nor two axes.

    >>> import veery.numpy as jnp
    >>> norm(jnp.array([3.0, 4.0])).tolist()
    5.0
    """
    (x,) = promote_args_inexact("jnp.linalg.norm", x)
    ndim = np.ndim(x)
    if axis is None:
        axes = tuple(range(ndim))
        if ord is None:
            return run(_vector_norm, x, ord=2, axes=axes, keepdims=keepdims)
    else:
        axes = _reductions.canonical_axes(axis, ndim)
    if len(axes) == 1:
        return run(_vector_norm, x, ord=_vector_order(2 if ord is None else ord), axes=axes, keepdims=keepdims)
    if len(axes) == 2:
        return run(_matrix_norm, x, ord=_matrix_order("fro" if ord is None else ord), axes=axes, keepdims=keepdims)
    raise ValueError(
        f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, or two axes to "
        "compute a matrix-norm."
    )


def vector_norm(
    x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: int | float | str = 2
) -> Array:
    """The norm of vectors, which may extend over several axes.

    Args:
        x: array.
        axis: the axes of the vectors; None for all.
        keepdims: whether the axes stay, with size 1.
        ord: `inf`, `-inf`, 0 (how many elements are not zero), or any other number p for
            `sum(abs(x) ** p) ** (1 / p)`.

    Raises:
        ValueError: there is no such norm.

    >>> import veery.numpy as jnp
    >>> vector_norm(jnp.array([[3.0, -4.0], [0.0, 2.0]]), ord=1, axis=1).tolist()
    [7.0, 2.0]
    """
    (x,) = promote_args_inexact("jnp.linalg.vector_norm", x)
    axes = _reductions.canonical_axes(axis, np.ndim(x))
    return run(_vector_norm, x, ord=_vector_order(ord), axes=axes, keepdims=keepdims)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str | None = "fro") -> Array:
    """The norm of matrices: the last two dimensions.

    Args:
        x: array.
        keepdims: whether the two dimensions stay, with size 1.
        ord: "fro", 1, -1, inf, -inf; 2, -2 or "nuc" for the largest, the smallest or the sum of the singular values.

    Raises:
        ValueError: there is no such norm, or x has fewer than two dimensions.

    >>> import veery.numpy as jnp
    >>> matrix_norm(jnp.array([[3.0, -4.0], [0.0, 2.0]]), ord=1).tolist()
    6.0
    """
    (x,) = promote_args_inexact("jnp.linalg.matrix_norm", x)
    axes = tuple(canonicalize_axis(axis, np.ndim(x)) for axis in (-2, -1))
    return run(_matrix_norm, x, ord=_matrix_order("fro" if ord is None else ord), axes=axes, keepdims=keepdims)


def _vector_order(ord: Any) -> float:
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    return 2 if ord is None else ord


def _matrix_order(ord: Any) -> Any:
    if ord not in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    return ord


def _vector_norm(x: Array, *, ord: float, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord == 2:
        return _arithmetic.sqrt(_reductions.sum(_square_of_modulus(x), axis=axes, keepdims=keepdims))
    if ord == np.inf:
        return _reductions.max(_arithmetic.abs(x), axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return _reductions.min(_arithmetic.abs(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return _reductions.sum(lax.ne(x, lax.full_like(x, 0)), axis=axes, keepdims=keepdims, dtype=_real_dtype(x))
    if ord == 1:
        return _reductions.sum(_arithmetic.abs(x), axis=axes, keepdims=keepdims)
    powers = _arithmetic.power(_arithmetic.abs(x), ord)
    return _arithmetic.power(_reductions.sum(powers, axis=axes, keepdims=keepdims), 1 / ord)


def _matrix_norm(x: Array, *, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord == "fro":
        return _vector_norm(x, ord=2, axes=axes, keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        s = lax.linalg.svd(_moveaxis(x, axes, (-2, -1)), compute_uv=False)
        reduce: Any = {2: _reductions.max, -2: _reductions.min, "nuc": _reductions.sum}[ord]
        out = reduce(s, axis=-1, **({"initial": 0} if ord == 2 else {}))
        return lax.expand_dims(out, axes) if keepdims else out
    row, column = axes if abs(ord) == 1 else axes[::-1]
    sums = _reductions.sum(_arithmetic.abs(x), axis=row, keepdims=True)
    if ord > 0:
        out = _reductions.max(sums, axis=column, keepdims=True, initial=0)
    else:
        out = _reductions.min(sums, axis=column, keepdims=True)
    return out if keepdims else lax.squeeze(out, axes)


def _square_of_modulus(x: Array) -> Array:
    return _arithmetic.real(lax.mul(x, lax.conj(x))) if _is_complex(x) else _arithmetic.square(x)


def _is_complex(x: Array) -> bool:
    return dtypes.issubdtype(x.dtype, np.complexfloating)


def _real_dtype(x: Array) -> Any:
    return dtypes.finfo(dtypes.to_inexact_dtype(x.dtype)).dtype


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition numbers of matrices: the norm times the norm of the inverse.

    Args:
        x: array of shape (..., m, n), square unless p is None, 2 or -2.
        p: which norm; None for the largest by the smallest singular value.

    Raises:
        ValueError: x is empty or has fewer than two dimensions, or there is no such norm.

    >>> import veery.numpy as jnp
    >>> cond(jnp.array([[4.0, 0.0], [0.0, 2.0]])).tolist()
    2.0
    """
    (x,) = promote_args_inexact("jnp.linalg.cond", x)
    if np.ndim(x) < 2 or 0 in np.shape(x)[-2:]:
        raise ValueError(f"jnp.linalg.cond: input array must be at least 2D and not empty; got shape {np.shape(x)}")
    if p not in (None, 2, -2):
        check_square("cond", x)
        _matrix_order(p)
    return run(_cond, x, p=p)


def _cond(x: Array, *, p: Any) -> Array:
    if p in (None, 2, -2):
        s: Any = lax.linalg.svd(x, compute_uv=False)
        out = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        axes = (x.ndim - 2, x.ndim - 1)
        product = [_matrix_norm(y, ord=p, axes=axes, keepdims=False) for y in (x, inv(x))]
        out = product[0] * product[1]
    # The norm of an inverse that is not there is NaN, or 0 / 0 is: infinite, unless x itself has a NaN.
    given = _reductions.any(lax.ne(x, x), axis=(-2, -1))
    return where(lax.ne(out, out) & ~given, lax.full_like(out, np.inf), out)


# Powers and chains of products.


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices to an integer power, by repeated squaring.

    Args:
        a: array of shape (..., m, m).
        n: the exponent; the power by a negative one is that of the inverse.

    Raises:
        TypeError: n is no integer, or the matrices are not square.

    >>> import veery.numpy as jnp
    >>> matrix_power(jnp.array([[1, 1], [0, 1]]), 5).tolist()
    [[1, 5], [0, 1]]
    """
    a = ensure_arraylike("jnp.linalg.matrix_power", a)
    shape = np.shape(a)
    if len(shape) < 2:
        raise TypeError(f"{len(shape)}-dimensional array given. Array must be at least two-dimensional")
    if shape[-2] != shape[-1]:
        raise TypeError("Last 2 dimensions of the array must be square")
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError(f"exponent must be an integer, got {n}") from error
    if n < 0:
        a, n = inv(a), -n
    return run(_matrix_power, a, n=n)


def _matrix_power(a: Array, *, n: int) -> Array:
    if n == 0:
        return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    result, square = None, a
    while True:
        if n & 1:
            result = square if result is None else _products.matmul(result, square)
        n >>= 1
        if not n:
            return result
        square = _products.matmul(square, square)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """The product of several matrices, in the order of multiplications that costs least.

    Args:
        arrays: two matrices or more; the first and the last may be vectors.
        precision: see lax.Precision.

    Raises:
        ValueError: there are fewer than two arrays, or their shapes do not fit.

    >>> import veery.numpy as jnp
    >>> multi_dot([jnp.ones(2), jnp.ones((2, 3)), jnp.ones((3, 4))]).tolist()
    [6.0, 6.0, 6.0, 6.0]
    """
    arrays = ensure_arraylikes("jnp.linalg.multi_dot", *arrays)
    if len(arrays) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(arrays)}")
    xs = promote_dtypes(*arrays)
    shapes = [np.shape(x) for x in xs]
    if not all(len(s) == 2 for s in shapes[1:-1]) or not all(len(s) in (1, 2) for s in (shapes[0], shapes[-1])):
        raise ValueError(
            "multi_dot: input arrays must all be two-dimensional, except for the first and last array which may be 1 "
            f"or 2 dimensional. Got array shapes {shapes}"
        )
    if any(left[-1] != right[0] for left, right in zip(shapes, shapes[1:])):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of following array. "
            f"Got array shapes {shapes}"
        )
    names = [[i, i + 1] for i in range(len(xs))]
    names[0], names[-1] = names[0][-len(shapes[0]) :], names[-1][: len(shapes[-1])]
    return einsum(*(part for pair in zip(xs, names) for part in pair), optimize="auto", precision=precision)


# The products of the array API standard.


def matmul(x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The matrix product of two arrays (see veery.numpy.matmul)."""
    return _products.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Inner products of vectors along an axis, conjugating the first (see veery.numpy.vecdot)."""
    return _products.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


@lays_out
def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of two arrays over given dimensions (see veery.numpy.tensordot)."""
    return _products.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of each element of one vector with each of another.

    Raises:
        ValueError: an operand is no vector.

    >>> import veery.numpy as jnp
    >>> outer(jnp.array([1, 2]), jnp.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    x1, x2 = ensure_arraylike("jnp.linalg.outer", x1, x2)
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={np.ndim(x1)} x2.ndim={np.ndim(x2)}"
        )
    return _products.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 elements.

    Args:
        x1: array of vectors.
        x2: array of vectors.
        axis: the axis that holds the vectors, also in the result.

    Raises:
        ValueError: the vectors have other lengths.

    >>> import veery.numpy as jnp
    >>> cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    x1, x2 = ensure_arraylike("jnp.linalg.cross", x1, x2)
    sizes = [np.shape(x)[canonicalize_axis(axis, np.ndim(x))] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={sizes[0]} and x2.shape[axis]={sizes[1]}"
        )
    return _products.cross(x1, x2, axis=axis)


# Diagonals and transposition of the last two dimensions.


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices: of the last two dimensions.

    >>> import veery.numpy as jnp
    >>> diagonal(jnp.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    x = ensure_arraylike("jnp.linalg.diagonal", x)
    return _diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of matrices: of the last two dimensions.

    >>> import veery.numpy as jnp
    >>> trace(jnp.array([[1, 2], [3, 4]])).tolist()
    5
    """
    x = ensure_arraylike("jnp.linalg.trace", x)
    return _products.trace(x, offset, -2, -1, dtype)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two dimensions exchanged (see veery.numpy.matrix_transpose)."""
    return _matrix_transpose(x)
