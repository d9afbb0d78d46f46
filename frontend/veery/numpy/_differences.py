"""Differences, gradients and integrals of sampled functions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core.shapes import as_axes, canonicalize_axis
from veery.numpy import _logic
from veery.numpy._arithmetic import floor_divide, is_kind, multiply, remainder, subtract
from veery.numpy._creation import asarray, number
from veery.numpy._cumulative import cumsum
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    ensure_arraylike_or_none,
    ensure_arraylikes,
    promote_dtypes,
    promote_dtypes_inexact,
)
from veery.numpy._reductions import sum as sum_
from veery.numpy._selection import where


def _along(x: Array, start: int, stop: int, axis: int) -> Array:
    return lax.slice_in_dim(x, start, stop, axis=axis)


def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """The n-th differences of neighbours along an axis; of bools whether they differ.

    Args:
        a: array of rank 1 or more.
        n: how often to take differences.
        axis: along which.
        prepend: put in front of a first.
        append: put behind a first.

    >>> diff(np.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = ensure_arraylike("diff", a)
    x = asarray(a)
    n = operator.index(n)
    if n == 0:
        return x
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if x.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    axis = canonicalize_axis(axis, x.ndim)
    ends = [None if e is None else asarray(e) for e in (prepend, append)]
    return _diff(x, *ends, n=n, axis=axis)


@jit(static_argnames=("n", "axis"))
def _diff(x: Array, prepend: Array | None, append: Array | None, n: int, axis: int) -> Array:
    edge = lambda e: broadcast_to(e, [1 if i == axis else d for i, d in enumerate(x.shape)]) if e.ndim == 0 else e
    parts = [edge(e) if e is not x else e for e in (prepend, x, append) if e is not None]
    x = lax.concatenate(promote_dtypes(*parts), axis) if len(parts) > 1 else x
    combine = _logic.not_equal if x.dtype == np.bool_ else subtract
    for _ in range(n):
        size = x.shape[axis]
        x = combine(_along(x, min(1, size), size, axis), _along(x, 0, max(size - 1, 0), axis))
    return x


_diff._name = "diff"


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours in the flattened array, between given values.

    >>> ediff1d(np.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int32)
    """
    ary = ensure_arraylike("ediff1d", ary)
    return _ediff1d(ary, to_end, to_begin)


@jit
def _ediff1d(ary: Array, to_end: Any, to_begin: Any) -> Array:
    x = asarray(ary)
    x = lax.reshape(x, (x.size,))
    out = subtract(x[1:], x[:-1])
    parts = [None if e is None else asarray(e).astype(x.dtype).ravel() for e in (to_begin, out, to_end)]
    kept = [p for p in parts if p is not None]
    return lax.concatenate(kept, 0) if len(kept) > 1 else out


_ediff1d._name = "ediff1d"


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of a sampled function along an axis by the trapezoidal rule.

    Args:
        y: values of the function.
        x: where they were taken; by default evenly spaced.
        dx: distance of the samples where x is not given, or distances, of a shape that broadcasts with that of y.
        axis: along which to integrate.

    >>> trapezoid(np.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    """
    y, x, dx = ensure_arraylike_or_none("trapezoid", y, x, dx)
    return _trapezoid(y, x, None if dx is None else number(dx), axis=operator.index(axis))


@jit(static_argnames=("axis",))
def _trapezoid(y: ArrayLike, x: ArrayLike | None, dx: ArrayLike, axis: int) -> Array:
    if x is None:
        (y,) = promote_dtypes_inexact(y)
        steps: Any = dx  # a weak type, unless it is an array
        if np.ndim(dx):
            steps = lax._shape.moveaxis(lax.broadcast_to_rank(dx, np.ndim(y)), axis, -1)
    else:
        y, x = promote_dtypes_inexact(y, x)
        where_ = asarray(x)
        steps = diff(where_) if where_.ndim == 1 else lax._shape.moveaxis(diff(where_, axis=axis), axis, -1)
    values = lax._shape.moveaxis(asarray(y), canonicalize_axis(axis, np.ndim(y)), np.ndim(y) - 1)
    middle = multiply(values[..., 1:] + values[..., :-1], 0.5)
    steps = lax.broadcast_to_rank(steps, middle.ndim) if np.ndim(steps) else steps
    return sum_(multiply(steps, middle), axis=-1)


_trapezoid._name = "trapezoid"


def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi) -> Array:
    """Angles along an axis with jumps of more than half a period taken out.

    Args:
        p: angles.
        discont: the least jump that is taken out; half a period by default.
        axis: along which.
        period: that of the angles.

    >>> unwrap(np.array([0, 3, 1]), period=4)
    Array([ 0, -1, -3], dtype=int32)
    """
    p = ensure_arraylike("unwrap", p)
    x = asarray(p)
    if is_kind(x, np.complexfloating):
        raise ValueError("jnp.unwrap does not support complex inputs.")
    axis = canonicalize_axis(axis, x.ndim)
    if x.shape[axis] == 0:
        whole = is_kind(x, np.integer) and is_kind(period, np.integer)
        return x if whole else promote_dtypes_inexact(x, period)[0]
    return _unwrap(x, discont, number(period), axis=axis)


@jit(static_argnames=("axis",))
def _unwrap(p: Array, discont: ArrayLike | None, period: ArrayLike, axis: int) -> Array:
    if is_kind(p, np.integer) and is_kind(period, np.integer):
        interval = floor_divide(asarray(period), 2)
    else:
        p, period = promote_dtypes_inexact(p, period)
        interval = asarray(period) / 2
    jumps = diff(p, axis=axis)
    folded = remainder(jumps + interval, period) - interval
    # A jump of just half a period keeps its sign.
    folded = where((folded == -interval) & (jumps > 0), interval, folded)
    least = interval if discont is None else discont
    correction = where(abs(jumps) < least, 0, folded - jumps)
    rest = _along(p, 1, p.shape[axis], axis) + cumsum(correction, axis=axis).astype(p.dtype)
    return lax.concatenate([_along(p, 0, 1, axis), rest], axis)


_unwrap._name = "unwrap"


def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int | None = None
) -> Any:
    """The derivative of a sampled function: central differences inside, one-sided ones at the edges.

    Args:
        f: values of the function.
        *varargs: distances of the samples, or their positions: one for all axes or one for each.
        axis: axes along which to differentiate; all by default.
        edge_order: must be None.

    Returns:
        An array, or a list of them where there are several axes.

    >>> gradient(np.array([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    operands = ensure_arraylikes("gradient", f, *varargs)
    x, *spacings = map(asarray, promote_dtypes_inexact(*operands))
    if axis is None:
        axes: Sequence[int] = range(x.ndim)
    else:
        axes = [canonicalize_axis(a, x.ndim) for a in as_axes(axis)]
    if min((x.shape[a] for a in axes), default=2) < 2:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
        )
    if len(spacings) not in (0, 1, len(axes)):
        raise TypeError(f"Invalid number of spacing arguments {len(spacings)} for axis={axis}")
    steps = [number(1.0)] * len(axes) if not spacings else spacings * len(axes) if len(spacings) == 1 else spacings
    out = [_gradient(x, asarray(h), axis=a) for a, h in zip(axes, steps)]
    return out[0] if len(out) == 1 else out


@jit(static_argnames=("axis",))
def _gradient(x: Array, h: Array, axis: int) -> Array:
    n = x.shape[axis]
    if h.ndim == 0:
        inner = (_along(x, 2, n, axis) - _along(x, 0, n - 2, axis)) / (2 * h)
        first, last = h, h
    else:
        if h.shape != (n,):
            raise ValueError(
                "Spacing arrays must have the same length as the dimension along which the gradient is calculated."
            )
        steps = lax.reshape(diff(h), [n - 1 if i == axis else 1 for i in range(x.ndim)])
        before, after = _along(steps, 0, n - 2, axis), _along(steps, 1, n - 1, axis)
        left, middle, right = (_along(x, i, n - 2 + i, axis) for i in range(3))
        inner = -after / (before * (before + after)) * left
        inner = inner + (after - before) / (before * after) * middle + before / (after * (before + after)) * right
        first, last = _along(steps, 0, 1, axis), _along(steps, n - 2, n - 1, axis)
    start = (_along(x, 1, 2, axis) - _along(x, 0, 1, axis)) / first
    end = (_along(x, n - 1, n, axis) - _along(x, n - 2, n - 1, axis)) / last
    return lax.concatenate([start, inner, end], axis)


_gradient._name = "gradient"
