"""Trends of signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core.shapes import canonicalize_axis
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, promote_dtypes_inexact


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """A signal without its trend.

    Args:
        data: array.
        axis: of time.
        type: of the trend: "constant" for the mean, "linear" for the line of least squares.
        bp: places where one line ends and another begins.
        overwrite_data: must be None.

    Returns:
        An array like data, in its float dtype.

    Raises:
        NotImplementedError: overwrite_data is given.
        ValueError: there is no such type, or places lie outside of the signal.

    >>> import veery.numpy as jnp
    >>> abs(detrend(jnp.array([1.0, 3.0, 5.0])).round(4)).tolist()
    [0.0, 0.0, 0.0]
    """
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented.")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (x,) = promote_dtypes_inexact(jnp.asarray(data))
    axis = canonicalize_axis(axis, x.ndim)
    places: tuple[int, ...] = ()
    if type == "linear":
        places = tuple(int(p) for p in np.unique(np.r_[0, bp, x.shape[axis]]))
        if places[0] < 0 or places[-1] > x.shape[axis]:
            raise ValueError("Breakpoints must be non-negative and less than length of data along given axis.")
    return run(_detrend, x, axis=axis, places=places)


def _detrend(x: Array, *, axis: int, places: tuple[int, ...]) -> Array:
    mean = lambda x: jnp.mean(x, axis=axis, keepdims=True)
    if not places:
        return x - mean(x)
    parts = []
    for start, stop in zip(places, places[1:]):
        part = lax.slice_in_dim(x, start, stop, axis=axis)
        part = part - mean(part)
        times = np.arange(stop - start) - (stop - start - 1) / 2  # orthogonal to a constant
        unit = _along(times / (np.linalg.norm(times) or 1.0), part, axis)
        parts.append(part - unit * jnp.sum(unit * part, axis=axis, keepdims=True))
    return lax.concatenate(parts, axis) if parts else x


def _along(values: np.ndarray, x: Array, axis: int) -> Any:
    """A vector as an array that varies along an axis of another alone."""
    return values.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(x.dtype)
