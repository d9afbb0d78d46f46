"""Arrays joined, split, repeated, and with elements put in or taken out."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.errors import ConcretizationTypeError
from veery._core.shapes import canonicalize_axis, canonicalize_shape, check_concrete, concrete_int
from veery._core.trace import Tracer
from veery.lax._placement import lays_out
from veery.numpy._promotion import (
    as_positions,
    broadcast_to,
    check_no_out,
    ensure_arraylike,
    ensure_arraylikes,
    promote_dtypes,
    to_dtype,
    unwrap,
)
from veery.numpy._selection import take
from veery.numpy._shaping import Array, ArrayLike, as_array, atleast_1d, atleast_2d, atleast_3d, ravel, reshape

# ---------------------------------------------------------------------------------------------------------------------
# Joining


def _operands(name: str, arrays: Any) -> list[Any]:
    """The arrays to join: the elements of a sequence, or the slices of an array along its first dimension."""
    if isinstance(arrays, (np.ndarray, ArrayImpl, Tracer)):
        return list(unstack(arrays))
    if not hasattr(arrays, "__len__"):
        raise TypeError(f"{name} requires a sequence of arrays, got {type(arrays)}")
    return list(ensure_arraylikes(name, *arrays))


def _in_dtype(arrays: Sequence[ArrayLike], dtype: Any) -> list[Array]:
    """The arrays in a dtype, or in the one that they promote to."""
    if dtype is None:
        return [as_array(x) for x in promote_dtypes(*arrays)]
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype)
    return [as_array(to_dtype(x, dtype)) for x in arrays]


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """Arrays joined along a dimension.

    Args:
        arrays: a sequence of arrays whose shapes agree but for that dimension, or an array of them.
        axis: the dimension; None joins the flattened arrays.
        dtype: of the result; by default what the arrays promote to.

    Raises:
        ValueError: there are no arrays, or they have no dimensions.
        TypeError: the shapes do not fit.

    >>> import veery.numpy as jnp
    >>> jnp.concatenate([jnp.array([1, 2]), jnp.array([3.5])]).tolist()
    [1.0, 2.0, 3.5]
    """
    operands = _operands("concatenate", arrays)
    if not operands:
        raise ValueError("Need at least one array to concatenate.")
    if axis is not None:
        if np.ndim(operands[0]) == 0:
            raise ValueError("Zero-dimensional arrays cannot be concatenated.")
        axis = canonicalize_axis(axis, np.ndim(operands[0]))
    return _concatenate(operands, axis=axis, dtype=dtype)


@jit(static_argnames=("axis", "dtype"), inline=True)
def _concatenate(arrays: list[Array], *, axis: int | None, dtype: Any) -> Array:
    arrays = _in_dtype(arrays, dtype)
    if axis is None:
        return lax.concatenate([ravel(x) for x in arrays], 0)
    return lax.concatenate(arrays, axis)


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along a dimension (see concatenate)."""
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Arrays of one shape joined along a new dimension.

    Args:
        arrays: a sequence of arrays, or an array of them.
        axis: the position of the new dimension.
        out: must be None.
        dtype: of the result; by default what the arrays promote to.

    Raises:
        ValueError: there are no arrays, or their shapes differ.

    >>> import veery.numpy as jnp
    >>> jnp.stack([jnp.arange(2), jnp.ones(2, int)], axis=1).tolist()
    [[0, 1], [1, 1]]
    """
    check_no_out("stack", out)
    operands = _operands("stack", arrays)
    if not operands:
        raise ValueError("Need at least one array to stack.")
    if any(np.shape(x) != np.shape(operands[0]) for x in operands):
        shapes = ", ".join(str(np.shape(x)) for x in operands)
        raise ValueError(f"All input arrays must have the same shape. Got {shapes}.")
    return _stack(operands, axis=canonicalize_axis(axis, np.ndim(operands[0]) + 1), dtype=dtype)


@jit(static_argnames=("axis", "dtype"), inline=True)
def _stack(arrays: list[Array], *, axis: int, dtype: Any) -> Array:
    return lax.concatenate([lax.expand_dims(x, (axis,)) for x in _in_dtype(arrays, dtype)], axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, which they lack.

    Raises:
        ValueError: x has no dimensions.
    """
    x = ensure_arraylike("unstack", x)
    if np.ndim(x) == 0:
        raise ValueError("Unstack requires arrays with rank > 0, however a scalar array was passed.")
    return tuple(_unstack(x, axis=canonicalize_axis(axis, np.ndim(x))))


@jit(static_argnames=("axis",), inline=True)
def _unstack(x: Array, *, axis: int) -> list[Array]:
    if not x.shape[axis]:
        return []
    return [lax.squeeze(piece, (axis,)) for piece in lax.split(x, (1,) * x.shape[axis], axis)]


def _join(name: str, tup: Any, extend: Any, axis: int, dtype: Any) -> Array:
    operands = _operands(name, tup)
    if not operands:
        raise ValueError("Need at least one array to concatenate.")
    return _extend_and_concatenate(operands, extend=extend, axis=axis, dtype=dtype)


@jit(static_argnames=("extend", "axis", "dtype"), inline=True)
def _extend_and_concatenate(arrays: list[Array], *, extend: Any, axis: int, dtype: Any) -> Array:
    extended = [extend(x) for x in _in_dtype(arrays, dtype)]
    # vectors lie side by side where matrices do so along the second dimension
    return lax.concatenate(extended, 0 if extended[0].ndim == 1 else axis)


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along the first dimension; vectors are rows."""
    return _join("vstack", tup, atleast_2d, 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along the second dimension; vectors along their only one."""
    return _join("hstack", tup, atleast_1d, 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along the third dimension."""
    return _join("dstack", tup, atleast_3d, 2, dtype)


def column_stack(tup: Any) -> Array:
    """Arrays joined along the second dimension; vectors are columns."""
    return _join("column_stack", tup, _as_columns, 1, None)


def _as_columns(x: Array) -> Array:
    return x if x.ndim > 1 else lax.reshape(x, (x.size, 1))


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` with `values` behind it along a dimension; None flattens both."""
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Array:
    """An array assembled from nested lists of blocks: the innermost lists are joined along the last dimension.

    >>> import veery.numpy as jnp
    >>> jnp.block([[jnp.ones((2, 2)), jnp.zeros((2, 1))], [jnp.zeros((1, 2)), jnp.ones((1, 1))]]).shape
    (3, 3)
    """
    if isinstance(arrays, tuple):
        raise ValueError("jnp.block does not allow tuples, got {arrays}")
    return _block_jit(arrays)


@jit
def _block_jit(arrays: Any) -> Array:
    return _block(arrays)[0]


def _block(xs: Any) -> tuple[Array, int]:
    """The array of a nested list, and the depth of its nesting."""
    if isinstance(xs, tuple):
        raise ValueError("jnp.block does not allow tuples, got {xs}")
    if not isinstance(xs, list):
        return as_array(ensure_arraylike("block", xs)), 1
    if not xs:
        raise ValueError("jnp.block does not allow empty list arguments")
    parts, depths = zip(*(_block(x) for x in xs))
    if len(set(depths)) > 1:
        raise ValueError("Mismatched list depths in jnp.block")
    rank = max(depths[0], *(x.ndim for x in parts)) if len(parts) > 1 else max(depths[0], parts[0].ndim)
    ranked = [lax.broadcast_to_rank(x, rank) for x in _in_dtype(parts, None)]
    return lax.concatenate(ranked, rank - depths[0]), depths[0] + 1


# ---------------------------------------------------------------------------------------------------------------------
# Splitting


def _boundaries(name: str, indices_or_sections: Any, size: int, uneven: bool) -> list[int]:
    """Where the pieces end, the end of the array included."""
    if isinstance(indices_or_sections, (tuple, list)) or np.ndim(indices_or_sections) > 0:
        points = [concrete_int(i, "in jax.numpy.split argument indices_or_sections") for i in indices_or_sections]
        return [*(min(max(i + size if i < 0 else i, 0), size) for i in points), size]
    where = f"in jax.numpy.{name} argument indices_or_sections"
    if dtypes.issubdtype(dtypes.dtype_of(indices_or_sections), np.floating):
        check_concrete(indices_or_sections, where)
        whole = int(indices_or_sections)
        indices_or_sections = whole if whole == indices_or_sections else indices_or_sections
    sections = concrete_int(indices_or_sections, where)
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    quotient, rest = divmod(size, sections)
    if rest and not uneven:
        raise ValueError(f"array split does not result in an equal division: rest is {rest}")
    return [i * quotient + min(i, rest) for i in range(1, sections + 1)]


def _split(name: str, ary: ArrayLike, indices_or_sections: Any, axis: int, uneven: bool = False) -> list[Array]:
    ary = ensure_arraylike(name, ary)
    axis = canonicalize_axis(axis, np.ndim(ary))
    ends = _boundaries(name, indices_or_sections, np.shape(ary)[axis], uneven)
    starts = [0, *ends[:-1]]
    return _split_at(ary, bounds=tuple(zip(starts, ends)), axis=axis)


@jit(static_argnames=("bounds", "axis"), inline=True)
def _split_at(ary: Array, *, bounds: tuple[tuple[int, int], ...], axis: int) -> list[Array]:
    if all(start <= end for start, end in bounds):
        return list(lax.split(ary, [end - start for start, end in bounds], axis))
    return [lax.slice_in_dim(ary, start, max(start, end), axis=axis) for start, end in bounds]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """The pieces of an array along a dimension.

    Args:
        ary: array of any shape.
        indices_or_sections: the number of pieces of equal size, or the indices at which to cut.
        axis: the dimension.

    Raises:
        ValueError: the array does not split into pieces of equal size.

    >>> import veery.numpy as jnp
    >>> [x.tolist() for x in jnp.split(jnp.arange(5), [2, 4])]
    [[0, 1], [2, 3], [4]]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Like split, with the first pieces larger by one where sizes cannot be equal."""
    return _split("array_split", ary, indices_or_sections, axis, uneven=True)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """The pieces of an array along its first dimension."""
    return _split("vsplit", ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """The pieces of an array along its second dimension; of a vector along its only one."""
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """The pieces of an array along its third dimension."""
    return _split("dsplit", ary, indices_or_sections, 2)


# ---------------------------------------------------------------------------------------------------------------------
# Repetition


def tile(A: ArrayLike, reps: Any) -> Array:
    """Copies of an array laid side by side.

    Args:
        A: array of any shape.
        reps: how many along each dimension, aligned with the last ones; more of them than dimensions add dimensions.

    >>> import veery.numpy as jnp
    >>> jnp.tile(jnp.array([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    A = ensure_arraylike("tile", A)
    return _tile(A, reps=canonicalize_shape(reps))


@jit(static_argnames=("reps",), inline=True)
def _tile(A: Array, *, reps: tuple[int, ...]) -> Array:
    A = as_array(A)
    rank = max(len(reps), A.ndim)
    shape = (1,) * (rank - A.ndim) + A.shape
    reps = (1,) * (rank - len(reps)) + reps
    doubled = [d for pair in zip(reps, shape) for d in pair]
    copies = lax.broadcast_in_dim(lax.reshape(A, shape), doubled, range(1, 2 * rank, 2))
    return lax.reshape(copies, [r * d for r, d in zip(reps, shape)])


@lays_out
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Each element of an array several times in a row.

    Args:
        a: array of any shape.
        repeats: how often: one number, or one for each element along the dimension.
        axis: the dimension; None flattens the array.
        total_repeat_length: the length of the result, needed under jit where `repeats` is traced. A longer one
            continues with the last element, a shorter one cuts off.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ConcretizationTypeError: repeats is traced and there is no total_repeat_length.

    >>> import veery.numpy as jnp
    >>> jnp.repeat(jnp.array([1, 2, 3]), jnp.array([2, 0, 1])).tolist()
    [1, 1, 3]
    """
    a, repeats = ensure_arraylike("repeat", a, repeats)
    if axis is None or np.ndim(a) == 0:
        canonicalize_axis(axis or 0, max(np.ndim(a), 1))
        return repeat(ravel(a), repeats, 0, total_repeat_length=total_repeat_length)
    axis = canonicalize_axis(axis, np.ndim(a))
    size = np.shape(a)[axis]
    if total_repeat_length is None:
        if isinstance(repeats, Tracer):
            raise ConcretizationTypeError(
                repeats,
                "When jit-compiling jnp.repeat, the total number of repeats must be static. To fix this, either "
                "specify a static value for `repeats`, or pass a static value to `total_repeat_length`.",
            )
        counts = np.asarray(repeats)
        if counts.dtype.kind not in "iub":
            raise TypeError(f"repeats must be integers, got {counts.dtype}")
        if counts.size == 1:
            return _repeat_evenly(a, count=int(counts.reshape(())), axis=axis)
        if counts.shape != (size,):
            raise ValueError(f"repeats must be a scalar or of length {size}, got shape {counts.shape}")
        return _take(a, np.repeat(np.arange(size, dtype=np.int32), counts), axis)
    return _repeat_to_length(a, repeats, length=operator.index(total_repeat_length), axis=axis)


@jit(static_argnames=("count", "axis"), inline=True)
def _repeat_evenly(a: Array, *, count: int, axis: int) -> Array:
    a = as_array(a)
    shape = [*a.shape[: axis + 1], count, *a.shape[axis + 1 :]]
    copies = lax.broadcast_in_dim(a, shape, [i for i in range(a.ndim + 1) if i != axis + 1])
    return lax.reshape(copies, [d * count if i == axis else d for i, d in enumerate(a.shape)])


@jit(static_argnames=("length", "axis"))
def _repeat_to_length(a: Array, repeats: Any, *, length: int, axis: int) -> Array:
    size = a.shape[axis]
    if not size:
        return a
    counts = broadcast_to(reshape(to_dtype(repeats, np.dtype("int32")), (-1,)), (size,))
    ends = lax.cumsum(counts, 0)
    starts = lax.sub(ends, counts)
    # position p shows the last element whose run begins at or before p
    positions = lax.broadcasted_iota(np.int32, (length, size), 0)
    begun = lax.le(lax.broadcast_in_dim(starts, (length, size), (1,)), positions)
    index = lax.sub(lax.reduce_sum(lax.convert_element_type(begun, np.int32), (1,)), np.int32(1))
    return _take(a, index, axis)


def _take(a: Array, indices: Any, axis: int) -> Array:
    return take(a, indices, axis, mode="clip")


# ---------------------------------------------------------------------------------------------------------------------
# Elements put in or taken out


def _positions(name: str, obj: Any, size: int) -> Any:
    """Indices along a dimension: those of a slice, or what is given for them."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    return unwrap(ensure_arraylike(name, obj, start=1))


def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """`arr` without the elements at these indices along a dimension.

    Args:
        arr: array of any shape.
        obj: an index, indices, a slice or a boolean mask. Traced integers need assume_unique_indices.
        axis: the dimension; None flattens the array.
        assume_unique_indices: whether the indices may be taken to be in bounds and all different, so that the shape
            of the result does not depend on their values.

    >>> import veery.numpy as jnp
    >>> jnp.delete(jnp.arange(5), jnp.array([1, 3])).tolist()
    [0, 2, 4]
    """
    arr = ensure_arraylike("delete", arr)
    if axis is None:
        return delete(ravel(arr), obj, 0, assume_unique_indices=assume_unique_indices)
    axis = canonicalize_axis(axis, np.ndim(arr))
    size = np.shape(arr)[axis]
    try:
        obj = np.asarray(canonicalize_axis(operator.index(obj), size))
    except TypeError:
        pass  # not one known index
    index = _positions("delete", obj, size)
    dtype = dtypes.dtype_of(index)
    if np.issubdtype(dtype, np.integer) and (assume_unique_indices or isinstance(index, Tracer) and index.ndim == 0):
        return _delete_unique(arr, index, axis=axis)
    if isinstance(index, Tracer):
        raise ConcretizationTypeError(index, "'obj' array argument of jnp.delete()")
    index = np.asarray(index)
    if dtype == np.bool_:
        if index.shape != (size,):
            raise ValueError(f"jnp.delete: a boolean mask must have the dimension's length {size}")
    elif not np.issubdtype(dtype, np.integer):
        raise ValueError(f"jnp.delete: obj must be of integers or booleans, got {dtype}")
    return _take(arr, np.delete(np.arange(size, dtype=np.int32), index), axis)


@jit(static_argnames=("axis",))
def _delete_unique(arr: Array, obj: Array, *, axis: int) -> Array:
    size, obj = arr.shape[axis], as_positions(obj)
    gone: Any = lax.sort(reshape(lax.select(lax.lt(obj, 0), lax.add(obj, size), obj), (-1,)))
    kept = lax.iota(gone.dtype, size - gone.size)
    # the k-th smallest removed index moves what stands at or behind it by one more place
    for k in range(gone.size):
        limit = lax.squeeze(lax.slice_in_dim(gone, k, k + 1, axis=0), (0,))
        kept = lax.add(kept, lax.convert_element_type(lax.ge(kept, limit), gone.dtype))
    return _take(arr, kept, axis)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` with values put in before these indices along a dimension.

    Args:
        arr: array of any shape.
        obj: an index, indices or a slice; out of bounds means at the end that is nearer.
        values: what is put in; it broadcasts as in NumPy.
        axis: the dimension; None flattens the array.

    >>> import veery.numpy as jnp
    >>> jnp.insert(jnp.arange(4), 2, 9).tolist()
    [0, 1, 9, 2, 3]
    """
    arr, values = ensure_arraylike("insert", arr, values)
    if axis is None:
        return insert(ravel(arr), obj, values, 0)
    axis = canonicalize_axis(axis, np.ndim(arr))
    size = np.shape(arr)[axis]
    ranked = (1,) * (np.ndim(arr) - np.ndim(values)) + np.shape(values)
    index = _positions("insert", obj, size)
    scalar = np.ndim(index) == 0
    if np.ndim(index) > 1:
        raise ValueError(f"jnp.insert: obj must be a slice, a one-dimensional array, or a scalar; got {obj}")
    if np.size(index) == 0:
        index = np.zeros(0, np.int32)
    if not np.issubdtype(dtypes.dtype_of(index), np.integer):
        raise ValueError(f"jnp.insert: obj must be of integers, got {dtypes.dtype_of(index)}")
    count = ranked[0 if scalar else axis] if np.size(index) == 1 else np.size(index)
    known = not isinstance(index, Tracer)
    source = _insertion(np.asarray(index, np.int64), size, count) if known else _insertion_at(index, size, count)
    return _insert(arr, values, source, count=count, axis=axis, scalar=scalar)


def _insertion(index: np.ndarray, size: int, count: int) -> np.ndarray:
    """Where each place of the result comes from: `size` and up are the new elements."""
    index = np.clip(np.where(index < 0, index + size, index), 0, size)
    places = np.broadcast_to(index.reshape(-1), (count,))
    return np.insert(np.arange(size), places, size + np.arange(count)).astype(np.int32)


def _insertion_at(index: Array, size: int, count: int) -> Array:
    """The same for traced indices: new elements are sorted in before the element of their index."""
    index = reshape(to_dtype(index, np.dtype(np.int32)), (-1,))
    index = lax.clamp(np.int32(0), lax.select(lax.lt(index, 0), lax.add(index, size), index), np.int32(size))
    places = lax.concatenate([broadcast_to(index, (count,)), lax.iota(np.int32, size)], 0)
    _, order = lax.sort_key_val(places, lax.iota(np.int32, size + count))
    return lax.select(lax.lt(order, count), lax.add(order, size), lax.sub(order, count))


@jit(static_argnames=("count", "axis", "scalar"))
def _insert(arr: Array, values: Any, source: Array, *, count: int, axis: int, scalar: bool) -> Array:
    arr, values = as_array(arr), as_array(to_dtype(values, arr.dtype))
    shape = tuple(count if i == axis else d for i, d in enumerate(arr.shape))
    if scalar and values.ndim > 0:
        # one index: the first dimension of values runs along `axis` (NumPy's rule)
        values = lax.broadcast_to_rank(values, arr.ndim)
        order = [i for i in range(1, arr.ndim)]
        order.insert(axis, 0)
        values = lax.transpose(values, order)
        shape = tuple(values.shape[axis] if i == axis else d for i, d in enumerate(arr.shape))
    new = broadcast_to(values, shape)
    return to_dtype(_take(lax.concatenate([arr, new], axis), source, axis), arr.dtype, arr.weak_type)
