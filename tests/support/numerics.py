"""Numerical differences: what derivatives are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

STEP = 1e-6


def directional(
    fun: Callable[..., np.ndarray], args: Sequence[np.ndarray], tangents: Sequence[np.ndarray]
) -> np.ndarray:
    """The derivative of a float64 function along tangents, by central differences."""
    shifted = lambda s: np.asarray(fun(*(np.asarray(x + s * STEP * t) for x, t in zip(args, tangents))))
    return (shifted(1) - shifted(-1)) / (2 * STEP)


def gradient(fun: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The gradient of a scalar float64 function."""
    x = np.asarray(x, np.float64)
    result = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        tangent = np.zeros_like(x)
        tangent[i] = 1
        result[i] = directional(fun, [x], [tangent])
    return result
