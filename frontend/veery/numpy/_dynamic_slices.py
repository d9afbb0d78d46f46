"""Index expressions with slices of a traced start, `x[ds(i, 2)]`: a window of the array, and an index into that."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from veery import lax
from veery._core.slices import Slice
from veery.lax import GatherScatterMode
from veery.numpy._arithmetic import choose
from veery.numpy._index_expressions import as_entries, consumed

Array = Any


class Window(NamedTuple):
    """A part of an array, of some size from some start in each dimension, and what is indexed of it."""

    starts: tuple[Any, ...]
    sizes: tuple[int, ...]
    rest: tuple[Any, ...]

    def of(self, x: Array) -> Array:
        """The window of an array, moved inside."""
        return lax.dynamic_slice(x, self.starts, self.sizes, allow_negative_indices=False)


def window_of(shape: tuple[int, ...], idx: Any) -> Window:
    """An index expression with Slices as a window and the rest.

    Raises:
        IndexError: something in it is no index.
        TypeError: a window is larger than its dimension.
    """
    starts: list[Any] = [np.int32(0)] * len(shape)
    sizes, rest, axis = list(shape), [], 0
    for entry in as_entries(idx, len(shape)):
        if isinstance(entry, Slice):
            starts[axis], sizes[axis] = _from_start(entry.start, shape[axis]), entry.span
            entry = slice(None, None, entry.stride)
        rest.append(entry)
        axis += consumed(entry)
    return Window(tuple(starts), tuple(sizes), tuple(rest))


def _from_start(start: Any, n: int) -> Any:
    """A start that is negative counts from the end."""
    start = lax.convert_element_type(start, np.int32)
    return choose(lax.lt(start, np.int32(0)), lax.add(start, np.int32(n)), start)


def write_window(x: Array, idx: Any, update: Callable[[Array, Any], Array], mode: Any) -> Array:
    """x with its window updated, `update(window, index)`; out of bounds it stays as it is, unless it is to be moved."""
    window = window_of(x.shape, idx)
    out = lax.dynamic_update_slice(x, update(window.of(x), window.rest), window.starts, allow_negative_indices=False)
    if mode is GatherScatterMode.CLIP:
        return out
    inside = [
        lax.bitwise_and(lax.ge(start, np.int32(0)), lax.le(start, np.int32(n - size)))
        for start, size, n in zip(window.starts, window.sizes, x.shape)
        if size != n
    ]
    return choose(functools.reduce(lax.bitwise_and, inside), out, x) if inside else out
