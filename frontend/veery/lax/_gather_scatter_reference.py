"""Gather and scatter spelled out: one window after the other."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
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
    out = np.empty(batch_shape + window_shape, x.dtype)
    for batch, window in _windows(x.shape, indices, index_map, batching, sizes, clip):
        out[batch] = fill_value if window is None else x[window].reshape(window_shape)
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
    out = np.array(x)
    order = _interleave(updates.ndim, indices.ndim - 1, window_dims)
    updates = np.transpose(updates, np.argsort(order) if order else ())
    for batch, window in _windows(x.shape, indices, index_map, batching, sizes, clip):
        if window is not None:
            with np.errstate(all="ignore"):
                out[window] = combine(out[window], updates[batch].reshape(sizes))
    return out


def _interleave(ndim: int, batch_ndim: int, window_dims: Sequence[int]) -> list[int]:
    """The permutation that takes (batch, window) dimensions to where window dimensions are at `window_dims`."""
    batch, windows = iter(range(batch_ndim)), iter(range(batch_ndim, ndim))
    return [next(windows) if i in window_dims else next(batch) for i in range(ndim)]


def _windows(
    shape: Shape,
    indices: np.ndarray,
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
    sizes: Shape,
    clip: bool,
) -> Iterator[tuple[Shape, tuple[builtins.slice, ...] | None]]:
    """For each index vector, its place and the window of the operand, None where that is out of bounds."""
    for batch in np.ndindex(*indices.shape[:-1]):
        starts = [0] * len(shape)
        for dim, start in zip(index_map, indices[batch]):
            starts[dim] = int(start)
        for dim, index_dim in batching:
            starts[dim] = batch[index_dim]
        if clip:
            starts = [min(max(s, 0), d - n) for s, d, n in zip(starts, shape, sizes)]
        inside = all(0 <= s <= d - n for s, d, n in zip(starts, shape, sizes))
        yield batch, tuple(builtins.slice(s, s + n) for s, n in zip(starts, sizes)) if inside else None
