"""Running sums and products along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.shapes import canonicalize_axis
from veery.numpy import _arithmetic, _logic
from veery.numpy._arithmetic import _dtype, choose, is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, check_no_out, ensure_arraylike, to_dtype
from veery.numpy._reductions import promoted_integer


def _cumulative(
    name: str, a: ArrayLike, axis: int | None, dtype: Any, out: None, fill_nan: bool = False, promote: bool = False
) -> Array:
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    axis = None if axis is None else canonicalize_axis(axis, max(np.ndim(a), 1))
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    return _PROGRAMS[name](a, axis=axis, dtype=dtype, fill_nan=fill_nan, promote=promote)


def _program(name: str, is_sum: bool) -> Any:
    def running(a: ArrayLike, axis: int | None, dtype: Any, fill_nan: bool, promote: bool) -> Array:
        x = a
        if fill_nan and is_kind(x, np.inexact):
            x = choose(_logic.isnan(x), 0 if is_sum else 1, x)
        if axis is None or np.ndim(x) == 0:
            x, axis = lax.reshape(x, (np.size(x),)), 0
        result = dtype
        if result is None:
            result = promoted_integer(_dtype(x)) if promote and not is_kind(x, np.inexact) else _dtype(x)
            result = dtypes.default_int_dtype() if result == np.bool_ else result
        if result == np.bool_:
            x, result = _logic.to_bool(x), np.dtype(np.int32)
        x = to_dtype(x, result)
        x = (lax.cumsum if is_sum else lax.cumprod)(x, axis)
        return _logic.to_bool(x) if dtype == np.bool_ else x

    running.__name__ = name
    return jit(running, static_argnames=("axis", "dtype", "fill_nan", "promote"))


_PROGRAMS = {
    name: _program(name, name.endswith("sum"))
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod")
}


def cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The running sum along an axis (None: of the flattened array).

    Args:
        a: array.
        axis: along which to sum.
        dtype: of the computation and the result.
        out: must be None.

    >>> cumsum(np.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulative("cumsum", a, axis, dtype, out)


def cumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The running product along an axis (see `cumsum`).

    >>> cumprod(np.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _cumulative("cumprod", a, axis, dtype, out)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The running sum along an axis, NaN counting as 0 (see `cumsum`).

    >>> nancumsum(np.array([1.0, np.nan, 3.0]))
    Array([1., 1., 4.], dtype=float32)
    """
    return _cumulative("nancumsum", a, axis, dtype, out, fill_nan=True)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The running product along an axis, NaN counting as 1 (see `cumsum`).

    >>> nancumprod(np.array([2.0, np.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _cumulative("nancumprod", a, axis, dtype, out, fill_nan=True)


def _with_initial(
    name: str, x: ArrayLike, axis: int | None, dtype: Any, include_initial: bool, first: int, what: str, promote: bool
) -> Array:
    x = ensure_arraylike(name, x)
    if np.ndim(x) == 0:
        raise ValueError(
            f"The input must be non-scalar to take a cumulative {what}, however a scalar value or scalar array was "
            "given."
        )
    if axis is None:
        axis = 0
        if np.ndim(x) > 1:
            raise ValueError(
                f"The input array has rank {np.ndim(x)}, however axis was not set to an explicit value. The axis "
                "argument is only optional for one-dimensional arrays."
            )
    axis = canonicalize_axis(axis, np.ndim(x))
    out = _cumulative(name, x, axis, dtype, None, promote=promote)
    if not include_initial:
        return out
    shape = [1 if i == axis else n for i, n in enumerate(out.shape)]
    return lax.concatenate([lax.full(shape, first, out.dtype), out], axis)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """The running sum along an axis, small integers in the default dtype.

    Args:
        x: array of rank 1 or more.
        axis: along which to sum; may be left out for rank 1.
        dtype: of the computation and the result.
        include_initial: whether a 0 comes first.

    >>> cumulative_sum(np.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _with_initial("cumulative_sum", x, axis, dtype, include_initial, 0, "sum", True)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """The running product along an axis (see `cumulative_sum`), in the dtype of x.

    >>> cumulative_prod(np.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _with_initial("cumulative_prod", x, axis, dtype, include_initial, 1, "product", False)


_arithmetic.add._own["accumulate"] = lambda a, axis, dtype: cumsum(a, axis, dtype)
_arithmetic.multiply._own["accumulate"] = lambda a, axis, dtype: cumprod(a, axis, dtype)


def _accumulate_truth(ufunc: Any) -> Any:
    def accumulate(a: ArrayLike, axis: int, dtype: Any) -> Array:
        a = ensure_arraylike(f"{ufunc.__name__}.accumulate", a)
        return run(_truth_by_scan, a, ufunc=ufunc, axis=axis)

    return accumulate


def _truth_by_scan(a: ArrayLike, *, ufunc: Any, axis: int) -> Array:
    return ufunc._accumulate_by_scan(_logic.to_bool(a), axis=axis, dtype=None)


for _ufunc in (_logic.logical_and, _logic.logical_or, _logic.logical_xor):
    _ufunc._own["accumulate"] = _accumulate_truth(_ufunc)
