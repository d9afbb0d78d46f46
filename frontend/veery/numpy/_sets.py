"""Distinct elements, and vectors as sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.errors import ConcretizationTypeError
from veery._core.shapes import canonicalize_axis, concrete_int
from veery._core.trace import Tracer
from veery.numpy import _logic, _reductions
from veery.numpy._creation import asarray, from_host_of
from veery.numpy._joining import concatenate
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes, to_dtype
from veery.numpy._selection import nonzero, take, where
from veery.numpy._shaping import as_array, moveaxis, ravel
from veery.numpy._sorting import lexsort, searchsorted, sort

_COMPARE_ALL_UP_TO = 32

_SIZE_HINT = (
    "To make jnp.unique() compatible with JIT and other transforms, you can specify a concrete value for the size "
    "argument, which will determine the output size."
)


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


def _host(x: Any, message: str) -> np.ndarray:
    """The elements as they are now; an error while they are unknown."""
    if isinstance(x, Tracer):
        value = x.concrete_value()
        if value is None:
            raise ConcretizationTypeError(x, message)
        x = value
    return np.asarray(x)


def _runs(x: Array, equal_nan: bool) -> Array:
    """Whether each slice of a sorted array along its first axis differs from the one before."""
    size = x.shape[0]
    head, tail = lax.slice_in_dim(x, 0, size - 1), lax.slice_in_dim(x, 1, size)
    differs = lax.ne(tail, head)
    if equal_nan and dtypes.issubdtype(x.dtype, np.inexact):
        differs = differs & ~(_logic.isnan(head) & _logic.isnan(tail))
    differs = lax.reduce_or(differs, tuple(range(1, x.ndim)))
    return lax.concatenate([lax.full((1,), True, np.dtype(np.bool_)), differs], 0)


def _sorted_slices(x: Array) -> tuple[Array, Array]:
    """The slices of an array along its first axis in lexicographic order, and their positions."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        x = where(_logic.isnan(x), np.nan, x)
    columns = lax.reshape(x, (x.shape[0], x.size // x.shape[0]))
    keys = [columns[:, i] for i in range(columns.shape[1])][::-1]
    order = lexsort(keys)
    return x[order], order


@jit(static_argnames=("axis", "equal_nan", "size"))
def _unique(x: Array, fill_value: Any, *, axis: int, equal_nan: bool, size: int) -> tuple[Array, ...]:
    """Values, positions of first occurrences, inverse and counts, of a result of known size."""
    x = moveaxis(x, axis, 0)
    length, dtype = x.shape[0], dtypes.default_int_dtype()
    slices, order = _sorted_slices(x)
    starts = _runs(slices, equal_nan)
    places = nonzero(starts, size=size)[0]
    total = _reductions.sum(starts)
    values = slices[places]
    valid = lax.iota(dtype, size) < total
    if fill_value is not None:
        shaped = lax.expand_dims(valid, tuple(range(1, values.ndim)))
        values = where(shaped, values, to_dtype(asarray(fill_value), values.dtype))
    inverse = lax.full((length,), 0, dtype).at[order].set(lax.cumsum(starts.astype(dtype), 0) - 1)
    # a run ends where the next begins; those that are not there begin and end at the end
    end = asarray(length, dtype)
    begins = where(valid, places, end)
    following = nonzero(starts, size=size + 1, fill_value=end)[0][1:]
    return moveaxis(values, 0, axis), order[places], inverse, where(valid, following - begins, 0)


def _unique_now(x: Any, axis: int, equal_nan: bool) -> tuple[Array, ...]:
    """The same of known elements, in NumPy: no program depends on how many are distinct."""
    host = _host(x, f"The error arose for the first argument of jnp.unique(). {_SIZE_HINT}")
    _, positions, inverse, counts = np.unique(
        host, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=equal_nan
    )
    dtype = dtypes.default_int_dtype()
    if isinstance(x, Tracer):
        values = take(x, positions, axis)
    else:
        values = from_host_of(np.take(host, positions, axis), x, weak_type=x.weak_type)
    return values, *(from_host_of(a.astype(dtype), x) for a in (positions, inverse.reshape(-1), counts))


def _unique_parts(
    ar: ArrayLike, axis: int | None, equal_nan: bool, size: int | None, fill_value: ArrayLike | None
) -> tuple[Array, ...]:
    x = as_array(ensure_arraylike("unique", ar))
    shape = np.shape(x)
    along = 0 if axis is None else canonicalize_axis(axis, x.ndim)
    if axis is None:
        x = ravel(x)
    if size is None:
        parts = _unique_now(x, along, equal_nan)
    else:
        size = concrete_int(size, f"The error arose for the size argument of jnp.unique(). {_SIZE_HINT}")
        if x.size == 0:
            parts = _unique_of_nothing(x, along, size, fill_value)
        else:
            parts = _unique(x, fill_value, axis=along, equal_nan=bool(equal_nan), size=size)
    values, positions, inverse, counts = parts
    return values, positions, lax.reshape(inverse, shape) if axis is None else inverse, counts


def _unique_of_nothing(x: Array, axis: int, size: int, fill_value: ArrayLike | None) -> tuple[Array, ...]:
    if x.shape[axis] == 0 and size and fill_value is None:
        raise ValueError("jnp.unique: for zero-sized input with nonzero size argument, fill_value must be specified")
    length, dtype = x.shape[axis], dtypes.default_int_dtype()
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    values = lax.broadcast_in_dim(to_dtype(asarray(0 if fill_value is None else fill_value), x.dtype), shape, ())
    # empty slices are all equal
    counts = where(lax.iota(dtype, size) == 0, dtype.type(length), dtype.type(0))
    return values, lax.full((size,), 0, dtype), lax.full((length,), 0, dtype), counts


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements of an array, sorted.

    Args:
        ar: array.
        return_index: whether the positions of their first occurrences are returned too.
        return_inverse: whether the positions in the result of the array's elements are.
        return_counts: whether the numbers of their occurrences are.
        axis: along which distinct slices are found; None finds distinct elements.
        equal_nan: whether NaNs are equal.
        size: number of distinct elements to return; needed while traced. Further ones are left out.
        fill_value: in place of missing ones; by default the least element.
        sorted: without effect.

    Returns:
        The elements, or a tuple of them and what else is asked for, in the order of the arguments.

    Raises:
        ConcretizationTypeError: the array is traced and size not given.

    >>> unique(np.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    parts = _unique_parts(ar, axis, equal_nan, size, fill_value)
    asked = (True, return_index, return_inverse, return_counts)
    out = tuple(part for part, wanted in zip(parts, asked) if wanted)
    return out if len(out) > 1 else out[0]


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueAllResult:
    """The distinct elements, positions, inverse and counts (see `unique`); NaNs are distinct.

    >>> unique_all(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return _UniqueAllResult(*_unique_parts(x, None, False, size, fill_value))


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueCountsResult:
    """The distinct elements and their counts (see `unique`); NaNs are distinct."""
    parts = _unique_parts(x, None, False, size, fill_value)
    return _UniqueCountsResult(parts[0], parts[3])


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueInverseResult:
    """The distinct elements and the positions among them of the array's (see `unique`); NaNs are distinct."""
    parts = _unique_parts(x, None, False, size, fill_value)
    return _UniqueInverseResult(parts[0], parts[2])


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The distinct elements (see `unique`); NaNs are distinct."""
    return _unique_parts(x, None, False, size, fill_value)[0]


# Sets.


@jit(static_argnames=("invert",))
def _isin(x: Array, among: Array, *, invert: bool) -> Array:
    x, among = (as_array(a) for a in promote_dtypes(x, ravel(among)))
    if among.size == 0 or x.size == 0:
        return lax.full(x.shape, invert, np.dtype(np.bool_))
    if among.size <= _COMPARE_ALL_UP_TO:
        each = lax.expand_dims(x, (x.ndim,))
        found = lax.reduce_or(_logic.equal(each, lax.broadcast_to_rank(among, each.ndim)), (x.ndim,))
    else:
        among = sort(among)
        place = lax.min(searchsorted(among, x), np.int32(among.size - 1))
        found = lax.eq(among[place], x)
    return ~found if invert else found


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether elements are among others.

    Args:
        element: array.
        test_elements: the others.
        assume_unique: without effect.
        invert: whether the answer is negated.
        method: without effect: the best one is known from the sizes.

    Returns:
        bool array of element's shape.

    >>> isin(np.array([1, 2, 3]), np.array([3, 1]))
    Array([ True, False,  True], dtype=bool)
    """
    element, test_elements = ensure_arraylike("isin", element, test_elements)
    return _isin(element, test_elements, invert=bool(invert))


def _two(name: str, ar1: ArrayLike, ar2: ArrayLike) -> list[Array]:
    return [ravel(x) for x in promote_dtypes(*ensure_arraylike(name, ar1, ar2))]


def _static_size(name: str, size: Any) -> int:
    return concrete_int(size, f"The error arose in {name}()")


def _taken(x: Array, places: np.ndarray) -> Array:
    """Elements at known positions of a vector: at once, where it is known too."""
    return take(x, places) if isinstance(x, Tracer) else from_host_of(np.asarray(x)[places], x)


def _first_size(x: Array, mask: Array, fill_value: Any, size: int) -> tuple[Array, Array, Array]:
    """The first elements where a mask holds, padded with a value (None: the least one); positions, and validity."""
    dtype = dtypes.default_int_dtype()
    valid = lax.iota(dtype, size) < _reductions.sum(mask)
    if x.size == 0 or size == 0:
        fill = to_dtype(asarray(0 if fill_value is None else fill_value), x.dtype)
        return lax.broadcast_in_dim(fill, (size,), ()), lax.full((size,), 0, dtype), valid
    places = nonzero(mask, size=size)[0]
    values = x[places]
    if fill_value is None:
        # vectors are sorted: the least element is the first; 0 where there is none
        fill = where(valid[0], values[0], 0)
    else:
        fill = to_dtype(asarray(fill_value), x.dtype)
    return where(valid, values, fill), places, valid


def _distinct(x: Array) -> tuple[Array, Array, Array]:
    """A vector sorted, where its elements are the first of their kind, and their positions before."""
    if x.size == 0:
        empty = lax.full((0,), 0, dtypes.default_int_dtype())
        return x, empty.astype(np.bool_), empty
    slices, order = _sorted_slices(x)
    return slices, _runs(slices, True), order


@jit(static_argnames=("size", "assume_unique"))
def _setdiff1d(x: Array, y: Array, fill_value: Any, *, size: int, assume_unique: bool) -> Array:
    mask = _isin(x, y, invert=True) if assume_unique else None
    if mask is None:
        x, first, _ = _distinct(x)
        mask = first & _isin(x, y, invert=True)
    return _first_size(x, mask, fill_value, size)[0]


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of one array that are not in another, sorted.

    Args:
        ar1: array.
        ar2: array.
        assume_unique: whether the elements of ar1 are known to be distinct; then they keep their order.
        size: number of elements to return; needed while traced. Further ones are left out.
        fill_value: in place of missing ones; 0 by default.

    >>> setdiff1d(np.array([3, 1, 2, 1]), np.array([2]))
    Array([1, 3], dtype=int32)
    """
    x, y = (ravel(a) for a in ensure_arraylike("setdiff1d", ar1, ar2))
    if size is not None:
        fill = 0 if fill_value is None else fill_value
        size = _static_size("setdiff1d", size)
        return _setdiff1d(x, y, fill, size=size, assume_unique=bool(assume_unique))
    hx, hy = (_host(a, "The error arose in setdiff1d()") for a in (x, y))
    places = np.arange(len(hx)) if assume_unique else np.unique(hx, return_index=True)[1]
    return _taken(x, places[~np.isin(hx[places], hy)])


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The distinct elements of two arrays, sorted.

    Args:
        ar1: array.
        ar2: array.
        size: number of elements to return; needed while traced. Further ones are left out.
        fill_value: in place of missing ones; by default the least element.

    >>> union1d(np.array([3, 1]), np.array([2, 1]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(_two("union1d", ar1, ar2)), size=size, fill_value=fill_value)


@jit(static_argnames=("size",))
def _intersect1d(x: Array, y: Array, fill_value: Any, *, size: int) -> tuple[Array, Array, Array]:
    sx, first, order_x = _distinct(x)
    sy, _, order_y = _distinct(y)
    values, places, valid = _first_size(sx, first & _isin(sx, sy, invert=False), fill_value, size)
    if not (x.size and y.size):
        return values, where(valid, 0, x.size), where(valid, 0, y.size)
    other = lax.min(searchsorted(sy, values), np.int32(y.size - 1))
    return values, where(valid, order_x[places], x.size), where(valid, order_y[other], y.size)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The distinct elements that two arrays share, sorted.

    Args:
        ar1: array.
        ar2: array.
        assume_unique: without effect.
        return_indices: whether the positions of their first occurrences in both are returned too.
        size: number of elements to return; needed while traced. Further ones are left out.
        fill_value: in place of missing ones; by default the least element. Missing positions are the arrays' sizes.

    >>> intersect1d(np.array([3, 1, 2]), np.array([2, 3]))
    Array([2, 3], dtype=int32)
    """
    x, y = _two("intersect1d", ar1, ar2)
    if size is not None:
        parts = _intersect1d(x, y, fill_value, size=_static_size("intersect1d", size))
        return parts if return_indices else parts[0]
    hx, hy = (_host(a, "The error arose in intersect1d()") for a in (x, y))
    _, px, py = np.intersect1d(hx, hy, return_indices=True)
    if not return_indices:
        return _taken(x, px)
    dtype = dtypes.default_int_dtype()
    return _taken(x, px), from_host_of(px.astype(dtype), x), from_host_of(py.astype(dtype), y)


@jit(static_argnames=("size",))
def _setxor1d(x: Array, y: Array, fill_value: Any, *, size: int) -> Array:
    sx, first_x, _ = _distinct(x)
    sy, first_y, _ = _distinct(y)
    mask = concatenate([first_x & _isin(sx, sy, invert=True), first_y & _isin(sy, sx, invert=True)])
    if mask.size == 0:
        return _first_size(sx, first_x, fill_value, size)[0]
    _, values = lax.sort((~mask, concatenate([sx, sy])), num_keys=2)
    counts = lax.iota(dtypes.default_int_dtype(), mask.size) < _reductions.sum(mask)
    return _first_size(values, counts, fill_value, size)[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements that are in one of two arrays only, sorted.

    Args:
        ar1: array.
        ar2: array.
        assume_unique: without effect.
        size: number of elements to return; needed while traced. Further ones are left out.
        fill_value: in place of missing ones; by default the least element.

    >>> setxor1d(np.array([3, 1]), np.array([2, 1]))
    Array([2, 3], dtype=int32)
    """
    x, y = _two("setxor1d", ar1, ar2)
    if size is not None:
        return _setxor1d(x, y, fill_value, size=_static_size("setxor1d", size))
    hx, hy = (_host(a, "The error arose in setxor1d()") for a in (x, y))
    joined = np.concatenate([hx, hy])
    wanted = np.setxor1d(hx, hy)
    if not (isinstance(x, Tracer) or isinstance(y, Tracer)):
        return from_host_of(wanted, x, y)
    values, places = np.unique(joined, return_index=True)
    return take(concatenate([x, y]), places[np.searchsorted(values, wanted)])
