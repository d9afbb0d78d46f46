"""Means, variances, averages, covariances; those that leave NaN out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery.numpy import _arithmetic, _logic, _reductions
from veery.numpy._elementwise import run
from veery.numpy._joining import concatenate
from veery.numpy._matrices import diag
from veery.numpy._products import dot
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    check_no_out,
    ensure_arraylike,
    ensure_arraylike_or_none,
    ensure_arraylikes,
    promote_dtypes_inexact,
    to_dtype,
    unwrap,
)
from veery.numpy._reductions import Axis, canonical_axes, check_mask, expand
from veery.numpy._shaping import as_array, atleast_2d


def _computation_dtype(dtype: Any) -> Any:
    """The dtype that sums are kept in: 16-bit floats are added in 32 bits."""
    return np.dtype(np.float32) if dtype in (np.float16, dtypes.bfloat16) else dtype


def _result_dtype(a: ArrayLike, dtype: Any) -> Any:
    if dtype is None:
        return dtypes.to_inexact_dtype(dtypes.dtype_of(a))
    return dtypes.check_and_canonicalize_user_dtype(dtype, "mean")


def _count(a: Array, mask: tuple[Array, ...], axes: tuple[int, ...], like: Array) -> Array:
    """How many elements each result is made of, in the shape and dtype of the results."""
    if not mask:
        return lax.full_like(like, math.prod(a.shape[i] for i in axes))
    return lax.reduce_sum(to_dtype(broadcast_to(mask[0], a.shape), like.dtype), axes)


def _masked(x: Array, mask: tuple[Array, ...]) -> Array:
    """The array with zeros (of no derivative) for the elements that do not count."""
    return lax.select(broadcast_to(mask[0], x.shape), x, lax.full_like(x, 0)) if mask else x


def _mean(a: Array, *mask: Array, axes: tuple[int, ...], dtype: Any, keepdims: bool) -> Array:
    work = _computation_dtype(dtype)
    total = lax.reduce_sum(_masked(to_dtype(a, work), mask), axes)
    result = to_dtype(lax.div(total, _count(a, mask, axes, total)), dtype)
    return expand(result, axes, a.ndim) if keepdims else result


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
    a = ensure_arraylike("mean", a)
    check_no_out("mean", out)
    where = check_mask("mean", where)
    a = unwrap(a)
    axes = canonical_axes(axis, np.ndim(a))
    mask = () if where is None else (where,)
    return run(_mean, a, *mask, axes=axes, dtype=_result_dtype(a, dtype), keepdims=bool(keepdims))


def _var(
    a: Array,
    *extras: Array,
    has: tuple[bool, bool],
    axes: tuple[int, ...],
    work: Any,
    dtype: Any,
    weak: bool,
    ddof: float,
    keepdims: bool,
    root: bool,
) -> Array:
    x = to_dtype(a, work)
    mask = extras[-1:] if has[1] else ()
    average = to_dtype(extras[0], work) if has[0] else _mean(x, *mask, axes=axes, dtype=work, keepdims=True)
    centred = _masked(lax.sub(x, broadcast_to(average, x.shape)), mask)
    if dtypes.issubdtype(work, np.complexfloating):
        squares = lax.real(lax.mul(centred, lax.conj(centred)))
    else:
        squares = lax.mul(centred, centred)
    total = lax.reduce_sum(squares, axes)
    divisor = lax.sub(_count(a, mask, axes, total), lax.full_like(total, ddof))
    positive = lax.gt(divisor, lax.full_like(divisor, 0))
    safe = lax.select(positive, divisor, lax.full_like(divisor, 1))
    quotient = lax.div(total, safe)
    if not dtypes.issubdtype(work, np.inexact):
        quotient = to_dtype(quotient, dtypes.default_float_dtype())
    result = lax.select(positive, quotient, lax.full_like(quotient, np.nan))
    result = to_dtype(lax.sqrt(result) if root else result, dtype, weak)
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
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    where = check_mask(name, where)
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
        if name.endswith("std") and not dtypes.issubdtype(dtype, np.inexact):
            raise ValueError(f"dtype argument to jnp.{name} must be inexact; got {dtype.name}")
    work = _computation_dtype(dtypes.to_inexact_dtype(given) if dtype is None else dtype)
    result = dtypes.to_floating_dtype(given) if dtype is None else dtype
    # Integers promote with the NaN that is there where nothing counts.
    weak = name == "var" and not dtypes.issubdtype(result, np.inexact)
    if weak:
        result = dtypes.default_float_dtype()
    axes = canonical_axes(axis, np.ndim(a))
    extras = tuple(unwrap(x) for x in (mean, where) if x is not None)
    extras = ensure_arraylikes(name, *extras)
    has = (mean is not None, where is not None)
    kept = {"work": work, "dtype": result, "weak": weak, "keepdims": bool(keepdims)}
    return run(_var, a, *extras, has=has, axes=axes, ddof=ddof, root=name.endswith("std"), **kept)


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


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean along axes.

    Args:
        a: array.
        axis: axis or axes to average over; None for all.
        weights: of the elements, in a's shape or that of the axes; None for equal ones.
        returned: whether the sum of the weights is returned too.
        keepdims: whether the axes stay, with size 1.

    Raises:
        ValueError: the shape of the weights does not fit.

    >>> import veery.numpy as jnp
    >>> float(jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0])))
    1.5
    """
    a, weights = ensure_arraylike_or_none("average", a, weights)
    axes = None if axis is None else canonical_axes(axis, np.ndim(a))
    return _average(a, axes, weights, bool(returned), bool(keepdims))


@jit(static_argnames=("axis", "returned", "keepdims"), inline=True)
def _average(
    a: Array, axis: tuple[int, ...] | None, weights: Array | None, returned: bool, keepdims: bool
) -> Array | tuple[Array, Array]:
    axes = canonical_axes(axis, np.ndim(a))
    if weights is None:
        (a,) = promote_dtypes_inexact(unwrap(a))
        out = mean(a, axes, keepdims=keepdims)
        total = lax.full_like(out, math.prod(np.shape(a)[i] for i in axes))
        return (out, total) if returned else out
    a, weights = (as_array(x) for x in promote_dtypes_inexact(unwrap(a), unwrap(weights)))
    if a.shape != weights.shape:
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        if weights.shape != tuple(a.shape[i] for i in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        weights = lax.transpose(weights, tuple(int(i) for i in np.argsort(axes)))
        weights = lax.reshape(weights, tuple(size if i in axes else 1 for i, size in enumerate(a.shape)))
        weights = broadcast_to(weights, a.shape)
    total = _reductions.sum(weights, axes, keepdims=keepdims)
    out = lax.div(_reductions.sum(lax.mul(a, weights), axes, keepdims=keepdims), total)
    return (out, total) if returned else out


_average._name = "average"


# Those that leave NaN out.


def _numbers(name: str, a: ArrayLike, axis: Axis, where: ArrayLike | None) -> tuple[Any, tuple[int, ...], Any]:
    """The array, spread to the shape of a larger mask, its axes, and where its elements are numbers and count."""
    where, axes = check_mask(name, where), canonical_axes(axis, np.ndim(a))
    valid = _logic.logical_not(_logic.isnan(a))
    if where is not None:
        shape = lax.broadcast_shapes(np.shape(a), np.shape(where))
        a = broadcast_to(a, shape)
        valid = _logic.logical_and(broadcast_to(valid, shape), broadcast_to(unwrap(where), shape))
    return a, axes, valid


@jit(static_argnames=("axis", "dtype", "keepdims"))
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean along axes of the elements that are not NaN; NaN where there are none (see `mean`).

    >>> import veery.numpy as jnp
    >>> float(jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0])))
    2.0
    """
    a = ensure_arraylike("nanmean", a)
    check_no_out("nanmean", out)
    a, axes, valid = _numbers("nanmean", unwrap(a), axis, where)
    return mean(a, axes, dtype, keepdims=keepdims, where=valid)


@jit(static_argnames=("axis", "dtype", "ddof", "keepdims"))
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The variance along axes of the elements that are not NaN (see `var`).

    >>> import veery.numpy as jnp
    >>> float(jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0])))
    1.0
    """
    return _spread_of_numbers("nanvar", a, axis, dtype, out, ddof, keepdims, where, mean)


@jit(static_argnames=("axis", "dtype", "ddof", "keepdims"))
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The standard deviation along axes of the elements that are not NaN (see `var`).

    >>> import veery.numpy as jnp
    >>> float(jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0])))
    1.0
    """
    return _spread_of_numbers("nanstd", a, axis, dtype, out, ddof, keepdims, where, mean)


def _spread_of_numbers(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    out: None,
    ddof: float,
    keepdims: bool,
    where: ArrayLike | None,
    mean: ArrayLike | None,
) -> Array:
    a = ensure_arraylike(name, a)
    check_no_out(name, out)
    if where is not None and 0 < np.ndim(a) < np.ndim(where):
        raise TypeError(f"{name}: the mask has {np.ndim(where)} dimensions, the array {np.ndim(a)}")
    a, axes, valid = _numbers(name, unwrap(a), axis, where)
    return _spread(name, a, axes, dtype, None, ddof, keepdims, valid, mean, None)


# Covariances.


def _rows(name: str, x: Array, rowvar: bool) -> Array:
    """Variables as rows."""
    if np.ndim(x) > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    matrix = atleast_2d(x)
    return (
        matrix
        if rowvar or (np.ndim(x) == 1 if name == "m" else matrix.shape[0] == 1)
        else lax.transpose(matrix, (1, 0))
    )


def _cov_weights(x: Array, fweights: ArrayLike | None, aweights: ArrayLike | None) -> list[Any]:
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        weights = ensure_arraylike("cov", weights)
        if np.ndim(weights) > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if np.shape(weights)[0] != x.shape[1]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(dtypes.dtype_of(weights), np.integer):
            raise TypeError("fweights must be integer.")
    return [None if w is None else _arithmetic.abs(w) for w in (fweights, aweights)]


@jit(static_argnames=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: Any = None,
) -> Array:
    """The covariances of variables.

    Args:
        m: variables, a row each; a vector is one variable.
        y: further ones.
        rowvar: whether rows are variables, else columns.
        bias: whether sums are divided by the number of observations N and not by N - 1.
        ddof: what is taken from N instead.
        fweights: integers, how often each observation was made.
        aweights: the observations' importance.
        dtype: of the result.

    Returns:
        A matrix, or a scalar for one variable.

    Raises:
        ValueError: m or y has more than two dimensions, or dtype is not inexact.
        RuntimeError: the weights do not fit.
        TypeError: fweights are not integers.

    >>> import veery.numpy as jnp
    >>> float(jnp.cov(jnp.array([1.0, 3.0])))
    2.0
    """
    m, y = ensure_arraylike_or_none("cov", m, y)
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"cov: dtype must be a subclass of float or complex; got dtype={dtype!r}")
    given = promote_dtypes_inexact(*(unwrap(x) for x in (m, y) if x is not None))
    rows = [_rows(name, as_array(x), rowvar) for name, x in zip("my", given)]
    if rows[0].shape[0] == 0:
        return lax.full((0, 0), 0, dtypes.default_float_dtype())
    x = concatenate(rows) if y is not None else rows[0]
    count, size = x.shape
    if size == 0:
        return lax.full(() if count == 1 else (count, count), np.nan, x.dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    frequencies, importances = _cov_weights(x, fweights, aweights)
    weights = importances if frequencies is None else frequencies
    if frequencies is not None and importances is not None:
        weights = frequencies * importances
    if dtype is not None:
        x = x.astype(dtype)
        weights = None if weights is None else weights.astype(dtype)
    centre, totals = average(x, axis=1, weights=weights, returned=True)
    divisor: Any = size - ddof
    if weights is not None:
        divisor = totals[0] - ddof
        if importances is not None:
            divisor = totals[0] - ddof * _reductions.sum(weights * importances) / totals[0]
    x = x - centre[:, None]
    weighted = x if weights is None else x * weights[None, :]
    out = dot(x, _arithmetic.conj(lax.transpose(weighted, (1, 0)))) / divisor
    return lax.squeeze(out, (0, 1)) if count == 1 else out


@jit(static_argnames=("rowvar", "dtype"))
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: Any = None) -> Array:
    """The correlation coefficients of variables; arguments as of `cov`.

    >>> import veery.numpy as jnp
    >>> jnp.corrcoef(jnp.array([[1.0, 3.0], [4.0, 2.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    x = ensure_arraylike("corrcoef", x)
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"corrcoef: dtype must be a subclass of float or complex; got dtype={dtype!r}")
    c = cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    deviation = to_dtype(_arithmetic.sqrt(_arithmetic.real(diag(c))), c.dtype)
    c = c / deviation[:, None] / deviation[None, :]
    # rounding must not make them greater than 1
    real = _arithmetic.clip(_arithmetic.real(c), -1, 1)
    if not dtypes.issubdtype(c.dtype, np.complexfloating):
        return real
    return lax.complex(real, _arithmetic.clip(_arithmetic.imag(c), -1, 1))
