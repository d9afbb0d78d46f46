"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.config import config
from veery._core.shapes import broadcast_shapes, canonicalize_axis
from veery.lax._placement import lays_out
from veery.numpy._arithmetic import multiply
from veery.numpy._creation import asarray
from veery.numpy._elementwise import run
from veery.numpy._matrices import diagonal
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    check_no_out,
    check_rank_promotion,
    ensure_arraylike,
    ensure_arraylikes,
    promote_dtypes,
    promote_factors,
    strong_array,
    to_dtype,
    unwrap,
)
from veery.numpy._reductions import sum

Preferred = Any  # a dtype, or None


def _operands(name: str, *xs: ArrayLike, preferred: Preferred) -> tuple[list[Any], Any]:
    """The operands in one dtype, and the dtype of the product."""
    xs = ensure_arraylikes(name, *xs)
    if preferred is not None:
        preferred = dtypes.check_and_canonicalize_user_dtype(preferred, name)
    operands = promote_factors(*(unwrap(x) for x in xs))
    return [asarray(x) if dtypes.is_python_scalar(x) else x for x in operands], preferred


def _promoted(name: str, *xs: ArrayLike) -> list[Any]:
    return promote_dtypes(*map(asarray, ensure_arraylikes(name, *xs)))


def _contract(a: Any, b: Any, dims: Any, precision: Any, preferred: Preferred) -> Array:
    return lax.dot_general(a, b, dims, precision=precision, preferred_element_type=preferred)


def _matmul(a: Array, b: Array, *, precision: Any, preferred: Preferred) -> Array:
    if a.ndim == 1 or b.ndim <= 2:  # a single product: of a vector, or of one matrix with a stack of rows
        return _contract(a, b, (((a.ndim - 1,), (max(b.ndim - 2, 0),)), ((), ())), precision, preferred)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, (*batch, *a.shape[-2:]))
    b = broadcast_to(b, (*batch, *b.shape[-2:]))
    shared = tuple(range(len(batch)))
    return _contract(a, b, (((a.ndim - 1,), (b.ndim - 2,)), (shared, shared)), precision, preferred)


@lays_out
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Preferred = None,
    out_sharding: Any = None,
) -> Array:
    """The matrix product of two arrays; leading dimensions are broadcast.

    Args:
        a: array of shape (..., m, k), or a vector of k.
        b: array of shape (..., k, n), or a vector of k.
        precision: see lax.Precision.
        preferred_element_type: dtype of the result and of its accumulation.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        Array of shape (..., m, n); without m or n for vectors.

    Raises:
        ValueError: an operand is a scalar.
        TypeError: the contracted dimensions differ.

    >>> import veery.numpy as jnp
    >>> jnp.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1])).tolist()
    [3, 7]
    """
    (x, y), preferred = _operands("matmul", a, b, preferred=preferred_element_type)
    for i, operand in enumerate((x, y)):
        if np.ndim(operand) < 1:
            raise ValueError(f"matmul input operand {i} must have ndim at least 1, but it has ndim {np.ndim(operand)}")
    depth_a, depth_b = np.shape(x)[-1], np.shape(y)[-2 if np.ndim(y) > 1 else -1]
    if depth_a != depth_b:
        raise TypeError(
            f"dot_general requires contracting dimensions to have the same shape, got ({depth_a},) and ({depth_b},) "
            f"in a matmul of arrays of shapes {np.shape(x)} and {np.shape(y)}."
        )
    return _run(_matmul, x, y, precision=precision, preferred=preferred)


def _run(fun: Any, *xs: Any, precision: Any, **static: Any) -> Array:
    """Eagerly one program a type; the default precision is part of what identifies it."""
    if precision is None:
        precision = config.jax_default_matmul_precision
    return run(fun, *xs, precision=precision, **static)


def _dot(a: Array, b: Array, *, precision: Any, preferred: Preferred) -> Array:
    if a.ndim == 0 or b.ndim == 0:
        shape = a.shape if a.ndim else b.shape
        product = lax.bitwise_and if a.dtype == np.bool_ else lax.mul
        out = product(broadcast_to(a, shape), broadcast_to(b, shape))
        return to_dtype(out, preferred) if preferred is not None else out
    contract_b = b.ndim - 1 if b.ndim == 1 else b.ndim - 2
    return _contract(a, b, (((a.ndim - 1,), (contract_b,)), ((), ())), precision, preferred)


@lays_out
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Preferred = None,
    out_sharding: Any = None,
) -> Array:
    """The product of two arrays over the last dimension of `a` and the last but one of `b`, as numpy.dot.

    Args:
        a: array.
        b: array.
        precision: see lax.Precision.
        preferred_element_type: dtype of the result and of its accumulation.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.numpy as jnp
    >>> int(jnp.dot(jnp.array([1, 2]), jnp.array([3, 4])))
    11
    """
    (x, y), preferred = _operands("dot", a, b, preferred=preferred_element_type)
    return _run(_dot, x, y, precision=precision, preferred=preferred)


def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Preferred = None) -> Array:
    """The inner product of flattened arrays, conjugating the first.

    >>> import veery.numpy as jnp
    >>> complex(jnp.vdot(jnp.array([1j]), jnp.array([1j])))
    (1+0j)
    """
    a, b = ensure_arraylike("vdot", a, b)
    x, y = unwrap(a), unwrap(b)
    if dtypes.issubdtype(dtypes.dtype_of(x), np.complexfloating):
        x = lax.conj(x)
    flat = lambda z: lax.reshape(z, (math.prod(np.shape(z)),))
    return dot(flat(x), flat(y), precision=precision, preferred_element_type=preferred_element_type)


def _vecdot(a: Array, b: Array, *, precision: Any, preferred: Preferred) -> Array:
    batch = broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = broadcast_to(a, (*batch, a.shape[-1])), broadcast_to(b, (*batch, b.shape[-1]))
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        a = lax.conj(a)
    shared = tuple(range(len(batch)))
    return _contract(a, b, (((a.ndim - 1,), (b.ndim - 1,)), (shared, shared)), precision, preferred)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Preferred = None,
) -> Array:
    """Inner products of vectors along an axis, conjugating the first.

    >>> import veery.numpy as jnp
    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.arange(3.0)).tolist()
    [3.0, 3.0]
    """
    (x, y), preferred = _operands("vecdot", x1, x2, preferred=preferred_element_type)
    check_rank_promotion("vecdot", x, y)
    x, y = _last(x, axis), _last(y, axis)
    if np.shape(x)[-1] != np.shape(y)[-1]:
        raise ValueError(f"vecdot: shapes must match along axis {axis}; got {np.shape(x1)} and {np.shape(x2)}")
    return _run(_vecdot, x, y, precision=precision, preferred=preferred)


def _last(x: Array, axis: int) -> Array:
    """The array with an axis moved to the end."""
    axis = canonicalize_axis(axis, np.ndim(x))
    order = [i for i in range(np.ndim(x)) if i != axis] + [axis]
    return lax.transpose(x, order) if order != list(range(np.ndim(x))) else x


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of matrices (..., m, n) with vectors (..., n).

    >>> import veery.numpy as jnp
    >>> jnp.matvec(jnp.eye(2), jnp.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    x1, x2 = ensure_arraylike("matvec", x1, x2)
    return _row_product("matvec", unwrap(x1), unwrap(x2), transposed=False)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of conjugated vectors (..., n) with matrices (..., n, m).

    >>> import veery.numpy as jnp
    >>> jnp.vecmat(jnp.array([1.0, 2.0]), jnp.eye(2)).tolist()
    [1.0, 2.0]
    """
    x1, x2 = ensure_arraylike("vecmat", x1, x2)
    return _row_product("vecmat", unwrap(x2), unwrap(x1), transposed=True)


def _row_product(name: str, matrix: Array, vector: Array, transposed: bool) -> Array:
    if np.ndim(matrix) < 2 or np.ndim(vector) < 1:
        raise ValueError(f"{name}: needs a matrix and a vector, got ndims {np.ndim(matrix)} and {np.ndim(vector)}")
    if transposed:
        if dtypes.issubdtype(dtypes.dtype_of(vector), np.complexfloating):
            vector = lax.conj(vector)
        out = matmul(lax.expand_dims(vector, (np.ndim(vector) - 1,)), matrix)
        return lax.squeeze(out, (out.ndim - 2,))
    out = matmul(matrix, lax.expand_dims(vector, (np.ndim(vector),)))
    return lax.squeeze(out, (out.ndim - 1,))


def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Preferred = None) -> Array:
    """The product over the last dimensions of two arrays.

    >>> import veery.numpy as jnp
    >>> jnp.inner(jnp.ones((2, 3)), jnp.arange(3.0)).tolist()
    [3.0, 3.0]
    """
    a, b = ensure_arraylike("inner", a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return dot(*promote_dtypes(a, b), precision=precision, preferred_element_type=preferred_element_type)
    return tensordot(a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type)


def _outer(a: Array, b: Array) -> Array:
    shape = (a.size, b.size)
    flat = lambda x: lax.reshape(x, (x.size,))
    return multiply(lax.broadcast_in_dim(flat(a), shape, (0,)), lax.broadcast_in_dim(flat(b), shape, (1,)))


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of each element of `a` with each of `b`, both flattened.

    >>> import veery.numpy as jnp
    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    check_no_out("outer", out)
    x, y = _promoted("outer", a, b)
    return run(_outer, x, y)


def _tensordot(a: Array, b: Array, *, axes: tuple, precision: Any, preferred: Preferred) -> Array:
    return _contract(a, b, (axes, ((), ())), precision, preferred)


@lays_out
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: Any = None,
    preferred_element_type: Preferred = None,
    out_sharding: Any = None,
) -> Array:
    """The product of two arrays over given dimensions.

    Args:
        a: array.
        b: array.
        axes: how many last dimensions of `a` and first ones of `b`, or a pair of dimensions (or of lists of them).
        precision: see lax.Precision.
        preferred_element_type: dtype of the result and of its accumulation.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), 1).shape
    (2, 4)
    """
    (x, y), preferred = _operands("tensordot", a, b, preferred=preferred_element_type)
    dims = _contracted(axes, np.ndim(x), np.ndim(y))
    return _run(_tensordot, x, y, precision=precision, preferred=preferred, axes=dims)


def _contracted(axes: Any, a_ndim: int, b_ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (int, np.integer)):
        n = int(axes)
        if n > min(a_ndim, b_ndim):
            raise TypeError(f"Number of tensordot axes (axes {n}) exceeds input ranks ({a_ndim} and {b_ndim})")
        return tuple(range(a_ndim - n, a_ndim)), tuple(range(n))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise TypeError(
            f"tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints; got {axes}"
        )
    whole = [isinstance(x, (int, np.integer)) for x in axes]
    if all(whole):
        axes = [(x,) for x in axes]
    elif any(whole) or not all(type(i) is not str for side in axes for i in side):
        raise TypeError(
            f"tensordot requires both axes lists to be either ints, tuples or lists, got {axes[0]} and {axes[1]}"
        )
    left, right = map(tuple, axes)
    if len(left) != len(right):
        raise TypeError(f"tensordot requires axes lists to have equal length, got {left} and {right}.")
    return (
        tuple(canonicalize_axis(i, a_ndim) for i in left),
        tuple(canonicalize_axis(i, b_ndim) for i in right),
    )


@jit
def _kron(a: Array, b: Array) -> Array:
    ndim = max(a.ndim, b.ndim)
    a = lax.reshape(a, (1,) * (ndim - a.ndim) + a.shape)
    b = lax.reshape(b, (1,) * (ndim - b.ndim) + b.shape)
    interleaved = tuple(d for pair in zip(a.shape, b.shape) for d in pair)
    left = lax.broadcast_in_dim(a, interleaved, tuple(range(0, 2 * ndim, 2)))
    right = lax.broadcast_in_dim(b, interleaved, tuple(range(1, 2 * ndim, 2)))
    return lax.reshape(lax.mul(left, right), tuple(p * q for p, q in zip(a.shape, b.shape)))


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: blocks of `b`, each scaled by an element of `a`.

    >>> import veery.numpy as jnp
    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    x, y = _promoted("kron", a, b)
    return _kron(x, y)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of 2 or 3 elements.

    Args:
        a: array of vectors.
        b: array of vectors.
        axisa: the axis of `a` that holds the vectors.
        axisb: that of `b`.
        axisc: that of the result, for vectors of 3.
        axis: one axis for all three.

    Raises:
        ValueError: the vectors have other lengths.

    >>> import veery.numpy as jnp
    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _promoted("cross", a, b)
    x, y = _last(x, axisa), _last(y, axisb)
    if np.shape(x)[-1] not in (2, 3) or np.shape(y)[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    out = run(_cross, x, y)
    if np.shape(x)[-1] == np.shape(y)[-1] == 2:
        return out
    at = canonicalize_axis(axisc, out.ndim)
    return lax.transpose(out, [*range(at), out.ndim - 1, *range(at, out.ndim - 1)])


def _cross(a: Array, b: Array) -> Array:
    batch = broadcast_shapes(a.shape[:-1], b.shape[:-1])

    def parts(x: Array) -> list[Array]:
        taken = [broadcast_to(lax.index_in_dim(x, i, x.ndim - 1, keepdims=False), batch) for i in range(x.shape[-1])]
        return taken if len(taken) == 3 else [*taken, lax.full_like(taken[0], 0)]

    (a0, a1, a2), (b0, b1, b2) = parts(a), parts(b)
    minor = lambda p, q, r, s: lax.sub(lax.mul(p, q), lax.mul(r, s))
    last = minor(a0, b1, a1, b0)
    if a.shape[-1] == b.shape[-1] == 2:
        return last
    rows = [minor(a1, b2, a2, b1), minor(a2, b0, a0, b2), last]
    return strong_array(lax.concatenate([lax.expand_dims(r, (r.ndim,)) for r in rows], len(batch)))


def contract(
    x: Array,
    x_names: Sequence[str],
    y: Array,
    y_names: Sequence[str],
    kept: Sequence[str],
    precision: Any,
    preferred: Preferred,
    product: Any = None,
) -> Array:
    """The product of two arrays with named dimensions, summed over the names that are not kept.

    Args:
        x: array, with a letter for each dimension.
        x_names: its letters, each once.
        y: array; dimensions of the same letter have the same size, or 1.
        y_names: its letters.
        kept: the letters of the result, in order.
        precision: see lax.Precision.
        preferred: dtype of the result.
        product: what multiplies them, in the place of `lax.dot_general`.
    """
    for c in set(x_names) & set(y_names):  # a dimension of size 1 stands for any size
        p, q = x.shape[x_names.index(c)], y.shape[y_names.index(c)]
        if p != q and p == 1:
            x_names, x = _drop(x_names, x, c)
        elif p != q and q == 1:
            y_names, y = _drop(y_names, y, c)
    x_names, x = _sum_alone(x_names, x, set(kept) | set(y_names))
    y_names, y = _sum_alone(y_names, y, set(kept) | set(x_names))
    shared = [c for c in x_names if c in y_names]
    batch = [c for c in shared if c in kept]
    summed = [c for c in shared if c not in kept]
    own = lambda name: [c for c in name if c not in shared]
    if kept and kept[-1] in own(x_names):  # what is last in the result is last in the product, so that rows stay rows
        x, x_names, y, y_names = y, y_names, x, x_names
    positions = lambda name, cs: tuple(name.index(c) for c in cs)
    dims = (
        (positions(x_names, summed), positions(y_names, summed)),
        (positions(x_names, batch), positions(y_names, batch)),
    )
    if product is None:
        out = _contract(x, y, dims, precision, preferred)
    else:
        out = product(x, y, dims, precision=precision, preferred_element_type=preferred)
    names = batch + own(x_names) + own(y_names)
    order = [names.index(c) for c in kept]
    return lax.transpose(out, order) if order != list(range(len(order))) else out


def _sum_alone(names: Sequence[str], x: Array, needed: set[str]) -> tuple[str, Array]:
    """Sum over dimensions that nothing else needs."""
    axes = tuple(i for i, c in enumerate(names) if c not in needed)
    return "".join(c for c in names if c in needed), sum_along(x, axes) if axes else x


def sum_along(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over axes; of bools, whether any is true."""
    return lax.reduce_or(x, axes) if x.dtype == np.bool_ else lax.reduce_sum(x, axes)


def _drop(names: Sequence[str], x: Array, c: str) -> tuple[str, Array]:
    i = names.index(c)
    return "".join(names[:i]) + "".join(names[i + 1 :]), lax.squeeze(x, (i,))


def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Array:
    """The sum along a diagonal.

    Args:
        a: array of at least two dimensions.
        offset: which diagonal, counted from the main one.
        axis1: the rows.
        axis2: the columns.
        dtype: of the result; sums of small integers are default integers.
        out: must be None.

    >>> import veery.numpy as jnp
    >>> int(jnp.trace(jnp.array([[1, 2], [3, 4]])))
    5
    """
    a = ensure_arraylike("trace", a)
    check_no_out("trace", out)
    return _trace(a, offset=offset, axis1=axis1, axis2=axis2, dtype=dtype)


@jit(static_argnames=("offset", "axis1", "axis2", "dtype"))
def _trace(a: ArrayLike, offset: int, axis1: int, axis2: int, dtype: Any) -> Array:
    return sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


_trace._name = "trace"
