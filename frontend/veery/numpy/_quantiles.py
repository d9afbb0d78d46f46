"""Medians, quantiles and percentiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.config import debug_nans
from veery.lax._placement import lays_out
from veery.numpy import _logic, _reductions
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    ensure_arraylike_or_none,
    promote_dtypes_inexact,
    unwrap,
)
from veery.numpy._reductions import Axis, canonical_axes
from veery.numpy._selection import take, take_along_axis, where
from veery.numpy._shaping import as_array

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _check_not_inplace(name: str, out: None, overwrite_input: bool) -> None:
    if overwrite_input or out is not None:
        raise ValueError(f"jax.numpy.{name} does not support overwrite_input=True or out != None")


def _reduced_last(x: Array, axes: tuple[int, ...]) -> Array:
    """The axes joined into one, which is the last."""
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    moved = lax.transpose(x, (*rest, *axes))
    return lax.reshape(moved, (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes)))


def _check_weights(a: Array, weights: ArrayLike, axis: Axis, axes: tuple[int, ...], method: str) -> Array:
    if dtypes.issubdtype(dtypes.dtype_of(weights), np.complexfloating):
        raise ValueError("Weights cannot be complex types.")
    if method != "inverted_cdf":
        raise NotImplementedError(f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights.")
    shape = np.shape(weights)
    if shape == a.shape:
        return as_array(weights)
    if axis is None:
        raise ValueError("Weights shape must match 'a' shape when axis is None.")
    expected = tuple(a.shape[i] for i in axes)
    if shape != expected:
        raise ValueError(f"Weights shape {shape} must match reduction axes {expected}")
    ordered = lax.transpose(as_array(weights), tuple(int(i) for i in np.argsort(axes)))
    return lax.broadcast_in_dim(ordered, a.shape, tuple(sorted(axes)))


def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: ArrayLike | None,
) -> Array:
    a, q, weights = ensure_arraylike_or_none(name, a, q, weights)
    if method not in _METHODS:
        raise ValueError("method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or 'inverted_cdf'")
    if dtypes.issubdtype(dtypes.dtype_of(unwrap(a)), np.complexfloating):
        raise ValueError("quantile does not support complex input, as the operation is poorly defined.")
    if np.ndim(q) > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {np.shape(q)}")
    axes = canonical_axes(axis, np.ndim(a))
    if weights is None:
        (a,) = promote_dtypes_inexact(unwrap(a))
    else:
        a, weights = promote_dtypes_inexact(unwrap(a), unwrap(weights))
    x = as_array(a)
    (q,) = (as_array(v) for v in promote_dtypes_inexact(unwrap(q)))
    kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    sorted_weights = None
    if weights is not None:
        sorted_weights = _reduced_last(_check_weights(x, weights, axis, axes, method), axes)
    values = _reduced_last(x, axes)
    if values.shape[-1] == 0:
        out = lax.full((*values.shape[:-1], *q.shape), np.nan, values.dtype)
    else:
        out = _of_last_axis(values, sorted_weights, q, method, skip_nan)
    if q.ndim:
        out = lax.transpose(out, (out.ndim - 1, *range(out.ndim - 1)))
    return lax.reshape(out, (*q.shape, *kept)) if keepdims else out


def _of_last_axis(x: Array, weights: Array | None, q: Array, method: str, skip_nan: bool) -> Array:
    """Quantiles along the last axis, which that of q (if it has one) takes the place of."""
    nan = _logic.isnan(x)
    if not skip_nan:
        with debug_nans(False):
            x = where(broadcast_to(_reductions.any(nan, -1, keepdims=True), x.shape), np.nan, x)
    if method == "inverted_cdf":
        return _inverted_cdf(x, weights, q)
    x = lax.sort(x)
    if skip_nan:
        counts = _reductions.sum(_logic.logical_not(nan), -1, dtype=q.dtype)
        last = lax.sub(counts, lax.full_like(counts, 1))
        if q.ndim:
            last = lax.expand_dims(last, (last.ndim,))
    else:
        last = lax.full((), x.shape[-1] - 1, q.dtype)
    place = lax.broadcast_to_rank(q, last.ndim or q.ndim) * last
    below, above = lax.floor(place), lax.ceil(place)
    low, high = (where(p < 0, 0, p) for p in (where(p > last, last, p) for p in (below, above)))
    low_value, high_value = (_at_places(x, p.astype(np.int32), q.ndim, skip_nan) for p in (low, high))
    part = lax.broadcast_to_rank(place - below, low_value.ndim)
    if method == "linear":
        out = low_value.astype(q.dtype) * (1 - part) + high_value.astype(q.dtype) * part
    elif method == "midpoint":
        out = (low_value + high_value) * 0.5
    elif method == "nearest":
        out = where(part <= 0.5, low_value, high_value)
    else:
        out = low_value if method == "lower" else high_value
    if skip_nan:
        out = where(last < 0, np.nan, out)  # of no numbers
    return lax.convert_element_type(out, x.dtype)


def _at_places(x: Array, places: Array, q_ndim: int, each: bool) -> Array:
    """Elements of the last axis at places that are the same for all slices, or given for each."""
    if not each:
        return take(x, places, axis=-1, mode="clip")
    if q_ndim:
        return take_along_axis(x, places, axis=-1)
    return lax.squeeze(take_along_axis(x, lax.expand_dims(places, (places.ndim,)), axis=-1), (x.ndim - 1,))


def _inverted_cdf(x: Array, weights: Array | None, q: Array) -> Array:
    """The first element up to which the weights sum to at least q times their total."""
    weights = lax.full_like(x, 1) if weights is None else weights
    x, weights = lax.sort_key_val(x, weights)
    nan = _logic.isnan(x)
    bad = lax.bitwise_or(lax.lt(weights, lax.full_like(weights, 0)), _logic.isnan(weights))
    sums = lax.cumsum(where(lax.bitwise_or(bad, nan), 0, weights), x.ndim - 1)
    total = lax.slice_in_dim(sums, x.shape[-1] - 1, x.shape[-1], axis=-1)
    levels = lax.broadcast_to_rank(lax.reshape(q, (q.size,)), total.ndim) * total  # [..., q]
    below = lax.expand_dims(sums, (sums.ndim - 1,)) < lax.expand_dims(levels, (levels.ndim,))
    places = _reductions.sum(below, -1, dtype=np.dtype(np.int32))
    valid = _reductions.sum(_logic.logical_not(nan), -1, keepdims=True, dtype=np.dtype(np.int32))
    places = where(places < valid, places, valid - 1)
    out = take_along_axis(x, where(places < 0, 0, places), axis=-1)
    nothing = lax.bitwise_or(_reductions.any(bad, -1, keepdims=True), lax.eq(valid, lax.full_like(valid, 0)))
    out = where(nothing, np.nan, out)
    return out if q.ndim else lax.squeeze(out, (out.ndim - 1,))


@jit(static_argnames=("axis", "overwrite_input", "keepdims", "method"))
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The values below which given parts of the elements along axes lie.

    Args:
        a: real array.
        q: a part, from 0 to 1, or a vector of them.
        axis: an axis, several, or None for all.
        out: must be None.
        overwrite_input: must be False.
        method: what is taken where a quantile lies between two elements: "linear" interpolates, "midpoint" is their
            mean; "lower", "higher", "nearest"; "inverted_cdf" is the first element with that part up to it.
        keepdims: whether the axes stay, with size 1.
        weights: of the elements, in a's shape or that of the axes; for "inverted_cdf" only.

    Returns:
        Array whose first axis is that of q, if it has one. NaN where an element is NaN.

    Raises:
        ValueError: a is complex, q is a matrix, the method is unknown, or the weights' shape does not fit.
        NotImplementedError: weights are given to another method.

    >>> import veery.numpy as jnp
    >>> float(jnp.quantile(jnp.array([1.0, 2.0, 4.0, 8.0]), 0.5))
    3.0
    """
    _check_not_inplace("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@jit(static_argnames=("axis", "overwrite_input", "keepdims", "method"))
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles of the elements that are not NaN; NaN where there are none (see `quantile`).

    >>> import veery.numpy as jnp
    >>> float(jnp.nanquantile(jnp.array([1.0, jnp.nan, 4.0]), 0.5))
    2.5
    """
    _check_not_inplace("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def _hundredth(name: str, q: ArrayLike) -> Array:
    q = ensure_arraylike(name, q)
    (q,) = promote_dtypes_inexact(unwrap(q))
    return as_array(q) / 100


@lays_out
@jit(static_argnames=("axis", "overwrite_input", "keepdims", "method"))
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Quantiles for q in percent (see `quantile`).

    >>> import veery.numpy as jnp
    >>> float(jnp.percentile(jnp.array([1.0, 2.0, 4.0, 8.0]), 50))
    3.0
    """
    _check_not_inplace("percentile", out, overwrite_input)
    q = _hundredth("percentile", q)
    return _quantile("percentile", a, q, axis, method, keepdims, False, weights)


@jit(static_argnames=("axis", "overwrite_input", "keepdims", "method"))
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles, for q in percent, of the elements that are not NaN (see `quantile`).

    >>> import veery.numpy as jnp
    >>> float(jnp.nanpercentile(jnp.array([1.0, jnp.nan, 4.0]), 50))
    2.5
    """
    _check_not_inplace("nanpercentile", out, overwrite_input)
    q = _hundredth("nanpercentile", q)
    return _quantile("nanpercentile", a, q, axis, method, keepdims, True, weights)


@jit(static_argnames=("axis", "overwrite_input", "keepdims"))
def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The median along axes: the middle element, or the mean of the two in the middle (see `quantile`).

    >>> import veery.numpy as jnp
    >>> float(jnp.median(jnp.array([5.0, 1.0, 2.0])))
    2.0
    """
    _check_not_inplace("median", out, overwrite_input)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False, None)


@jit(static_argnames=("axis", "overwrite_input", "keepdims"))
def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The median along axes of the elements that are not NaN (see `quantile`).

    >>> import veery.numpy as jnp
    >>> float(jnp.nanmedian(jnp.array([5.0, jnp.nan, 2.0])))
    3.5
    """
    _check_not_inplace("nanmedian", out, overwrite_input)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True, None)
