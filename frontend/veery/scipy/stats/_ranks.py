"""Modes, ranks and errors of samples."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.shapes import canonicalize_axis
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_args_inexact


class ModeResult(NamedTuple):
    """What `mode` returns."""

    mode: Array
    count: Array


def _check_policy(name: str, nan_policy: str) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"Illegal nan_policy value {nan_policy!r}; expected one of {{'propagate', 'omit', 'raise'}}")
    if nan_policy == "omit":
        raise NotImplementedError(f"Logic for `nan_policy` of {nan_policy} is not implemented")
    if nan_policy == "raise":
        raise NotImplementedError(
            f"In order to best JIT compile `{name}`, we cannot know whether `x` contains nans. Please check if nans "
            f"exist in `x` outside of the `{name}` function."
        )


def _run_starts(x: Array) -> Array:
    """For columns of sorted values whether each differs from the one before; NaNs are equal."""
    before = x[:-1]
    differs = (x[1:] != before) & ~(jnp.isnan(x[1:]) & jnp.isnan(before))
    return jnp.concatenate([jnp.ones_like(differs, shape=(1, *x.shape[1:])), differs])


def _positions(x: Array) -> Array:
    return lax.broadcasted_iota(dtypes.default_int_dtype(), x.shape, 0)


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent values along an axis, of equally frequent ones the least.

    Args:
        a: array.
        axis: along which to count; None for the whole array.
        nan_policy: must be "propagate"; NaNs count as one value.
        keepdims: whether the axis stays, with size 1.

    Returns:
        The values and how often each is there.

    Raises:
        ValueError: an unknown nan_policy.
        NotImplementedError: another one.

    >>> mode(np.array([2, 4, 4, 1]))
    ModeResult(mode=Array(4, dtype=int32), count=Array(2, dtype=int32))
    """
    a = ensure_arraylike("mode", a)
    _check_policy("mode", nan_policy)
    x = jnp.atleast_1d(a)
    kept = x.shape if keepdims else ()
    if axis is None:
        x, shape = jnp.ravel(x), (1,) * len(kept)
        axis = 0
    else:
        axis = canonicalize_axis(axis, x.ndim)
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape) if keepdims or i != axis)
    values, counts = _mode(x, axis=axis)
    return ModeResult(values.reshape(shape), counts.reshape(shape))


@jit(static_argnames=("axis",))
def _mode(x: Any, *, axis: int) -> tuple[Array, Array]:
    x = jnp.moveaxis(x, axis, 0)
    if x.shape[0] == 0:
        dtype = dtypes.default_float_dtype()
        return jnp.full(x.shape[1:], np.nan, dtype), jnp.zeros(x.shape[1:], dtype)
    x = jnp.sort(x, axis=0)
    positions = _positions(x)
    lengths = positions - lax.cummax(jnp.where(_run_starts(x), positions, 0), 0) + 1
    # The first of the longest runs ends where its length is first reached.
    place = jnp.argmax(lengths, 0, keepdims=True)
    return jnp.take_along_axis(x, place, 0)[0], jnp.max(lengths, 0)


_METHODS = ("average", "min", "max", "dense", "ordinal")


def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The ranks of values, from 1 for the least.

    Args:
        a: array.
        method: which ranks equal values have: the "average" of them, the "min" or "max" one, one rank for each
            distinct value ("dense"), or each its own in order ("ordinal").
        axis: along which to rank; None for the flattened array.
        nan_policy: must be "propagate": with a NaN all ranks are NaN.

    Returns:
        Floats, of one dimension if axis is None.

    Raises:
        ValueError: an unknown method or nan_policy.
        NotImplementedError: another nan_policy.

    >>> rankdata(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    a = ensure_arraylike("rankdata", a)
    _check_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ValueError(f"unknown method '{method}'")
    if axis is None:
        return _ranks(jnp.ravel(a), method=method, axis=0)
    return _ranks(a, method=method, axis=canonicalize_axis(axis, np.ndim(a)))


@jit(static_argnames=("method", "axis"))
def _ranks(a: Any, *, method: str, axis: int) -> Array:
    a = jnp.moveaxis(a, axis, 0)
    order = jnp.argsort(a, axis=0)
    places = jnp.argsort(order, axis=0)
    positions = _positions(a)
    starts = _run_starts(jnp.take_along_axis(a, order, 0))
    least = lax.cummax(jnp.where(starts, positions, 0), 0) + 1
    ends = jnp.concatenate([starts[1:], jnp.ones_like(starts[:1])])
    greatest = lax.cummin(jnp.where(ends, positions, len(a)), 0, reverse=True) + 1
    dtype = dtypes.default_float_dtype()
    ranks = {
        "average": lambda: 0.5 * (least + greatest).astype(dtype),
        "min": lambda: least,
        "max": lambda: greatest,
        "dense": lambda: jnp.cumsum(starts, 0),
        "ordinal": lambda: positions + 1,
    }[method]()
    ranked = jnp.take_along_axis(ranks.astype(dtype), places, 0)
    return jnp.moveaxis(jnp.where(jnp.any(jnp.isnan(a), 0), np.nan, ranked), 0, axis)


def sem(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Array:
    """The standard error of the mean: the standard deviation over the root of the count.

    Args:
        a: array.
        axis: along which the samples are; None for all.
        ddof: what is subtracted from the count for the standard deviation.
        nan_policy: "propagate", or "omit": NaNs are left out.
        keepdims: whether the axis stays, with size 1.

    Raises:
        ValueError: another nan_policy.

    >>> round(float(sem(np.array([1.0, 2.0, 3.0]))), 4)
    0.5774
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"{nan_policy} is not supported")
    (x,) = promote_args_inexact("sem", a)
    return _sem(x, ddof=ddof, axis=axis, omit=nan_policy == "omit", keepdims=bool(keepdims))


@jit(static_argnames=("ddof", "axis", "omit", "keepdims"))
def _sem(x: Any, *, ddof: Any, axis: int | None, omit: bool, keepdims: bool) -> Array:
    if omit:
        count = jnp.sum(~jnp.isnan(x), axis, keepdims=keepdims)
        return jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count.astype(x.dtype))
    size = math.prod(x.shape) if axis is None else x.shape[axis]
    return jnp.std(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(jnp.asarray(size, x.dtype))
