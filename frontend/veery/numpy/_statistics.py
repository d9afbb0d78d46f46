"""Means, variances and averages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax
from veery._core import dtypes
from veery.numpy._elementwise import run
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    check_arraylike,
    check_no_out,
    to_dtype,
    unwrap,
)
from veery.numpy._reductions import Axis, canonical_axes, expand


def _computation_dtype(dtype: Any) -> Any:
    """The dtype that sums are kept in: 16-bit floats are added in 32 bits."""
    return np.dtype(np.float32) if dtype in (np.float16, dtypes.bfloat16) else dtype


def _result_dtype(a: ArrayLike, dtype: Any) -> Any:
    if dtype is None:
        return dtypes.to_inexact_dtype(dtypes.dtype_of(a))
    return dtypes.check_and_canonicalize_user_dtype(dtype, "mean")


def _count(a: Array, mask: tuple[Array, ...], axes: tuple[int, ...], dtype: Any) -> Any:
    """How many elements each result is made of: a number, or an array where there is a mask."""
    if not mask:
        return math.prod(a.shape[i] for i in axes)
    return lax.reduce_sum(to_dtype(broadcast_to(mask[0], a.shape), dtype), axes)


def _masked_sum(x: Array, mask: tuple[Array, ...], axes: tuple[int, ...]) -> Array:
    if mask:
        x = lax.select(broadcast_to(mask[0], x.shape), x, lax.full_like(x, 0))
    return lax.reduce_sum(x, axes)


def _mean(a: Array, *mask: Array, axes: tuple[int, ...], dtype: Any, keepdims: bool) -> Array:
    work = _computation_dtype(dtype)
    total = _masked_sum(to_dtype(a, work), mask, axes)
    result = to_dtype(lax.div(total, _as(total, _count(a, mask, axes, work))), dtype)
    return expand(result, axes, a.ndim) if keepdims else result


def _as(like: Array, count: Any) -> Array:
    """A count in the dtype and shape of an array."""
    return count if isinstance(count, type(like)) and count.dtype == like.dtype else lax.full_like(like, count)


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean along axes.

    Args:
        a: array.
        axis: axis or axes to average over; None for all.
        dtype: of the result; by default that of `a`, the default float for integers.
        out: must be None.
        keepdims: whether the axes stay, with size 1.
        where: bool array; elements that count.

    >>> import veery.numpy as jnp
    >>> jnp.mean(jnp.array([[1, 2], [3, 5]]), axis=0).tolist()
    [2.0, 3.5]
    """
    check_arraylike("mean", a)
    check_no_out("mean", out)
    a = unwrap(a)
    axes = canonical_axes(axis, np.ndim(a))
    mask = () if where is None else (where,)
    return run(_mean, a, *mask, axes=axes, dtype=_result_dtype(a, dtype), keepdims=bool(keepdims))


def _var(
    a: Array,
    *extras: Array,
    has: tuple[bool, bool],
    axes: tuple[int, ...],
    dtype: Any,
    ddof: float,
    keepdims: bool,
    root: bool,
) -> Array:
    work = _computation_dtype(dtypes.to_inexact_dtype(dtypes.dtype_of(a)))
    x = to_dtype(a, work)
    mask = extras[-1:] if has[1] else ()
    average = to_dtype(extras[0], work) if has[0] else _mean(x, *mask, axes=axes, dtype=work, keepdims=True)
    centred = lax.sub(x, broadcast_to(average, x.shape))
    if dtypes.issubdtype(work, np.complexfloating):
        squares = lax.real(lax.mul(centred, lax.conj(centred)))
    else:
        squares = lax.mul(centred, centred)
    count = _count(a, mask, axes, squares.dtype)
    total = _masked_sum(squares, mask, axes)
    divisor = lax.sub(_as(total, count), lax.full_like(total, ddof))
    positive = lax.gt(divisor, lax.full_like(divisor, 0))
    safe = lax.select(positive, divisor, lax.full_like(divisor, 1))
    result = lax.select(positive, lax.div(total, safe), lax.full_like(total, np.nan))
    result = to_dtype(lax.sqrt(result) if root else result, dtype)
    return expand(result, axes, a.ndim) if keepdims else result


def _spread(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    out: None,
    ddof: float,
    keepdims: bool,
    where: ArrayLike | None,
    mean: ArrayLike | None,
    correction: float | None,
) -> Array:
    check_arraylike(name, a)
    check_no_out(name, out)
    if correction is not None:
        if ddof:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    a = unwrap(a)
    given = dtypes.dtype_of(a)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
        if dtypes.issubdtype(given, np.complexfloating) and not dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError(
                f"jax.numpy.{name} does not yet support real dtype parameters when computing the variance of an array "
                "of complex values."
            )
    result = dtypes.to_floating_dtype(given if dtype is None else dtype)
    axes = canonical_axes(axis, np.ndim(a))
    extras = tuple(unwrap(x) for x in (mean, where) if x is not None)
    check_arraylike(name, *extras)
    has = (mean is not None, where is not None)
    static = {"axes": axes, "dtype": result, "ddof": ddof, "keepdims": bool(keepdims), "root": name.endswith("std")}
    return run(_var, a, *extras, has=has, **static)


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The variance along axes: the mean of squared distances from the mean.

    Args:
        a: array.
        axis: axis or axes; None for all.
        dtype: of the result.
        out: must be None.
        ddof: what is taken from the number of elements before dividing by it.
        keepdims: whether the axes stay, with size 1.
        where: bool array; elements that count.
        mean: the mean, computed before with keepdims; it must broadcast to `a`.
        correction: another name for ddof.

    >>> import veery.numpy as jnp
    >>> float(jnp.var(jnp.array([1.0, 3.0])))
    1.0
    """
    return _spread("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation along axes, the square root of `var`; arguments as there.

    >>> import veery.numpy as jnp
    >>> float(jnp.std(jnp.array([1.0, 3.0])))
    1.0
    """
    return _spread("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
