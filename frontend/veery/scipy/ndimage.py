"""Images of any number of dimensions."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core import dtypes
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike

__all__ = ["map_coordinates"]


def _mirror(index: Array, size: int) -> Array:
    """Back and forth between the first and the last element, neither of which comes twice."""
    period = 2 * (size - 1)
    return jnp.abs((index + (size - 1)) % period - (size - 1)) if period else jnp.zeros_like(index)


def _reflect(index: Array, size: int) -> Array:
    """Back and forth, the first and the last element coming twice."""
    place = index % (2 * size)
    return jnp.minimum(place, 2 * size - 1 - place)


_PLACES: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": _reflect,
}


def map_coordinates(
    input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0
) -> Array:
    """The values of an array between its elements.

    Args:
        input: array of n dimensions.
        coordinates: n arrays of one shape: the places along each dimension.
        order: 0 for the nearest element, 1 for linear interpolation.
        mode: how the array goes on beyond its ends: "constant", "nearest" (its last element), "wrap" (from the
            beginning), "mirror" (backwards, without the last element) or "reflect" (backwards, with it). In SciPy the
            names of the first and the third are "grid-constant" and "grid-wrap".
        cval: what is there in the mode "constant".

    Returns:
        An array of the shape of the coordinates and the dtype of input; integers are rounded.

    Raises:
        NotImplementedError: there is no such mode, or the order is larger.
        ValueError: there are not as many coordinates as dimensions.

    >>> import veery.numpy as jnp
    >>> map_coordinates(jnp.array([0.0, 1.0, 4.0]), [jnp.array([0.5, 1.25])], order=1).tolist()
    [0.5, 1.75]
    """
    x = jnp.asarray(input)
    places = [jnp.asarray(c) for c in coordinates]
    if len(places) != x.ndim:
        raise ValueError(f"coordinates must be a sequence of length input.ndim, but {len(places)} != {x.ndim}")
    if mode not in _PLACES:
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}. "
            f"Currently supported modes are {set(_PLACES)}."
        )
    if order not in (0, 1):
        raise NotImplementedError("jax.scipy.ndimage.map_coordinates currently requires order<=1")
    return run(_map_coordinates, x, jnp.asarray(cval, x.dtype), *places, order=int(order), mode=mode)


def _rounded(x: Array) -> Array:
    return x if dtypes.issubdtype(x.dtype, np.integer) else lax.round(x)


def _neighbours(coordinate: Array, order: int) -> list[tuple[Array, Any]]:
    """The elements that a value depends on, and by how much."""
    if order == 0:
        return [(_rounded(coordinate).astype(np.int32), 1)]
    lower = jnp.floor(coordinate)
    above = coordinate - lower
    index = lower.astype(np.int32)
    return [(index, 1 - above), (index + 1, above)]


def _map_coordinates(x: Array, cval: Array, *coordinates: Array, order: int, mode: str) -> Array:
    total: Any = None
    for corner in itertools.product(*(_neighbours(c, order) for c in coordinates)):
        value = x[tuple(_PLACES[mode](index, size) for (index, _), size in zip(corner, x.shape))]
        if mode == "constant" and corner:
            inside = ((index >= 0) & (index < size) for (index, _), size in zip(corner, x.shape))
            value = jnp.where(functools.reduce(operator.and_, inside), value, cval)
        for _, weight in corner:
            value = value * weight
        total = value if total is None else total + value
    return (_rounded(total) if dtypes.issubdtype(x.dtype, np.integer) else total).astype(x.dtype)
