"""Interpolation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import numpy as jnp, tree_util
from veery._core import dtypes
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, ensure_arraylikes, promote_dtypes_inexact
from veery.numpy._shaping import as_array

__all__ = ["RegularGridInterpolator"]


class RegularGridInterpolator:
    """A function that is given on a rectangular grid, between the grid's points. It is a pytree.

    Args:
        points: n ascending vectors, the coordinates of the grid along each dimension. (SciPy takes descending ones.)
        values: array whose first n dimensions are those of the grid.
        method: "linear" or "nearest".
        bounds_error: must be False.
        fill_value: the value outside of the grid; None to continue the function.

    Raises:
        NotImplementedError: bounds_error is True.
        TypeError: values or a point is no array.
        ValueError: there is no such method, there are too many points, or fill_value does not fit.

    >>> import veery.numpy as jnp
    >>> grid = jnp.array([0.0, 1.0]), jnp.array([0.0, 2.0])
    >>> f = RegularGridInterpolator(grid, jnp.array([[0.0, 2.0], [10.0, 12.0]]))
    >>> f(jnp.array([[0.5, 1.0], [2.0, 0.0]])).tolist()
    [6.0, nan]
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = np.nan,
    ):
        _check_method(method)
        if bounds_error:
            raise NotImplementedError("`bounds_error` takes no effect under JIT")
        values = ensure_arraylike("RegularGridInterpolator", values)
        if len(points) > np.ndim(values):
            raise ValueError(f"there are {len(points)} point arrays, but values has {np.ndim(values)} dimensions")
        values = as_array(promote_dtypes_inexact(values)[0])
        if fill_value is not None:
            fill_value = ensure_arraylike("RegularGridInterpolator", fill_value)
            fill_value = jnp.asarray(fill_value)
            if not jnp.can_cast(fill_value.dtype, values.dtype, casting="same_kind"):
                raise ValueError("fill_value must be either 'None' or of a type compatible with values")
        points = ensure_arraylikes("RegularGridInterpolator", *points)
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        self.grid = tuple(jnp.asarray(p) for p in points)
        self.values = values

    def __call__(self, xi: ArrayLike | tuple[ArrayLike, ...], method: str | None = None) -> Array:
        """The function's values.

        Args:
            xi: the points: an array of shape (..., n), or n arrays that broadcast. A vector is one point, of a function
                of one variable several.
            method: instead of the interpolator's own.

        Returns:
            An array of the points' shape, followed by the dimensions of the values beyond the grid.

        Raises:
            ValueError: the points have another number of dimensions, or there is no such method.
        """
        method = self.method if method is None else method
        _check_method(method)
        n = len(self.grid)
        points = _points(xi, n)
        if points.shape[-1] != n:
            raise ValueError(
                f"the requested sample points xi have dimension {points.shape[-1]}, but this RegularGridInterpolator "
                f"has dimension {n}"
            )
        cells = [_cell(points[..., k], grid) for k, grid in enumerate(self.grid)]
        beyond = tuple(range(points.ndim - 1, points.ndim - 1 + self.values.ndim - n))
        if method == "nearest":
            result = self.values[tuple(jnp.where(place > 0.5, i + 1, i) for i, place in cells)]
        else:
            result = 0.0
            for corner in itertools.product((0, 1), repeat=n):
                weight: Any = 1.0
                for side, (_, place) in zip(corner, cells):
                    weight = weight * (place if side else 1 - place)
                value = self.values[tuple(i + side for side, (i, _) in zip(corner, cells))]
                result = result + value * jnp.expand_dims(weight, beyond)
        if self.fill_value is None:
            return result
        outside: Any = False
        for k, grid in enumerate(self.grid):
            outside = outside | (points[..., k] < grid[0]) | (points[..., k] > grid[-1])
        return jnp.where(jnp.expand_dims(outside, beyond), self.fill_value, result)


def _check_method(method: str) -> None:
    if method not in ("linear", "nearest"):
        raise ValueError(f"method {method!r} is not defined")


def _points(xi: Any, n: int) -> Array:
    """Points as an array of shape (..., n)."""
    if isinstance(xi, tuple) and len(xi) == 1:
        xi = xi[0]  # an array of points, wrapped
    if isinstance(xi, tuple):
        columns = jnp.broadcast_arrays(*map(jnp.asarray, xi))
        return jnp.stack([c.astype(dtypes.default_float_dtype()) for c in columns], axis=-1)
    xi = ensure_arraylike("RegularGridInterpolator", xi)
    points = jnp.asarray(xi)
    return points.reshape(-1, n) if points.ndim == 1 else points


def _cell(x: Array, grid: Array) -> tuple[Array, Array]:
    """The cells of the grid that have the points, and the places within them, from 0 to 1."""
    i = jnp.clip(jnp.searchsorted(grid, x) - 1, 0, grid.size - 2)
    return i, (x - grid[i]) / (grid[i + 1] - grid[i])


tree_util.register_pytree_node(
    RegularGridInterpolator,
    lambda f: ((f.grid, f.values, f.fill_value), (f.method, f.bounds_error)),
    lambda settings, arrays: _made_of(settings, arrays),
)


def _made_of(settings: tuple[Any, ...], arrays: Any) -> RegularGridInterpolator:
    """An interpolator of what need not be arrays while trees are taken apart."""
    f = object.__new__(RegularGridInterpolator)
    f.grid, f.values, f.fill_value = arrays
    f.method, f.bounds_error = settings
    return f
