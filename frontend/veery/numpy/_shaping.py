"""Arrays in other shapes: reshaping, the order of dimensions, reversal and rotation."""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes, shapes as _shapes, source
from veery._core.array import ArrayImpl
from veery._core.dimensions import is_symbolic_dim
from veery._core.errors import InconclusiveDimensionOperation
from veery._core.shapes import as_axes, canonicalize_axis, canonicalize_shape, check_concrete, concrete_int
from veery._core.trace import Tracer
from veery.lax._placement import laid_out
from veery.numpy import _promotion
from veery.numpy._promotion import (
    as_positions,
    broadcast_to as _broadcast_to,
    ensure_arraylike,
    ensure_arraylikes,
    is_arraylike,
    size_as,
    to_dtype,
    unwrap,
)

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer
Axes = int | Sequence[int]


def as_array(x: ArrayLike) -> Array:
    """An array-like as an Array: constants of NumPy and Python become arrays, weakly typed where Python's are."""
    if isinstance(x, ArrayImpl):
        return x
    dtype = dtypes.dtype_of(x)
    if isinstance(x, Tracer):  # which may stand for a number
        return lax._convert.convert(x, dtype, dtypes.is_weakly_typed(x))
    return lax.broadcast_in_dim(to_dtype(x, dtype, dtypes.is_weakly_typed(x)), np.shape(x), tuple(range(np.ndim(x))))


def axis_tuple(axis: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """One axis or several as a tuple of axes counted from the front; None is all of them.

    Raises:
        ValueError: an axis is out of bounds or repeated.
    """
    if axis is None:
        return tuple(range(ndim))
    result = tuple(canonicalize_axis(concrete_int(a, name), ndim) for a in as_axes(axis))
    if len(set(result)) != len(result):
        raise ValueError(f"repeated axis in {name}: {axis}")
    return result


# ---------------------------------------------------------------------------------------------------------------------
# One dimension after another


def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Array:
    """The elements of `a` in another shape.

    Args:
        a: array of any shape.
        shape: the shape of the result, an int or ints; one of them may be -1 and is worked out from the others.
        order: "C" (the last index runs fastest) or "F" (the first does).
        copy: accepted for compatibility: arrays are immutable, so that nobody can tell.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        The array; of an array of NumPy's one of NumPy's, also within `jit`, as in JAX.

    Raises:
        TypeError: the number of elements differs, or there are two unknown dimensions.
        ValueError: an unknown order; NumPy's array has another number of elements.

    >>> import veery.numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    if out_sharding is not None:
        return laid_out(lambda: _reshape(ensure_arraylike("reshape", a), shape, order), out_sharding, "reshape")
    array: Any = ensure_arraylike("reshape", a)
    if isinstance(array, (np.ndarray, np.generic)):
        # libraries read values of what they reshape of constants, while a function is traced
        reshaped: Any = array
        return reshaped.reshape(shape, order=order)
    return _reshape(array, shape, order)


def _reshape(a: Any, shape: Any, order: str) -> Array:
    new_shape = _resolve_shape(a, shape)
    if order == "C":
        return lax.reshape(a, new_shape)
    if order == "F":
        return _reshape_column_major(a, new_shape=new_shape)
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


def _resolve_shape(a: Any, shape: Any) -> tuple[int, ...]:
    """The shape with its -1 filled in."""
    old, size = np.shape(a), np.size(a)
    new = canonicalize_shape(shape)
    if new.count(-1) > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {new}")
    rest = math.prod(d for d in new if d != -1)
    if -1 in new:
        if is_symbolic_dim(size % rest if rest else 0):
            raise InconclusiveDimensionOperation(
                f"Cannot divide evenly the sizes of shapes {old} and {new}: the remainder {size % rest} should be 0. "
                f"If it is, say so in a constraint: '{size % rest} == 0'"
            )
        if (rest and size % rest) or (not rest and size):
            raise TypeError(
                f"cannot reshape array of shape {old} (size {size}) into shape {new} because the product of "
                "specified axis sizes does not evenly divide the array size"
            )
        new = tuple(size // max(rest, 1) if d == -1 else d for d in new)
    if math.prod(new) != size or any(d < 0 for d in new):
        raise TypeError(f"cannot reshape array of shape {old} (size {size}) into shape {shape} (size {rest})")
    return new


@jit(static_argnames=("new_shape",), inline=True)
def _reshape_column_major(a: Array, *, new_shape: tuple[int, ...]) -> Array:
    reversed_order = tuple(range(len(new_shape)))[::-1]
    return lax.transpose(lax.reshape(_reverse_dimensions(a), new_shape[::-1]), reversed_order)


def _reverse_dimensions(a: Array) -> Array:
    return lax.transpose(a, tuple(range(np.ndim(a)))[::-1])


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The elements of `a` in one dimension; `order` as for reshape.

    >>> import veery.numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F").tolist()
    [1, 3, 2, 4]
    """
    if out_sharding is not None:
        return laid_out(lambda: ravel(a, order), out_sharding, "ravel")
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    a = ensure_arraylike("ravel", a)
    return _reshape(a, (np.size(a),), order)


def squeeze(a: ArrayLike, axis: Axes | None = None) -> Array:
    """`a` without dimensions of size 1: all of them, or those given.

    Raises:
        ValueError: a dimension that was given has another size.
    """
    a = as_array(ensure_arraylike("squeeze", a))
    axes = tuple(i for i, d in enumerate(a.shape) if d == 1) if axis is None else axis_tuple(axis, a.ndim)
    return lax.squeeze(a, axes)


def expand_dims(a: ArrayLike, axis: Axes) -> Array:
    """`a` with new dimensions of size 1 at these positions of the result."""
    axes = [operator.index(i) for i in as_axes(axis)]
    return lax.expand_dims(as_array(ensure_arraylike("expand_dims", a)), axes)


# ---------------------------------------------------------------------------------------------------------------------
# The order of dimensions


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """`a` with its dimensions in the order of `axes` (reversed by default).

    >>> import veery.numpy as jnp
    >>> jnp.transpose(jnp.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = as_array(ensure_arraylike("transpose", a))
    if axes is None:
        return _reverse_dimensions(a)
    return lax.transpose(a, [canonicalize_axis(i, a.ndim) for i in axes])


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """`a` with its dimensions in the order of `axes`."""
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two dimensions exchanged.

    Raises:
        ValueError: x has fewer dimensions.
    """
    x = ensure_arraylike("matrix_transpose", x)
    if np.ndim(x) < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim={np.ndim(x)}")
    return swapaxes(x, -1, -2)


def moveaxis(a: ArrayLike, source: Axes, destination: Axes) -> Array:
    """`a` with some dimensions at other positions, the others in their order.

    Raises:
        ValueError: a dimension is out of bounds or repeated, or the numbers of sources and destinations differ.
    """
    a = as_array(ensure_arraylike("moveaxis", a))
    sources, targets = axis_tuple(source, a.ndim, "source"), axis_tuple(destination, a.ndim, "destination")
    if len(sources) != len(targets):
        raise ValueError(
            f"Inconsistent number of elements: {len(sources)} vs {len(targets)}. source and destination must have "
            "the same number of elements."
        )
    order = [i for i in range(a.ndim) if i not in sources]
    for to, axis in sorted(zip(targets, sources)):
        order.insert(to, axis)
    return lax.transpose(a, order)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two dimensions exchanged."""
    a = as_array(ensure_arraylike("swapaxes", a))
    order = list(range(a.ndim))
    i, j = operator.index(axis1), operator.index(axis2)
    for axis in (i, j):
        if not -a.ndim <= axis < a.ndim:
            raise IndexError(f"swapaxes: axis {axis} is out of bounds for array of dimension {a.ndim}")
    order[i], order[j] = order[j], order[i]
    return lax.transpose(a, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with dimension `axis` moved in front of dimension `start`."""
    a = as_array(ensure_arraylike("rollaxis", a))
    axis = canonicalize_axis(axis, a.ndim)
    if not -a.ndim <= start <= a.ndim:
        raise ValueError(f"start={start!r} must satisfy {-a.ndim} <= start <= {a.ndim}")
    start = start + a.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if start > axis else start)


# ---------------------------------------------------------------------------------------------------------------------
# Broadcasting


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to; an integer stands for a shape of one dimension.

    Raises:
        TypeError: a shape is not made of integers.
        ValueError: the shapes do not fit.

    >>> broadcast_shapes((3, 1), 4)
    (3, 4)
    """
    return _shapes.broadcast_shapes(*map(canonicalize_shape, shapes))


def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """`array` repeated along new and size-1 dimensions until it has this shape.

    Raises:
        ValueError: it does not broadcast to that shape.
    """
    if out_sharding is not None:
        return laid_out(lambda: broadcast_to(array, shape), out_sharding, "broadcast_to")
    array = ensure_arraylike("broadcast_to", array)
    return _broadcast_to(array, shape)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays, each in the shape in which all of them broadcast."""
    args = ensure_arraylikes("broadcast_arrays", *args)
    return _promotion.broadcast_arrays(*args)


def atleast_1d(*arys: ArrayLike) -> Any:
    """The arrays with at least one dimension; one argument gives one array, several a list."""
    return _at_least("atleast_1d", arys, _one_dimension)


def atleast_2d(*arys: ArrayLike) -> Any:
    """The arrays with at least two dimensions, new ones in front."""
    return _at_least("atleast_2d", arys, _two_dimensions)


def atleast_3d(*arys: ArrayLike) -> Any:
    """The arrays with at least three dimensions: one in front of vectors, the others behind."""
    return _at_least("atleast_3d", arys, _three_dimensions)


def _at_least(name: str, arys: Sequence[ArrayLike], extend: Any) -> Any:
    arys = ensure_arraylikes(name, *arys)
    results = [extend(as_array(x)) for x in arys]
    return results[0] if len(results) == 1 else results


def _one_dimension(x: Array) -> Array:
    return x if x.ndim else lax.reshape(x, (1,))


def _two_dimensions(x: Array) -> Array:
    return x if x.ndim > 1 else lax.reshape(x, (1, x.size))


def _three_dimensions(x: Array) -> Array:
    if x.ndim > 2:
        return x
    return lax.reshape(x, (1, x.size, 1) if x.ndim < 2 else (*x.shape, 1))


# ---------------------------------------------------------------------------------------------------------------------
# Reversal and rotation


def flip(m: ArrayLike, axis: Axes | None = None) -> Array:
    """`m` with the order of its elements reversed along all dimensions, or those given."""
    m = as_array(ensure_arraylike("flip", m))
    return lax.rev(m, axis_tuple(axis, m.ndim))


def fliplr(m: ArrayLike) -> Array:
    """`m` reversed along its second dimension."""
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """`m` reversed along its first dimension."""
    return flip(m, 0)


@jit(static_argnames=("k", "axes"), inline=True)
def _rot90(m: Array, *, k: int, axes: tuple[int, int]) -> Array:
    first, second = axes
    if k == 1:
        return swapaxes(lax.rev(m, (second,)), first, second)
    if k == 2:
        return lax.rev(m, (first, second))
    return lax.rev(swapaxes(m, first, second), (second,)) if k == 3 else m


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """`m` rotated by k quarter turns in the plane of two dimensions, from the first towards the second.

    Raises:
        ValueError: the two dimensions are one, or m has fewer than two.
    """
    m = ensure_arraylike("rot90", m)
    if np.ndim(m) < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument of shape "
            f"{np.shape(m)}, which has ndim {np.ndim(m)}"
        )
    first, second = (canonicalize_axis(a, np.ndim(m)) for a in axes)
    if first == second:
        raise ValueError("Axes must be different")
    return _rot90(m, k=operator.index(k) % 4, axes=(first, second))


def roll(a: ArrayLike, shift: Any, axis: Axes | None = None) -> Array:
    """`a` with its elements moved by `shift` places along dimensions; those that leave at one end enter at the other.

    Args:
        a: array of any shape.
        shift: an int, ints for the dimensions, or arrays of them (traced ones too).
        axis: the dimensions; None rolls the flattened array.

    >>> import veery.numpy as jnp
    >>> jnp.roll(jnp.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    a, shift = ensure_arraylike("roll", a), unwrap(shift)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), np.shape(a))
    axes = tuple(canonicalize_axis(i, np.ndim(a)) for i in as_axes(axis))
    if np.ndim(shift) > 1 or np.size(shift) not in (1, len(axes)) and len(axes) != 1:
        raise ValueError(f"roll: shift {shift} and axis {axis} must broadcast to one length")
    axes = axes * np.size(shift) if len(axes) == 1 else axes
    try:
        shifts = np.broadcast_to(np.asarray(shift, np.int64), (len(axes),)).tolist()
    except TypeError:
        return _roll_by_array(a, shift, axes=axes)
    if any(is_symbolic_dim(np.shape(a)[i]) for i in axes):
        return _roll_by_array(a, np.array(shifts, np.int32), axes=axes)
    return _roll(a, shifts=tuple(shifts), axes=axes)


@jit(static_argnames=("shifts", "axes"), inline=True)
def _roll(a: Array, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    for shift, axis in zip(shifts, axes):
        n = a.shape[axis]
        cut = (n - shift % n) % n if n else 0
        if cut:
            a = lax.concatenate([lax.slice_in_dim(a, cut, n, axis=axis), lax.slice_in_dim(a, 0, cut, axis=axis)], axis)
    return a


@jit(static_argnames=("axes",))
def _roll_by_array(a: Array, shift: Any, *, axes: tuple[int, ...]) -> Array:
    shifts = as_positions(_broadcast_to(shift, (len(axes),)))
    for i, axis in enumerate(axes):
        n = a.shape[axis]
        if n == 0:
            continue
        amount = lax.squeeze(lax.slice_in_dim(shifts, i, i + 1, axis=0), (0,))
        size = size_as(n, amount.dtype)
        start = lax.rem(lax.sub(size, lax.rem(lax.add(lax.rem(amount, size), size), size)), size)
        a = lax.dynamic_slice_in_dim(lax.concatenate([a, a], axis), start, n, axis)
    return a


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """An array of this shape filled with the elements of `a` in order, begun anew when they are used up."""
    a = ensure_arraylike("resize", a)
    shape = canonicalize_shape(new_shape)
    if any(d < 0 for d in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    return _resize(a, shape=shape)


@jit(static_argnames=("shape",), inline=True)
def _resize(a: Array, *, shape: tuple[int, ...]) -> Array:
    size, flat = math.prod(shape), ravel(a)
    if flat.size == 0 or size == 0:
        return lax.full(shape, 0, flat.dtype)
    copies = -(-size // flat.size)
    tiled = flat if copies == 1 else lax.reshape(lax.broadcast(flat, (copies,)), (copies * flat.size,))
    return lax.reshape(lax.slice_in_dim(tiled, 0, size, axis=0), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes | None = None) -> Array:
    """`filt` without the zeros at its ends: in front ("f"), behind ("b") or both. Needs concrete values.

    Args:
        filt: array, of which NumPy's `trim_zeros` finds the part to keep.
        trim: which ends.
        axis: the dimensions to trim; all of them by default.
    """
    filt = ensure_arraylike("trim_zeros", filt)
    check_concrete(filt, "Error arose in the `filt` argument of trim_zeros()")
    values = np.asarray(filt)
    axes = axis_tuple(axis, values.ndim)
    nonzero = np.argwhere(values)
    starts, limits = [0] * values.ndim, list(values.shape)
    for i in axes:
        places = nonzero[:, i]
        starts[i] = int(places.min()) if places.size and "f" in trim.lower() else 0
        limits[i] = int(places.max()) + 1 if places.size and "b" in trim.lower() else limits[i]
        if not places.size:
            limits[i] = starts[i]
    return lax.slice(as_array(filt), starts, limits)


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The shape of an array."""
    return _shape_of("shape", a)


def size(a: ArrayLike, axis: Any = None) -> int:
    """The number of elements of an array, or along dimensions of it."""
    shape = _shape_of("size", a)
    return math.prod(shape[i] for i in axis_tuple(axis, builtins.len(shape)))


def ndim(a: ArrayLike) -> int:
    """The number of dimensions of an array."""
    return builtins.len(_shape_of("ndim", a))


def _shape_of(name: str, a: Any) -> tuple[int, ...]:
    if not is_arraylike(a):  # lists, as in NumPy
        warnings.warn(
            f"jnp.{name} requires ndarray or scalar arguments, got {type(a)}. In a future JAX release this will be an "
            "error.",
            DeprecationWarning,
            stacklevel=source.user_stacklevel(),
        )
    return np.shape(unwrap(a))
