"""Sorting, searching in sorted arrays, partitioning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.dimensions import is_symbolic_dim
from veery._core.shapes import canonicalize_axis
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    ensure_arraylike,
    ensure_arraylike_or_none,
    ensure_arraylikes,
    promote_dtypes,
)
from veery.numpy._shaping import as_array, ravel

_COMPARE_ALL_UP_TO = 32  # elements searched by comparing with each of them


def _along(name: str, a: ArrayLike, axis: int | None, kind: Any, order: Any) -> tuple[Array, int]:
    """The array and the axis to sort along; the flattened array for None."""
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    a = as_array(ensure_arraylike(name, a))
    if axis is None:
        return ravel(a), 0
    return a, canonicalize_axis(axis, np.ndim(a))


@jit(static_argnames=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in ascending order along an axis; NaN is last.

    Args:
        a: array; complex numbers are ordered by their real, then their imaginary parts.
        axis: along which to sort; None sorts the flattened array.
        kind: must be None.
        order: must be None.
        stable: whether equal elements keep their order. They always do.
        descending: whether the order is reversed.

    Raises:
        TypeError: kind or order is given.
        ValueError: the axis is out of bounds.

    >>> sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    a, axis = _along("sort", a, axis, kind, order)
    out = lax.sort(a, dimension=axis, is_stable=stable)
    return lax.rev(out, (axis,)) if descending else out


@jit(static_argnames=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The positions along an axis of the elements in ascending order (see `sort`).

    Args:
        a: array.
        axis: along which to sort; None sorts the flattened array.
        kind: must be None.
        order: must be None.
        stable: whether equal elements keep their order.
        descending: whether the order is reversed; equal elements keep theirs nonetheless.
        dtype: of the positions; by default the default integer.

    >>> argsort(np.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    a, axis = _along("argsort", a, axis, kind, order)
    index_dtype = (
        dtypes.default_int_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype, "argsort")
    )
    positions = lax.broadcasted_iota(index_dtype, np.shape(a), axis)
    if descending:
        # both reversals together leave equal elements in their order
        a, positions = lax.rev(a, (axis,)), lax.rev(positions, (axis,))
    out = lax.sort_key_val(a, positions, dimension=axis, is_stable=stable)[1]
    return lax.rev(out, (axis,)) if descending else out


@jit(static_argnames=("axis",))
def lexsort(keys: Any, axis: int = -1) -> Array:
    """The positions along an axis that sort by several keys, the last of which matters most.

    Args:
        keys: arrays of one shape, or an array of them.
        axis: along which to sort.

    Raises:
        TypeError: there are no keys.
        ValueError: their shapes differ.

    >>> lexsort((np.array([1, 0, 2]), np.array([5, 5, 4])))
    Array([2, 1, 0], dtype=int32)
    """
    arrays: Sequence[Any] = tuple(keys)
    arrays = ensure_arraylikes("lexsort", *arrays)
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({np.shape(x) for x in arrays}) > 1:
        raise ValueError("all keys need to be the same shape")
    dtype = dtypes.default_int_dtype()
    shape = np.shape(arrays[0])
    if not shape:
        return lax.full((), 0, dtype)
    axis = canonicalize_axis(axis, len(shape))
    operands = [as_array(x) for x in arrays[::-1]]
    return lax.sort((*operands, lax.broadcasted_iota(dtype, shape, axis)), dimension=axis, num_keys=len(operands))[-1]


@jit
def sort_complex(a: ArrayLike) -> Array:
    """The elements sorted along the last axis, by real and then imaginary parts, as complex numbers.

    >>> sort_complex(np.array([2.0, 1.0], np.float32))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    out: Any = lax.sort(as_array(ensure_arraylike("sort_complex", a)))
    return lax.convert_element_type(out, dtypes.to_complex_dtype(out.dtype))


def _partition_operands(name: str, a: ArrayLike, kth: int, axis: int) -> tuple[Array, int]:
    a = as_array(ensure_arraylike(name, a))
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise NotImplementedError(f"jnp.{name} for complex dtype is not implemented.")
    axis = canonicalize_axis(axis, np.ndim(a))
    canonicalize_axis(kth, a.shape[axis])
    return a, axis


@jit(static_argnames=("kth", "axis"))
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The elements along an axis such that the one at `kth` is where sorting puts it, no greater ones before it.

    Args:
        a: real array.
        kth: a position.
        axis: along which to partition.

    Returns:
        The sorted array, which is one of those described; NaN is last.

    Raises:
        NotImplementedError: the array is complex.
        ValueError: kth or axis is out of bounds.

    >>> int(partition(np.array([3, 1, 2]), 1)[1])
    2
    """
    a, axis = _partition_operands("partition", a, kth, axis)
    return lax.sort(a, dimension=axis)


@jit(static_argnames=("kth", "axis"))
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The positions of the elements as `partition` orders them.

    >>> int(argpartition(np.array([3, 1, 2]), 1)[1])
    2
    """
    a, axis = _partition_operands("argpartition", a, kth, axis)
    return lax.convert_element_type(argsort(a, axis), np.int32)


# Searching.


def _precedes(x: Array, y: Array) -> Array:
    """Whether x is before y in the order of `sort`: NaN is last and equals itself."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        real, imag = (lax.real(x), lax.real(y)), (lax.imag(x), lax.imag(y))
        same = lax.bitwise_not(lax.bitwise_or(_precedes(*real), _precedes(*real[::-1])))
        return lax.bitwise_or(_precedes(*real), lax.bitwise_and(same, _precedes(*imag)))
    less = lax.lt(x, y)
    if not dtypes.issubdtype(x.dtype, np.floating):
        return less
    return lax.bitwise_or(less, lax.bitwise_and(lax.ne(y, y), lax.eq(x, x)))


def _is_left_of(elements: Array, values: Array, side: str) -> Array:
    """Whether values are to be inserted behind elements."""
    return _precedes(elements, values) if side == "left" else lax.bitwise_not(_precedes(values, elements))


def _search_all(a: Array, v: Array, side: str, dtype: Any) -> Array:
    shape = (*v.shape, a.shape[0])
    elements = lax.broadcast_in_dim(a, shape, (v.ndim,))
    values = lax.broadcast_in_dim(v, shape, tuple(range(v.ndim)))
    behind = lax.convert_element_type(_is_left_of(elements, values, side), dtype)
    return lax.reduce_sum(behind, (v.ndim,))


def _search_halves(a: Array, v: Array, side: str, dtype: Any, unrolled: bool) -> Array:
    """Bisection: the place is within [low, high]."""
    size = a.shape[0]

    def step(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = lax.div(lax.add(low, high), lax.full_like(low, 2))
        # once low = high = size the element read is another one, and nothing is to change
        elements = a.at[lax.min(middle, lax.full_like(middle, size - 1))].get(mode="clip")
        behind = lax.bitwise_and(_is_left_of(elements, v, side), lax.lt(low, high))
        return lax.select(behind, lax.add(middle, lax.full_like(low, 1)), low), lax.select(behind, high, middle)

    bounds = (lax.full(v.shape, 0, dtype), lax.full(v.shape, size, dtype))
    steps = 31 if is_symbolic_dim(size) else math.ceil(math.log2(size + 1))
    if not unrolled:
        return lax.fori_loop(0, steps, step, bounds)[1]
    for i in range(steps):
        bounds = step(i, bounds)
    return bounds[1]


def _search_sorting(a: Array, v: Array, side: str, dtype: Any) -> Array:
    """Sort both together: the elements before a value, less the values before it, are those of the array."""
    values = ravel(v)
    size, count = a.shape[0], values.shape[0]
    joined = lax.concatenate([values, a] if side == "left" else [a, values], 0)
    order = argsort(joined)
    places = lax.full((size + count,), 0, dtype).at[order].set(lax.iota(dtype, size + count))
    found = places[:count] if side == "left" else places[size:]
    among = lax.full((count,), 0, dtype).at[argsort(values)].set(lax.iota(dtype, count))
    return lax.reshape(lax.sub(found, among), v.shape)


@jit(static_argnames=("side", "method"))
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """Where values are to be inserted in a sorted array to keep it sorted.

    Args:
        a: vector, in ascending order, NaN last.
        v: values.
        side: "left": before elements equal to the value; "right": behind them.
        sorter: positions that sort `a`, where it is not sorted.
        method: how to search: "scan" and "scan_unrolled" (bisection), "sort", or "compare_all". All give the same.

    Returns:
        int32 array of v's shape.

    Raises:
        ValueError: a is no vector, or side or method is unknown.

    >>> searchsorted(np.array([1, 2, 2, 3]), np.array([2, 4]), side="right")
    Array([3, 4], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"{side!r} is an invalid value for keyword 'side'. Expected one of ['left', 'right'].")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"{method!r} is an invalid value for keyword 'method'. Expected one of "
            "['sort', 'scan', 'scan_unrolled', 'compare_all']."
        )
    a, v, sorter = ensure_arraylike_or_none("searchsorted", a, v, sorter)
    if np.ndim(a) != 1:
        raise ValueError("a should be 1-dimensional")
    a, v = (as_array(x) for x in promote_dtypes(a, v))
    if sorter is not None:
        a = a[sorter]
    size, known = a.shape[0], not is_symbolic_dim(a.shape[0])
    dtype = np.dtype(np.int64 if known and size > np.iinfo(np.int32).max else np.int32)
    if size == 0 or v.size == 0:
        return lax.full(v.shape, 0, dtype)
    if method == "compare_all" or known and size <= _COMPARE_ALL_UP_TO:
        return _search_all(a, v, side, dtype)
    if method == "sort" and known:
        return _search_sorting(a, v, side, dtype)
    return _search_halves(a, v, side, dtype, method == "scan_unrolled")
