"""Choosing among values (where, select, choose, piecewise), positions of what is not zero, taking and putting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.dimensions import is_symbolic_dim
from veery._core.errors import ConcretizationTypeError
from veery._core.shapes import canonicalize_axis, concrete_int
from veery._core.trace import Tracer
from veery._transforms import explicit
from veery.numpy._arithmetic import as_array, choose as _choose, clip, is_kind, remainder
from veery.numpy._creation import asarray, from_host_of, full
from veery.numpy._elementwise import jitted, run
from veery.numpy._logic import to_bool
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    as_positions,
    broadcast_arrays,
    broadcast_to,
    check_no_out,
    check_rank_promotion,
    ensure_arraylike,
    ensure_arraylikes,
    promote_dtypes,
    to_dtype,
    unwrap,
)
from veery.numpy._vectorize import vectorize

# where, select.


@jitted
def _where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    condition = to_bool(condition)
    x, y = promote_dtypes(x, y)
    return _select_broadcast(condition, x, y)


def _select_broadcast(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    shape = lax.broadcast_shapes(*(np.shape(v) for v in (condition, x, y)))
    if np.ndim(condition):
        condition = broadcast_to(condition, shape)
    return lax.select_n(condition, broadcast_to(y, shape), broadcast_to(x, shape))


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """x where the condition holds, else y. With the condition alone: the positions where it holds (see `nonzero`).

    Args:
        condition: array; not zero is true.
        x: values where it holds.
        y: values where not; all three broadcast.
        size: of the result of `where(condition)`.
        fill_value: for its missing elements.

    Raises:
        ValueError: just one of x and y is given, or size with both.

    >>> where(np.array([True, False]), np.array([1, 2]), 0)
    Array([1, 0], dtype=int32)
    """
    if x is None and y is None:
        condition = ensure_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    condition, x, y = ensure_arraylike("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value arguments cannot be used in three-term where function.")
    return _where(*map(unwrap, (condition, x, y)))


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """For each element the choice of the first condition that holds.

    Args:
        condlist: arrays of bools.
        choicelist: as many arrays of values.
        default: where no condition holds.

    Raises:
        ValueError: the lists are empty or differ in length.

    >>> x = np.arange(4)
    >>> select([x < 1, x > 2], [x, 10 * x], default=-1)
    Array([ 0, -1, -1, 30], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})")
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    *arrays, default = ensure_arraylikes("select", *condlist, *choicelist, default)
    return _select(tuple(arrays[: len(condlist)]), tuple(arrays[len(condlist) :]), default)


@jit
def _select(conditions: tuple[ArrayLike, ...], choices: tuple[ArrayLike, ...], default: ArrayLike) -> Array:
    *choices_, out = promote_dtypes(*choices, default)  # type: ignore[assignment]
    out = as_array(out)
    for condition, choice in zip(reversed(conditions), reversed(choices_)):
        out = _select_broadcast(to_bool(condition), choice, out)
    shape = lax.broadcast_shapes(*(np.shape(v) for v in (*conditions, *choices)), np.shape(default))
    return broadcast_to(out, shape)


_select._name = "select"


def choose(a: ArrayLike, choices: Array | Sequence[ArrayLike], out: None = None, mode: str = "raise") -> Array:
    """For each element the choice of that number.

    Args:
        a: integers.
        choices: arrays that broadcast with it.
        out: must be None.
        mode: for numbers out of range: "raise" (not while traced), "wrap" or "clip".

    Raises:
        ValueError: a number is out of range and mode is "raise".
        TypeError: a does not hold integers.

    >>> choose(np.array([1, 0]), [np.array([10, 20]), np.array([30, 40])])
    Array([30, 20], dtype=int32)
    """
    check_no_out("choose", out)
    a, *arrays = ensure_arraylikes("choose", a, *choices)
    a = asarray(a)
    if not is_kind(a, np.integer):
        raise ValueError(f"`a` array must be integer typed, got {a.dtype}")
    count = len(choices)
    if mode == "raise":
        values = known_values(
            a,
            "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use mode='wrap' or mode='clip' "
            "instead.",
        )
        if ((values < 0) | (values >= count)).any():
            raise ValueError("invalid entry in choice array")
    elif mode not in ("wrap", "clip"):
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    return _choose_among(a, tuple(arrays), wrap=mode == "wrap")


@jit(static_argnames=("wrap",))
def _choose_among(a: Array, choices: tuple[ArrayLike, ...], wrap: bool) -> Array:
    count = len(choices)
    a = as_positions(a)
    a = to_dtype(remainder(a, count) if wrap else clip(a, 0, count - 1), np.dtype(np.int32))
    a, *cases = broadcast_arrays(a, *promote_dtypes(*choices))
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        out = lax.select_n(lax.eq(a, np.int32(i)), out, case)
    return lax._convert.convert(out)


_choose_among._name = "choose"


def known_values(x: ArrayLike, message: str) -> np.ndarray:
    """The values of an array; ConcretizationTypeError with the message where it is traced."""
    if isinstance(x, Tracer):
        value = x.concrete_value()
        if value is None:
            raise ConcretizationTypeError(x, message)
        x = value
    return x.to_numpy() if isinstance(x, ArrayImpl) else np.asarray(x)


def piecewise(
    x: ArrayLike,
    condlist: Array | Sequence[ArrayLike],
    funclist: Sequence[ArrayLike | Callable[..., Array]],
    *args: Any,
    **kw: Any,
) -> Array:
    """For each element the function (or value) of the last condition that holds there.

    Args:
        x: array.
        condlist: bools, an array for each function, or one that holds for all elements.
        funclist: functions of scalars, or values; one more than conditions if there is a default (else 0).
        *args: further arguments of the functions.
        **kw: further keyword arguments.

    >>> x = np.arange(-2, 3)
    >>> piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: 10 * v])
    Array([ 2,  1,  0, 10, 20], dtype=int32)
    """
    x = ensure_arraylike("piecewise", x)
    x = asarray(x)
    conditions = [asarray(c) for c in condlist] if isinstance(condlist, (list, tuple)) else list(asarray(condlist))
    conditions = [c if c.dtype == np.bool_ else to_bool(c) for c in conditions]
    check_rank_promotion("piecewise", x, *conditions)
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        default, functions = functions[-1], functions[:-1]
    elif len(functions) == len(conditions):
        default = 0
    else:
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are "
            f"expected; got {len(functions)}"
        )

    chosen = [default, *functions]
    values = [None if callable(f) else f for f in chosen]
    return _piecewise(x, conditions, values, args, kw, functions=tuple(f if callable(f) else None for f in chosen))


@jit(static_argnames=("functions",))
def _piecewise(x: Array, conditions: Any, values: Any, args: Any, kw: Any, functions: tuple[Any, ...]) -> Array:
    def evaluate(f: Any, value: Any) -> Array:
        if f is not None:
            value = vectorize(lambda v: f(v, *args, **kw))(x)
        return broadcast_to(to_dtype(value, x.dtype), x.shape)

    out = evaluate(functions[0], values[0])
    for condition, f, value in zip(conditions, functions[1:], values[1:]):
        out = lax.select(broadcast_to(condition, x.shape), evaluate(f, value), out)
    return out


_piecewise._name = "piecewise"


# Positions.

_SIZE_MESSAGE = "The size argument of jnp.{} must be statically specified to use jnp.{} within JAX transformations."


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The positions of the elements that are not zero: an array for each dimension.

    Args:
        a: array of rank 1 or more.
        size: number of positions to return; needed while traced. Further ones are left out.
        fill_value: in place of missing positions: a number, or one for each dimension; 0 by default.

    Raises:
        ConcretizationTypeError: the array is traced and size not given.
        ValueError: the array has rank 0.

    >>> nonzero(np.array([0, 5, 0, 6]))
    (Array([1, 3], dtype=int32),)
    """
    a = ensure_arraylike("nonzero", a)
    a = unwrap(a)
    if np.ndim(a) == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() instead.")
    if isinstance(a, Tracer) and a.concrete_value() is None:
        if size is None:
            raise ConcretizationTypeError(a, _SIZE_MESSAGE.format("nonzero", "nonzero"))
        return _nonzero(a, _fill_values(fill_value, len(a.shape)), size=_static_size(size))
    return _host_nonzero(known_values(a, ""), a, size, fill_value)


def _static_size(size: Any) -> int:
    return concrete_int(size, "size argument of jnp.nonzero()")


def _fill_values(fill_value: Any, ndim: int) -> tuple[Any, ...]:
    if fill_value is None:
        return (0,) * ndim
    if isinstance(fill_value, tuple):
        if len(fill_value) != ndim or any(np.shape(v) for v in fill_value):
            raise ValueError(f"fill_value must be a scalar or a tuple of length {ndim}; got {fill_value}")
        return fill_value
    if np.shape(fill_value):
        raise ValueError(f"fill_value must be a scalar or a tuple of length {ndim}; got {fill_value}")
    return (fill_value,) * ndim


def _host_nonzero(a: np.ndarray, source: Any, size: int | None, fill_value: Any) -> tuple[Array, ...]:
    """Of known values, of a source: NumPy counts, so that no program depends on how many there are."""
    dtype = dtypes.default_int_dtype()
    found = [i.astype(dtype) for i in np.nonzero(a)]
    if size is None:
        return tuple(from_host_of(i, source) for i in found)
    size = _static_size(size)
    fills = _fill_values(fill_value, a.ndim)
    if any(isinstance(v, Tracer) for v in fills):
        return _nonzero(asarray(a), fills, size=size)
    out = []
    for positions, fill in zip(found, fills):
        full_ = np.full(size, np.asarray(fill).astype(dtype), dtype)
        full_[: min(size, len(positions))] = positions[:size]
        out.append(from_host_of(full_, source))
    return tuple(out)


@jit(static_argnames=("size",))
def _nonzero(a: Array, fills: tuple[Any, ...], size: int) -> tuple[Array, ...]:
    """The running count of what is not zero says where each position goes."""
    dtype = dtypes.default_int_dtype()
    shape, total = np.shape(a), math.prod(np.shape(a))
    if total == 0 or size == 0:
        return tuple(lax.broadcast_in_dim(to_dtype(f, dtype), (size,), ()) for f in fills)
    mask = lax.reshape(to_bool(a), (total,))
    count = lax.cumsum(lax.convert_element_type(mask, dtype), 0)
    # An element's place is its count less one; those that do not count go behind the others.
    place = lax.min(_choose(mask, lax.sub(count, dtype.type(1)), dtype.type(size)), dtype.type(size))
    zeros = full((size + 1,), 0, dtype)
    flat = lax.slice(zeros.at[place].set(lax.iota(dtype, total)), (0,), (size,))  # type: ignore[attr-defined]
    valid = lax.lt(lax.iota(dtype, size), lax.squeeze(lax.slice(count, (total - 1,), (total,)), (0,)))
    out = []
    for i, fill in enumerate(fills):
        stride, length = (asarray(n, dtype) for n in (math.prod(shape[i + 1 :]), shape[i]))
        position = lax.rem(lax.div(flat, stride), length)
        out.append(_choose(valid, position, to_dtype(fill, dtype)))
    return tuple(out)


_nonzero._name = "nonzero"


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions in the flattened array of the elements that are not zero (see `nonzero`).

    >>> flatnonzero(np.array([[0, 5], [6, 0]]))
    Array([1, 2], dtype=int32)
    """
    a = ensure_arraylike("flatnonzero", a)
    return nonzero(lax.reshape(unwrap(a), (np.size(a),)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The positions of the elements that are not zero, one a row (see `nonzero`).

    >>> argwhere(np.array([[0, 5], [6, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = ensure_arraylike("argwhere", a)
    a = unwrap(a)
    if not np.shape(a):
        rows = nonzero(lax.reshape(a, (1,)), size=size, fill_value=fill_value)[0]
        return full((rows.shape[0], 0), 0, rows.dtype)
    columns = nonzero(a, size=size, fill_value=fill_value)
    if all(isinstance(c, ArrayImpl) for c in columns) and not isinstance(a, Tracer):
        return from_host_of(np.stack([c.to_numpy() for c in columns], 1), *columns)
    return lax.concatenate([lax.expand_dims(c, (1,)) for c in columns], 1)


# Taking.


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The elements at indices along an axis (None: of the flattened array).

    Args:
        a: array.
        indices: integers.
        axis: along which to take.
        out: must be None.
        mode: out of bounds: "fill" (the default) gives fill_value, "clip" the nearest element, "wrap" goes round.
        unique_indices: promise that no index occurs twice.
        indices_are_sorted: promise that the indices ascend.
        fill_value: NaN, or the least integer, by default.

    Raises:
        NotImplementedError: mode is "raise", or out is given.

    >>> take(np.array([10, 20, 30]), np.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    check_no_out("take", out)
    a, indices = ensure_arraylike("take", a, indices)
    a, indices = asarray(a), unwrap(indices)
    if not is_kind(indices, np.integer):
        raise ValueError("indices must have an integer type")
    axis = None if axis is None else canonicalize_axis(axis, a.ndim)
    if np.size(indices) and not (a.size if axis is None else a.shape[axis]):
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    if mode not in (None, "fill", "wrap", "clip", "promise_in_bounds", "drop"):
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    promises = {"unique_indices": bool(unique_indices), "indices_are_sorted": bool(indices_are_sorted)}
    if fill_value is not None and not isinstance(fill_value, (int, float, complex)):  # an array
        return _take(a, indices, axis=axis, mode=mode, fill_value=fill_value, **promises)
    return run(_take, a, indices, axis=axis, mode=mode, fill_value=fill_value, **promises)


def _take(
    a: Array,
    indices: ArrayLike,
    *,
    axis: int | None,
    mode: str | None,
    unique_indices: bool,
    indices_are_sorted: bool,
    fill_value: Any,
) -> Array:
    if axis is None:
        a, axis = lax.reshape(a, (a.size,)), 0
    if mode == "wrap":
        indices, mode = remainder(as_positions(indices), a.shape[axis]), "clip"
    return (
        asarray(a)
        .at[(slice(None),) * axis + (asarray(indices),)]
        .get(
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode or "fill",
            fill_value=fill_value,
            # "clip" takes negative indices for small ones, as NumPy does
            wrap_negative_indices=mode != "clip",
        )
    )


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """The elements at indices along an axis, for each place of the other axes its own.

    Args:
        arr: array.
        indices: integers of the same rank; the other dimensions broadcast.
        axis: along which to take; None for the flattened array.
        mode: out of bounds: "fill" (the default) gives fill_value, "clip" the nearest element.
        fill_value: NaN, or the least integer, by default.
        wrap_negative_indices: whether negative indices count from the end (the default).

    >>> take_along_axis(np.array([[10, 20], [30, 40]]), np.array([[1], [0]]), axis=1)
    Array([[20],
           [30]], dtype=int32)
    """
    arr, indices = ensure_arraylike("take_along_axis", arr, indices)
    x, where_ = asarray(arr), asarray(indices)
    if not is_kind(where_, np.integer):
        raise TypeError(f"take_along_axis indices must be of integer type, got {where_.dtype}")
    if axis is None:
        if where_.ndim != 1:
            raise ValueError(f"take_along_axis indices must be 1D if axis=None, got shape {where_.shape}")
        x, axis = lax.reshape(x, (x.size,)), 0
    if where_.ndim != x.ndim:
        raise ValueError(f"indices and arr must have the same number of dimensions; {where_.ndim} vs. {x.ndim}")
    axis = canonicalize_axis(axis, x.ndim)
    index = _along(x.shape, where_.shape, axis, where_)
    wrap = True if wrap_negative_indices is None else wrap_negative_indices
    # A dimension that broadcasts in the array is read at 0 throughout.
    place = explicit.along(x, where_.shape, axis)
    return x.at[index].get(mode=mode or "fill", fill_value=fill_value, wrap_negative_indices=wrap, out_sharding=place)


def _along(shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int, indices: Array) -> tuple[Any, ...]:
    """The index arrays with which `x[...]` takes or puts along an axis."""
    ndim = len(shape)
    others = [i for i in range(ndim) if i != axis]
    lax.broadcast_shapes(*([s[i] for i in others] for s in (shape, index_shape)))
    entries: list[Any] = []
    for i in range(ndim):
        if i == axis:
            entries.append(indices)
        elif shape[i] == 1:
            entries.append(np.zeros((1,) * ndim, np.int32))
        else:
            place = [-1 if j == i else 1 for j in range(i, ndim)]
            symbolic = is_symbolic_dim(shape[i])
            numbers: Any = lax.iota(np.int32, shape[i]) if symbolic else np.arange(shape[i], dtype=np.int32)
            entries.append(numbers.reshape(place))
    return tuple(entries)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices along an axis (None: the elements of the flattened array) where a condition holds.

    Args:
        condition: bools, of rank 1.
        a: array.
        axis: along which to select.
        size: of the result along the axis, no more than there are slices; needed while traced.
        fill_value: for missing slices.
        out: must be None.

    Raises:
        ValueError: the condition is not of rank 1, it holds out of bounds and size is None, or size is out of bounds.

    >>> compress(np.array([False, True]), np.array([[1, 2], [3, 4]]), axis=1)
    Array([[2],
           [4]], dtype=int32)
    """
    check_no_out("compress", out)
    condition, a, fill_value = ensure_arraylike("compress", condition, a, fill_value)
    mask, x = asarray(condition).astype(bool), asarray(a)
    if mask.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    axis = canonicalize_axis(axis, x.ndim)
    if mask.shape[0] > x.shape[axis]:
        extra = mask[x.shape[axis] :]
        if size is None and not isinstance(extra, Tracer) and bool(extra.any()):
            raise ValueError("condition contains entries that are out of bounds")
        mask = mask[: x.shape[axis]]
    if size is not None and not 0 <= size <= mask.shape[0]:
        raise ValueError(
            f"size must be positive and not greater than the size of the array axis; got size={size} for "
            f"a.shape[axis]={mask.shape[0]}"
        )
    (positions,) = nonzero(mask, size=size, fill_value=x.shape[axis])
    index = (slice(None),) * axis + (positions,)
    return x.at[index].get() if size is None else _filled_at(x, index, positions, axis, fill_value)


def _filled_at(x: Array, index: tuple, positions: Array, axis: int, fill_value: ArrayLike) -> Array:
    taken = x.at[index].get(mode="clip")  # type: ignore[attr-defined]
    shape = [1] * taken.ndim
    shape[axis] = positions.shape[0]
    valid = lax.reshape(lax.lt(positions, np.asarray(x.shape[axis]).astype(positions.dtype)[()]), shape)
    return _choose(broadcast_to(valid, taken.shape), taken, to_dtype(fill_value, taken.dtype))


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements where a condition holds (see `compress`).

    >>> extract(np.array([True, False, True]), np.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    condition, arr, fill_value = ensure_arraylike("extract", condition, arr, fill_value)
    mask = asarray(condition)
    return compress(lax.reshape(mask, (mask.size,)), arr, size=size, fill_value=fill_value)


# Putting: copies with changed elements, since arrays are immutable.


def _check_not_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
            "Pass inplace=False to instead return an updated array."
        )


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """A copy of an array with elements replaced, by their positions in the flattened array.

    Args:
        a: array.
        ind: positions.
        v: values, repeated as needed.
        mode: out of bounds: None or "clip" replace the nearest element, "wrap" goes round.
        inplace: must be False.

    >>> put(np.array([1, 2, 3]), np.array([0, 2]), 9, inplace=False)
    Array([9, 2, 9], dtype=int32)
    """
    _check_not_inplace("put", inplace)
    a, ind, v = ensure_arraylike("put", a, ind, v)
    x, positions, values = asarray(a), asarray(ind), asarray(v)
    if not x.size or not positions.size or not values.size:
        return x
    positions = lax.reshape(positions, (positions.size,))
    values = _repeated(values, positions.size)
    if mode is None:
        mode = "clip"
    elif mode == "clip":
        positions = lax.max(positions, lax.full_like(positions, 0))  # which do not count from the end
    elif mode == "wrap":
        positions, mode = remainder(as_positions(positions), x.size), "drop"
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    return lax.reshape(lax.reshape(x, (x.size,)).at[positions].set(values, mode=mode), x.shape)


def _repeated(values: Array, size: int) -> Array:
    """As many values, in turn."""
    flat = lax.reshape(values, (values.size,))
    times = -(-size // values.size)
    if times > 1:
        flat = lax.reshape(lax.broadcast_in_dim(flat, (times, values.size), (1,)), (times * values.size,))
    return lax.slice(flat, (0,), (size,)) if flat.shape[0] != size else flat


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """A copy of an array with elements along an axis replaced, for each place of the other axes its own.

    Args:
        arr: array.
        indices: integers of the same rank; the other dimensions broadcast.
        values: broadcast to the shape of the indices.
        axis: along which to put; None for the flattened array.
        inplace: must be False.
        mode: out of bounds: "drop" (the default) or "clip".

    >>> put_along_axis(np.zeros((2, 2), int), np.array([[1], [0]]), 5, axis=1, inplace=False)
    Array([[0, 5],
           [5, 0]], dtype=int32)
    """
    _check_not_inplace("put_along_axis", inplace)
    arr, indices, values = ensure_arraylike("put_along_axis", arr, indices, values)
    x, where_ = asarray(arr), asarray(indices)
    if not is_kind(where_, np.integer):
        raise TypeError(f"put_along_axis indices must be of integer type, got {where_.dtype}")
    shape = x.shape
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    if where_.ndim != x.ndim:
        raise ValueError(
            f"put_along_axis arguments 'arr' and 'indices' must have same ndim. Got {x.ndim} and {where_.ndim}."
        )
    axis = canonicalize_axis(axis, x.ndim)
    index = _along(x.shape, where_.shape, axis, where_)
    return lax.reshape(x.at[index].set(values, mode=mode), shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy of an array with the elements where a mask holds replaced by values in turn.

    >>> place(np.arange(4), np.array([True, False, True, True]), np.array([7, 8]), inplace=False)
    Array([7, 1, 8, 7], dtype=int32)
    """
    _check_not_inplace("place", inplace)
    arr, mask, vals = ensure_arraylike("place", arr, mask, vals)
    x, where_, values = asarray(arr), asarray(mask), asarray(vals)
    if where_.size != x.size:
        raise ValueError("place: arr and mask must be the same size")
    if not values.size:
        raise ValueError("Cannot place values from an empty array")
    if not x.size:
        return x
    (positions,) = nonzero(lax.reshape(to_bool(where_), (x.size,)), size=x.size, fill_value=x.size)
    values = _repeated(values, x.size)
    return lax.reshape(lax.reshape(x, (x.size,)).at[positions].set(values, mode="drop"), x.shape)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A copy of an array with its diagonal replaced by values in turn.

    Args:
        a: array of rank 2 or more; of rank 3 or more only with equal dimensions.
        val: values.
        wrap: must be False.
        inplace: must be False.

    >>> fill_diagonal(np.zeros((2, 2), int), 5, inplace=False)
    Array([[5, 0],
           [0, 5]], dtype=int32)
    """
    if inplace:
        raise NotImplementedError("JAX arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a, val = ensure_arraylike("fill_diagonal", a, val)
    x, values = asarray(a), asarray(val)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if x.ndim > 2 and any(n != x.shape[0] for n in x.shape):
        raise ValueError("All dimensions of input must be of equal length")
    n = min(x.shape)
    diagonal = (np.arange(n),) * x.ndim
    return x.at[diagonal].set(values if values.ndim == 0 else _repeated(values, n))
