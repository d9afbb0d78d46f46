"""Reductions along axes: sums, products, extrema, logical and positional ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery import lax
from veery._core import dtypes
from veery._core.shapes import as_axes, canonicalize_axis, concrete_int
from veery.numpy import _arithmetic, _logic
from veery.numpy._arithmetic import _dtype, choose, is_kind
from veery.numpy._creation import asarray
from veery.numpy._elementwise import run
from veery.numpy._logic import to_bool
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    check_no_out,
    constant,
    ensure_arraylike,
    to_dtype,
    unwrap,
)

Axis = None | int | Sequence[int]


class Monoid(NamedTuple):
    """An associative operation, by its reduction.

    Attributes:
        name: of the public function.
        reduce: the reduction of lax, and that of bools.
        combine: of two results.
        identity: dtype -> the element that changes nothing; None where only empty slices lack a result.
        has_identity: whether an empty slice has a result.
        promotes: whether small integers become default ones.
        upcasts: whether 16-bit floats are reduced in 32 bits.
    """

    name: str
    reduce: Callable[..., Array]
    reduce_bools: Callable[..., Array]
    combine: Callable[[Array, Array], Array]
    identity: Callable[[Any], Any]
    has_identity: bool
    promotes: bool = False
    upcasts: bool = False


def least(dtype: Any) -> Any:
    """The least value of a dtype."""
    if dtype == np.bool_:
        return False
    if dtypes.issubdtype(dtype, np.inexact):
        return (
            -np.inf
            if dtypes.issubdtype(dtype, np.complexfloating) or dtypes.supports_inf(dtype)
            else float(dtypes.finfo(dtype).min)
        )
    return int(dtypes.iinfo(dtype).min)


def greatest(dtype: Any) -> Any:
    """The greatest value of a dtype."""
    if dtype == np.bool_:
        return True
    if dtypes.issubdtype(dtype, np.inexact):
        return (
            np.inf
            if dtypes.issubdtype(dtype, np.complexfloating) or dtypes.supports_inf(dtype)
            else float(dtypes.finfo(dtype).max)
        )
    return int(dtypes.iinfo(dtype).max)


SUM = Monoid(
    "sum", lax.reduce_sum, lax.reduce_or, lambda x, y: _arithmetic.add(x, y), lambda d: 0, True, True, upcasts=True
)
PROD = Monoid(
    "prod", lax.reduce_prod, lax.reduce_and, lambda x, y: _arithmetic.multiply(x, y), lambda d: 1, True, True, True
)
MAX = Monoid("max", lax.reduce_max, lax.reduce_or, lambda x, y: _arithmetic.maximum(x, y), least, False)
MIN = Monoid("min", lax.reduce_min, lax.reduce_and, lambda x, y: _arithmetic.minimum(x, y), greatest, False)


def canonical_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, counted from the front; all of them for None.

    Raises:
        ValueError: an axis is out of bounds or occurs twice.
    """
    if axis is None:
        return tuple(range(ndim))
    known = [concrete_int(a, "The axis argument must be known statically.") for a in as_axes(axis)]
    result = tuple(canonicalize_axis(a, ndim) for a in known)
    if len(set(result)) != len(result):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return result


def check_mask(name: str, where: ArrayLike | None) -> ArrayLike | None:
    """The mask of the elements that count.

    Raises:
        ValueError: it is not of bools.
    """
    if where is None:
        return None
    where = ensure_arraylike(name, where)
    if _dtype(where) != np.bool_:
        raise ValueError(f"jnp.{name}: where must be None or a boolean array; got where.dtype={_dtype(where)!r}.")
    return where


def reduce(
    monoid: Monoid,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    out: None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote_integers: bool = True,
) -> Array:
    """A reduction with all of NumPy's arguments."""
    name = monoid.name
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    where = check_mask(name, where)
    if where is not None and initial is None and not monoid.has_identity:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where mask one has to specify 'initial'"
        )
    if initial is not None and np.ndim(initial):
        raise ValueError(f"initial value must be a scalar. Got array of shape {np.shape(initial)}")
    a = unwrap(a)
    axes = canonical_axes(axis, np.ndim(a))
    if initial is None and not monoid.has_identity and not math.prod(np.shape(a)[i] for i in axes):
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    result = _result_dtype(monoid, _dtype(a), dtype, promote_integers)
    extras = [x for x in (initial, where) if x is not None]
    has = (initial is not None, where is not None)
    return run(_reduce, a, *extras, monoid=monoid, axes=axes, dtype=result, keepdims=bool(keepdims), has=has)


def _result_dtype(monoid: Monoid, dtype: Any, asked: Any, promote_integers: bool) -> Any:
    if asked is not None:
        return dtypes.check_and_canonicalize_user_dtype(asked, monoid.name)
    if monoid.promotes and (dtype == np.bool_ or dtypes.issubdtype(dtype, np.integer)):
        return promoted_integer(dtype) if promote_integers else dtypes.to_numeric_dtype(dtype)
    return dtype


def promoted_integer(dtype: Any) -> Any:
    """The default integer of the dtype's signedness, if it is not narrower."""
    signed = dtype == np.bool_ or dtypes.issubdtype(dtype, np.signedinteger)
    default = dtypes.default_int_dtype() if signed else dtypes.default_uint_dtype()
    return default if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(default) or dtype == np.bool_ else dtype


def _reduce(
    a: Array, *extras: Array, monoid: Monoid, axes: tuple[int, ...], dtype: Any, keepdims: bool, has: tuple[bool, bool]
) -> Array:
    half = monoid.upcasts and dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize_bits(dtype) < 32
    computed = np.dtype(np.float32) if half else dtype
    x = to_dtype(a, computed)
    if has[1]:
        x = choose(extras[-1], x, constant(monoid.identity(computed), computed))
    reducer = monoid.reduce_bools if computed == np.bool_ else monoid.reduce
    out = reducer(x, axes) if axes else lax._convert.convert(x)
    if has[0]:
        out = monoid.combine(to_dtype(extras[0], computed), out)
    out = to_dtype(out, dtype)
    return expand(out, axes, np.ndim(x)) if keepdims else out


def expand(x: Array, axes: Sequence[int], ndim: int) -> Array:
    """A reduction's result with the reduced dimensions back, of size 1."""
    return lax.expand_dims(x, tuple(sorted(axes))) if axes and np.ndim(x) != ndim else x


# Sums, products, extrema.


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum along axes.

    Args:
        a: array.
        axis: an axis, several, or None for all.
        dtype: of the computation and the result.
        out: must be None.
        keepdims: whether the axes stay, with size 1.
        initial: added to the result.
        where: mask of the elements that count.
        promote_integers: whether small integers are summed in the default integer dtype.

    >>> sum(np.arange(6).reshape(2, 3), axis=0)
    Array([3, 5, 7], dtype=int32)
    """
    return reduce(SUM, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product along axes (see `sum`).

    >>> prod(np.array([2, 3, 4]))
    Array(24, dtype=int32)
    """
    return reduce(PROD, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The maximum along axes; NaN where there is one (see `sum`).

    >>> max(np.array([[1, 5], [7, 2]]), axis=1)
    Array([5, 7], dtype=int32)
    """
    return reduce(MAX, a, axis, None, out, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The minimum along axes; NaN where there is one (see `sum`).

    >>> min(np.array([[1, 5], [7, 2]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    return reduce(MIN, a, axis, None, out, keepdims, initial, where)


def amax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Another name of `max`."""
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Another name of `min`."""
    return min(a, axis, out, keepdims, initial, where)


def _ptp(a: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    x = to_dtype(a, _dtype(a))
    return expand(lax.sub(lax.reduce_max(x, axes), lax.reduce_min(x, axes)), axes if keepdims else (), np.ndim(a))


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The maximum minus the minimum along axes.

    >>> ptp(np.array([1, 5, 3]))
    Array(4, dtype=int32)
    """
    a = ensure_arraylike("ptp", a)
    check_no_out("ptp", out)
    a = unwrap(a)
    axes = canonical_axes(axis, np.ndim(a))
    if not math.prod(np.shape(a)[i] for i in axes):
        raise ValueError("zero-size array to reduction operation max which has no identity")
    return run(_ptp, a, axes=axes, keepdims=bool(keepdims))


# Logic.


def _logical(name: str, a: ArrayLike, axis: Axis, out: None, keepdims: bool, where: ArrayLike | None) -> Array:
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    where = check_mask(name, where)
    a = unwrap(a)
    axes = canonical_axes(axis, np.ndim(a))
    masks = [] if where is None else [where]
    return run(_reduce_bools, a, *masks, is_all=name == "all", axes=axes, keepdims=bool(keepdims))


def _reduce_bools(a: Array, *mask: Array, is_all: bool, axes: tuple[int, ...], keepdims: bool) -> Array:
    x = to_bool(a)
    if mask:
        x = choose(mask[0], x, np.bool_(is_all))
    out = (lax.reduce_and if is_all else lax.reduce_or)(x, axes)
    return expand(out, axes if keepdims else (), np.ndim(x))


def all(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Whether all elements along axes are not zero (see `sum`).

    >>> all(np.array([[1, 0], [1, 1]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return _logical("all", a, axis, out, keepdims, where)


def any(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Whether any element along axes is not zero (see `sum`).

    >>> any(np.array([[1, 0], [0, 0]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _logical("any", a, axis, out, keepdims, where)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements along axes that are not zero.

    >>> count_nonzero(np.array([0, 3, 0, 4]))
    Array(2, dtype=int32)
    """
    a = ensure_arraylike("count_nonzero", a)
    a = unwrap(a)
    return run(_count_nonzero, a, axes=canonical_axes(axis, np.ndim(a)), keepdims=bool(keepdims))


def _count_nonzero(a: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    out = lax.reduce_sum(lax.convert_element_type(to_bool(a), int), axes)
    return expand(out, axes if keepdims else (), np.ndim(a))


# Positions.


def _arg_extreme(name: str, a: ArrayLike, axis: int | None, out: None, keepdims: bool | None, nan_aware: bool) -> Array:
    a = ensure_arraylike(name, a)
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")
    a = unwrap(a)
    if axis is not None:
        axis = canonicalize_axis(axis, np.ndim(a)) if np.ndim(a) or axis not in (0, -1) else None
    if not (np.size(a) if axis is None else np.shape(a)[axis]):
        raise ValueError(f"attempt to get {name} of an empty sequence")
    is_max = name.endswith("argmax")
    return run(_find_extreme, a, is_max=is_max, axis=axis, keepdims=bool(keepdims), nan_aware=nan_aware)


def _find_extreme(a: Array, *, is_max: bool, axis: int | None, keepdims: bool, nan_aware: bool) -> Array:
    shape = np.shape(a)
    x = to_dtype(a, _dtype(a))
    if axis is None:
        x = lax.reshape(x, (np.size(a),))
    along = axis or 0
    find = lax.argmax if is_max else lax.argmin
    if nan_aware and is_kind(x, np.inexact):
        is_nan = _logic.isnan(x)
        out = find(choose(is_nan, (least if is_max else greatest)(_dtype(x)), x), along, dtypes.default_int_dtype())
        out = choose(lax.reduce_and(is_nan, (along,)), -1, out)
    else:
        out = find(x, along, dtypes.default_int_dtype())
    if not keepdims:
        return out
    return lax.reshape(out, (1,) * len(shape)) if axis is None else lax.expand_dims(out, (axis,))


def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the first maximum along an axis (None: in the flattened array); of a NaN where there is one.

    >>> argmax(np.array([[1, 5], [7, 2]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    return _arg_extreme("argmax", a, axis, out, keepdims, False)


def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the first minimum along an axis (None: in the flattened array); of a NaN where there is one.

    >>> argmin(np.array([[1, 5], [7, 2]]), axis=1)
    Array([0, 1], dtype=int32)
    """
    return _arg_extreme("argmin", a, axis, out, keepdims, False)


def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the first maximum among numbers along an axis; -1 where all are NaN.

    >>> nanargmax(np.array([np.nan, 1.0, 3.0]))
    Array(2, dtype=int32)
    """
    return _arg_extreme("nanargmax", a, axis, out, keepdims, True)


def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The position of the first minimum among numbers along an axis; -1 where all are NaN.

    >>> nanargmin(np.array([np.nan, 1.0, 3.0]))
    Array(1, dtype=int32)
    """
    return _arg_extreme("nanargmin", a, axis, out, keepdims, True)


# Reductions that leave NaN out.


def _without_nan(a: Array, *, monoid: Monoid) -> Array:
    return choose(_logic.isnan(a), constant(monoid.identity(_dtype(a)), _dtype(a)), a)


def _nan_reduce(monoid: Monoid, name: str, a: ArrayLike, axis: Axis, dtype: Any, out: None, *rest: Any) -> Array:
    """A reduction without NaN; `rest` is what `reduce` takes behind `out`: keepdims, initial, where."""
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    check_mask(name, rest[-1])
    a = unwrap(a)
    if not is_kind(a, np.inexact):
        return reduce(monoid, a, axis, dtype, None, *rest)
    return reduce(monoid, run(_without_nan, asarray(a), monoid=monoid), axis, dtype, None, *rest)


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum along axes, NaN counting as 0 (see `sum`).

    >>> nansum(np.array([1.0, np.nan, 2.0]))
    Array(3., dtype=float32)
    """
    return _nan_reduce(SUM, "nansum", a, axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product along axes, NaN counting as 1 (see `sum`).

    >>> nanprod(np.array([3.0, np.nan, 2.0]))
    Array(6., dtype=float32)
    """
    return _nan_reduce(PROD, "nanprod", a, axis, dtype, out, keepdims, initial, where)


def _nan_extreme(monoid: Monoid, name: str, a: ArrayLike, axis: Axis, out: None, keepdims: bool, *rest: Any) -> Array:
    result = _nan_reduce(monoid, name, a, axis, None, out, keepdims, *rest)
    a = unwrap(a)
    if not is_kind(a, np.inexact) or rest[0] is not None:
        return result
    return run(_nan_where_all, asarray(a), result, axes=canonical_axes(axis, np.ndim(a)), keepdims=bool(keepdims))


def _nan_where_all(a: Array, result: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    nothing = expand(lax.reduce_and(_logic.isnan(a), axes), axes if keepdims else (), np.ndim(a))
    return choose(nothing, np.nan, result)


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The maximum among numbers along axes; NaN where there are none (see `sum`).

    >>> nanmax(np.array([1.0, np.nan, 2.0]))
    Array(2., dtype=float32)
    """
    return _nan_extreme(MAX, "nanmax", a, axis, out, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The minimum among numbers along axes; NaN where there are none (see `sum`).

    >>> nanmin(np.array([1.0, np.nan, 2.0]))
    Array(1., dtype=float32)
    """
    return _nan_extreme(MIN, "nanmin", a, axis, out, keepdims, initial, where)


# The methods of ufuncs.


def _as_method(monoid: Monoid) -> Callable[..., Array]:
    def method(
        a: ArrayLike, axis: Axis, dtype: Any, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
    ) -> Array:
        return reduce(monoid, a, axis, dtype, None, keepdims, initial, where)

    return method


def _bools_method(name: str) -> Callable[..., Array]:
    def method(
        a: ArrayLike, axis: Axis, dtype: Any, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
    ) -> Array:
        out = _logical(name, a, axis, None, keepdims, where)
        if initial is not None:
            out = (_logic.logical_and if name == "all" else _logic.logical_or)(out, initial)
        return out if dtype is None else out.astype(dtype)  # type: ignore[attr-defined]

    return method


for _ufunc, _monoid in (
    (_arithmetic.add, SUM),
    (_arithmetic.multiply, PROD),
    (_arithmetic.maximum, MAX),
    (_arithmetic.minimum, MIN),
):
    _ufunc._own["reduce"] = _as_method(_monoid)
_logic.logical_and._own["reduce"] = _bools_method("all")
_logic.logical_or._own["reduce"] = _bools_method("any")
for _ufunc, _name in (
    (_arithmetic.add, "add"),
    (_arithmetic.multiply, "multiply"),
    (_arithmetic.maximum, "max"),
    (_arithmetic.minimum, "min"),
    (_arithmetic.subtract, "subtract"),
):
    _ufunc._own["at"] = lambda a, indices, b, _name=_name: getattr(asarray(a).at[indices], _name)(b)  # type: ignore[misc,attr-defined]
