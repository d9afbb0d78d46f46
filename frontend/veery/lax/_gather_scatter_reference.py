"""Gather and scatter by the flat places of windows in the operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]


def gather(
    x: np.ndarray,
    indices: np.ndarray,
    *,
    offset_dims: Sequence[int],
    removed_dims: Sequence[int],
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    sizes: Shape,
    clip: bool,
    fill_value: Any,
) -> np.ndarray:
    """The windows of x that start at the indices.

    Args:
        x: operand.
        indices: vectors along the last dimension.
        offset_dims: dimensions of the result that run over windows.
        removed_dims: dimensions of windows that the result lacks.
        index_map: the dimension of x that each entry of an index vector is for.
        batching: pairs of a dimension of x and the dimension of indices that goes along with it.
        sizes: of the windows.
        clip: whether windows are moved inside; otherwise those that are not are filled.
        fill_value: with what.
    """
    batch_shape = indices.shape[:-1]
    window_shape = tuple(n for i, n in enumerate(sizes) if i not in removed_dims)
    places, inside = _places(x.shape, indices, index_map, batching, sizes, clip)
    out = np.empty(places.shape, x.dtype)
    out[inside] = x.ravel()[places[inside]]
    if not inside.all():
        out[~inside] = fill_value
    out = out.reshape(batch_shape + window_shape)
    return np.transpose(out, _interleave(out.ndim, len(batch_shape), offset_dims)).copy()


def scatter(
    x: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    combine: Callable[[Any, Any], Any],
    *,
    window_dims: Sequence[int],
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    sizes: Shape,
    clip: bool,
) -> np.ndarray:
    """x with its windows at the indices combined with the updates, in order; see gather."""
    order = _interleave(updates.ndim, indices.ndim - 1, window_dims)
    updates = np.transpose(updates, np.argsort(order) if order else ())
    places, inside = _places(x.shape, indices, index_map, batching, sizes, clip)
    updates, places = updates.reshape(places.shape)[inside].ravel(), places[inside].ravel()
    out = np.array(x).ravel()
    with np.errstate(all="ignore"):
        if isinstance(combine, np.ufunc):
            combine.at(out, places, updates)
        else:
            out[places] = updates
    return out.reshape(x.shape)


def _interleave(ndim: int, batch_ndim: int, window_dims: Sequence[int]) -> list[int]:
    """The permutation that takes (batch, window) dimensions to where window dimensions are at `window_dims`."""
    batch, windows = iter(range(batch_ndim)), iter(range(batch_ndim, ndim))
    return [next(windows) if i in window_dims else next(batch) for i in range(ndim)]


def _places(
    shape: Shape,
    indices: np.ndarray,
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    sizes: Shape,
    clip: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """For each index vector the flat places of its window in the operand, and whether that is within bounds."""
    batch_shape = indices.shape[:-1]
    starts = np.zeros((*batch_shape, len(shape)), object if indices.dtype == np.uint64 else np.int64)
    for i, dim in enumerate(index_map):
        starts[..., dim] = indices[..., i]
    for dim, index_dim in batching:
        starts[..., dim] = np.arange(batch_shape[index_dim]).reshape(
            [-1 if i == index_dim else 1 for i in range(len(batch_shape))]
        )
    last = np.array(shape, np.int64) - np.array(sizes, np.int64)
    if clip:
        starts = np.clip(starts, 0, last)
    inside = ((starts >= 0) & (starts <= last)).all(-1).ravel()
    starts = np.where(inside[:, None], starts.reshape(-1, len(shape)), 0).astype(np.int64)
    strides = np.array([math.prod(shape[i + 1 :]) for i in range(len(shape))], np.int64)
    steps = np.indices(sizes, np.int64).reshape(len(shape), -1)
    return (starts @ strides)[:, None] + strides @ steps, inside
