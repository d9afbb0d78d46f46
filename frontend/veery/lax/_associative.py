"""Scans with an associative operation, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, source, tree
from veery._core.shapes import canonicalize_axis
from veery.lax import _convert, _shape, _slicing

Combine = Callable[[list[Any], list[Any]], list[Any]]


@source.api_boundary
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All the running combinations of elements along an axis by an associative operation, in O(log n) steps.

    Args:
        fn: combines two pytrees like `elems`, element by element along the axis; associative.
        elems: pytree of arrays of the same length along the axis.
        reverse: whether to combine from the last element to the first.
        axis: the axis.

    Returns:
        A pytree like `elems`: at position i the combination of elements 0 to i.

    Raises:
        TypeError: fn is not callable.
        ValueError: lengths differ.

    >>> import veery, veery.numpy as jnp
    >>> veery.lax.associative_scan(jnp.add, jnp.arange(4)).tolist()
    [0, 1, 3, 6]
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, treedef = tree.tree_flatten(elems)
    if not leaves:
        return elems
    axis = canonicalize_axis(axis, np.ndim(leaves[0]))
    count = np.shape(leaves[0])[axis]
    if any(np.shape(x)[axis] != count for x in leaves[1:]):
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. (saw: "
            f"{[np.shape(x) for x in leaves]})"
        )
    turned = lambda xs: [_shape.rev(x, (axis,)) for x in xs] if reverse else xs

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return tree.tree_leaves(fn(tree.tree_unflatten(treedef, a), tree.tree_unflatten(treedef, b)))

    scanned = _scan(combine, turned(leaves), axis)
    if count > 1:  # of what is joined, a weak type is no more
        scanned = [_convert.convert_element_type(x, dtypes.dtype_of(x)) for x in scanned]
    return tree.tree_unflatten(treedef, turned(scanned))


def _scan(combine: Combine, xs: Sequence[Any], axis: int) -> list[Any]:
    """Pairs of neighbours are scanned recursively, which gives every second result; the others lack one element."""
    count = np.shape(xs[0])[axis]
    if count < 2:
        return list(xs)
    take = lambda x, start, stop=None, step=1: _slicing.slice_in_dim(x, start, stop, step, axis)
    pairs = combine([take(x, 0, count - 1, 2) for x in xs], [take(x, 1, count, 2) for x in xs])
    odd = _scan(combine, pairs, axis)
    before = [take(x, 0, (count - 1) // 2) for x in odd]  # what precedes the elements 2, 4, ...
    even = [take(x, 0, 1) for x in xs]
    if count > 2:
        rest = combine(before, [take(x, 2, count, 2) for x in xs])
        even = [_shape.concatenate([a, b], axis) for a, b in zip(even, rest)]
    return [_interleave(a, b, axis) for a, b in zip(even, odd)]


def _interleave(a: Any, b: Any, axis: int) -> Any:
    """a[0], b[0], a[1], b[1], ...; a may have one element more."""
    n = np.shape(b)[axis]
    head = _slicing.slice_in_dim(a, 0, n, axis=axis)
    stacked = _shape.concatenate([_shape.expand_dims(x, (axis + 1,)) for x in (head, b)], axis + 1)
    shape = np.shape(b)
    result = _shape.reshape(stacked, (*shape[:axis], 2 * n, *shape[axis + 1 :]))
    if np.shape(a)[axis] == n:
        return result
    return _shape.concatenate([result, _slicing.slice_in_dim(a, n, n + 1, axis=axis)], axis)
