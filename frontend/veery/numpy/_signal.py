"""Interpolation, convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery.numpy import _arithmetic
from veery.numpy._joining import concatenate
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes, promote_dtypes_inexact
from veery.numpy._selection import where
from veery.numpy._shaping import as_array
from veery.numpy._sorting import searchsorted


@jit(static_argnames=("extrapolate",))
def _interp(
    x: Array, xp: Array, fp: Array, left: Any, right: Any, period: Any, *, extrapolate: tuple[bool, bool]
) -> Array:
    x, xp = (as_array(a) for a in promote_dtypes_inexact(x, xp))
    fp = as_array(promote_dtypes_inexact(fp)[0])
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        if np.ndim(period) != 0:
            raise ValueError(f"period must be a scalar; got {period}")
        period = _arithmetic.abs(period)
        x, xp = x % period, xp % period
        xp, fp = lax.sort_key_val(xp, fp)
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    after = _arithmetic.clip(searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    before = after - 1
    width = xp[after] - xp[before]
    # points that coincide have no line through them
    coincide = lax.abs(width) <= float(dtypes.finfo(xp.dtype).eps) ** 2
    slope = (fp[after] - fp[before]) / where(coincide, 1, width)
    out = where(coincide, fp[before], fp[before] + (x - xp[before]) * slope)
    if period is not None:
        return out
    if not extrapolate[0]:
        out = where(x < xp[0], fp[0] if left is None else left, out)
    if not extrapolate[1]:
        out = where(x > xp[-1], fp[-1] if right is None else right, out)
    return out


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The piecewise linear function through given points.

    Args:
        x: where to evaluate it.
        xp: the points' first coordinates, ascending unless there is a period.
        fp: their second ones.
        left: the value before the first point, "extrapolate" to continue the line; by default that of the first point.
        right: the value behind the last point, likewise.
        period: of the function; the points need not be sorted then.

    Raises:
        ValueError: the points are not vectors of one size, x is complex, or the period no scalar.

    >>> interp(np.array([1.5], np.float32), np.array([1.0, 2.0], np.float32), np.array([0.0, 4.0], np.float32))
    Array([2.], dtype=float32)
    """
    x, xp, fp = ensure_arraylike("interp", x, xp, fp)
    if np.shape(xp) != np.shape(fp) or np.ndim(xp) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    outside = []
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(f"the only valid string value of `{name}` is 'extrapolate', but got: {value!r}")
        outside.append(None if isinstance(value, str) else value)
    extrapolate = (isinstance(left, str), isinstance(right, str))
    return _interp(x, xp, fp, *outside, period, extrapolate=extrapolate)


def _slide(name: str, x: Array, y: Array, mode: str, precision: Any, preferred: Any) -> Array:
    """Products of two vectors at all offsets, by a convolution with one channel."""
    x, y = ensure_arraylike(name, x, y)
    if np.ndim(x) != 1 or np.ndim(y) != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    promote = promote_dtypes_inexact if preferred is None else promote_dtypes
    x, y = (as_array(a) for a in promote(x, y))
    if not (x.shape[0] and y.shape[0]):
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {x.shape} and {y.shape}.")
    if name == "correlate":
        y = _arithmetic.conj(y)
    swapped = x.shape[0] < y.shape[0]
    if swapped:
        x, y = y, x
    if name == "convolve":
        y = lax.rev(y, (0,))
    size = y.shape[0]
    paddings = {"valid": (0, 0), "same": (size // 2, size - size // 2 - 1), "full": (size - 1, size - 1)}
    if mode not in paddings:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    out = lax.conv_general_dilated(
        lax.expand_dims(x, (0, 1)),
        lax.expand_dims(y, (0, 1)),
        (1,),
        [paddings[mode]],
        precision=precision,
        preferred_element_type=preferred,
    )
    out = lax.squeeze(out, (0, 1))
    # exchanging the operands of a correlation reverses the offsets
    return lax.rev(out, (0,)) if swapped and name == "correlate" else out


@jit(static_argnames=("mode", "precision", "preferred_element_type"))
def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The convolution of two vectors: sum of a[i] * v[n - i] over i, for each n.

    Args:
        a: vector.
        v: vector.
        mode: "full": all n for which there are terms; "same": as many as the longer vector has elements, in the middle;
            "valid": those at which the shorter vector is used as a whole.
        precision: of the products.
        preferred_element_type: dtype in which they are added.

    Raises:
        ValueError: an operand is empty or no vector, or the mode is unknown.

    >>> convolve(np.array([1.0, 2.0], np.float32), np.array([1.0, 10.0], np.float32))
    Array([ 1., 12., 20.], dtype=float32)
    """
    a, v = ensure_arraylike("convolve", a, v)
    return _slide("convolve", a, v, mode, precision, preferred_element_type)


@jit(static_argnames=("mode", "precision", "preferred_element_type"))
def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The correlation of two vectors: sum of a[n + i] * conj(v[i]) over i, for each n; arguments as of `convolve`.

    >>> correlate(np.array([1.0, 2.0], np.float32), np.array([1.0, 10.0], np.float32))
    Array([21.], dtype=float32)
    """
    a, v = ensure_arraylike("correlate", a, v)
    return _slide("correlate", a, v, mode, precision, preferred_element_type)
