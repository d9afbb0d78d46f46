"""Gather and scatter of all windows at once, as NumPy evaluates them (see veery._core.host)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.jaxpr import JaxprEqn
from veery.lax._gather_scatter_dims import GatherScatterMode

Shape = tuple[int, ...]


def gather(eqn: JaxprEqn) -> Callable[..., np.ndarray]:
    """The windows of an operand that start at indices, for the parameters of the equation."""
    numbers, sizes, mode = (eqn.params[name] for name in ("dimension_numbers", "slice_sizes", "mode"))
    shape, indices_shape = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    batch_shape = indices_shape[:-1]
    stacked = batch_shape + tuple(n for i, n in enumerate(sizes) if i not in removed)
    order = _order(len(stacked), len(batch_shape), numbers.offset_dims)
    fills = mode is GatherScatterMode.FILL_OR_DROP
    fill_value = eqn.params["fill_value"]

    def gathered(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        starts, inside = _starts(indices, shape, sizes, numbers.start_index_map, batching, fills)
        out = x[_windows(starts, sizes)].reshape(stacked)
        if fills and not inside.all():
            out[~inside] = fill_value
        return np.transpose(out, order)

    return gathered


def scatter(combine: np.ufunc | None = None) -> Callable[[JaxprEqn], Callable[..., np.ndarray]]:
    """From an equation to an operand with updates combined into its windows at indices.

    Without `combine` they replace what is there, and of several the last wins.
    """
    return functools.partial(_scatter, combine)


def _scatter(combine: np.ufunc | None, eqn: JaxprEqn) -> Callable[..., np.ndarray]:
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    shape, indices_shape, updates_shape = (v.aval.shape for v in eqn.invars)
    batching = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = iter([updates_shape[i] for i in numbers.update_window_dims])
    sizes = tuple(1 if i in single else next(window) for i in range(len(shape)))
    batch_shape = indices_shape[:-1]
    order = np.argsort(_order(len(updates_shape), len(batch_shape), numbers.update_window_dims))
    drops = mode is not GatherScatterMode.CLIP

    def scattered(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        starts, inside = _starts(indices, shape, sizes, numbers.scatter_dims_to_operand_dims, batching, drops)
        updates = np.transpose(updates, order).reshape(batch_shape + sizes)
        out = np.array(x)
        if drops and not inside.all():
            starts, updates = [np.broadcast_to(s, batch_shape)[inside] for s in starts], updates[inside]
        if combine is None:
            out[_windows(starts, sizes)] = updates
        else:
            combine.at(out, _windows(starts, sizes), updates)
        return out

    return scattered


def _order(ndim: int, batch_ndim: int, window_dims: Sequence[int]) -> list[int]:
    """The permutation that takes (batch, window) dimensions to where window dimensions are at `window_dims`."""
    batch, windows = iter(range(batch_ndim)), iter(range(batch_ndim, ndim))
    return [next(windows) if i in window_dims else next(batch) for i in range(ndim)]


def _starts(
    indices: np.ndarray, shape: Shape, sizes: Shape, index_map: Sequence[int], batching: Any, outside: bool
) -> tuple[list[np.ndarray], Any]:
    """For each dimension of the operand where the windows start, moved inside, and (if asked) which were inside."""
    batch_shape = indices.shape[:-1]
    starts = [np.zeros((1,) * len(batch_shape), np.intp)] * len(shape)
    inside: Any = np.ones(batch_shape, bool) if outside else None
    for position, dim in enumerate(index_map):
        given = indices[..., position]
        starts[dim] = np.clip(given, 0, shape[dim] - sizes[dim]).astype(np.intp)
        if outside:
            inside = inside & (starts[dim] == given)
    for dim, index_dim in batching:
        spread = [-1 if i == index_dim else 1 for i in range(len(batch_shape))]
        starts[dim] = np.arange(shape[dim]).reshape(spread)
    return starts, inside


def _windows(starts: Sequence[np.ndarray], sizes: Shape) -> tuple[np.ndarray, ...]:
    """Indices of all elements of all windows: of the shape of the starts and the sizes."""
    ndim = len(sizes)
    return tuple(
        start.reshape(start.shape + (1,) * ndim) + np.arange(size).reshape([-1 if i == dim else 1 for i in range(ndim)])
        for dim, (start, size) in enumerate(zip(starts, sizes))
    )
