"""Slices of a start and a size, of which the start may be traced."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from veery._core.array import Array
from veery._core.tree_registry import register_pytree_node


@dataclass(frozen=True)
class Slice:
    """Every `stride`-th element from `start`, `size` of them, as an index. Made by `veery.ds`."""

    start: Any
    size: int
    stride: int = 1

    def __post_init__(self) -> None:
        if self.stride < 0:
            raise ValueError("`stride` must be >= 0.")

    @property
    def span(self) -> int:
        """From the first element to the last one."""
        return (self.size - 1) * self.stride + 1 if self.size else 0


def _flatten(x: Slice) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return ((x.start,), (x.size, x.stride)) if isinstance(x.start, Array) else ((), (x.start, x.size, x.stride))


def _unflatten(data: tuple[Any, ...], children: Iterable[Any]) -> Slice:
    return Slice(*children, *data)


register_pytree_node(Slice, _flatten, _unflatten)


def ds(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """A slice of a start and a size, for arrays and references: `x[ds(i, 2)]` is `x[i:i+2]`, where i may be traced.

    Args:
        start: the first place, an integer or an array of one; without a size it is the size; None for all.
        size: how many elements; known when functions are traced.
        stride: from one element to the next; 1 if it is None.

    Raises:
        TypeError: the size is traced.
        ValueError: the stride is no int, or negative.

    >>> import veery, veery.numpy as jnp
    >>> veery.jit(lambda x, i: x[ds(i, 2)])(jnp.arange(10), 4)
    Array([4, 5], dtype=int32)
    """
    if start is None:
        return slice(None)
    if not isinstance(1 if stride is None else stride, int):
        raise ValueError("Non-static stride in `dslice`")
    if size is None:
        start, size = 0, start
    if isinstance(size, slice):
        raise TypeError(f"ds takes a start and a size, got the size {size}")
    return Slice(start, operator.index(size), 1 if stride is None else stride)


def has_slice(index: Any) -> bool:
    """Whether there is a Slice in an index expression."""
    return type(index) is Slice or (type(index) is tuple and Slice in map(type, index))
