"""Functions applied element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core import source, tree
from veery._core.flat import FlatFunction
from veery._transforms.batching import AxisData, batch, move_batch
from veery.lax import _shape, _slicing
from veery.lax._scan import leading_size, scan


@source.api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:  # noqa: A001
    """Apply a function to each element along the leading axis, one after the other.

    Args:
        f: the function.
        xs: pytree of arrays with a common leading axis.
        batch_size: how many elements are vectorised at a time; None for one, 0 for all.

    Returns:
        The results, stacked.

    >>> import veery, veery.numpy as jnp
    >>> veery.lax.map(lambda x: x * x, jnp.arange(4)).tolist()
    [0, 1, 4, 9]
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    n = leading_size(tree.tree_leaves(xs))
    if batch_size == 0:
        return _vectorized(f, xs, n)
    full = n - n % batch_size
    cut = lambda x, a, b: _slicing.slice_in_dim(x, a, b)
    blocks = tree.tree_map(
        lambda x: _shape.reshape(cut(x, 0, full), (full // batch_size, batch_size, *np.shape(x)[1:])), xs
    )
    ys = scan(lambda _, x: ((), _vectorized(f, x, batch_size)), (), blocks)[1]
    ys = tree.tree_map(lambda y: _shape.reshape(y, (full, *y.shape[2:])), ys)
    if full == n:
        return ys
    rest = _vectorized(f, tree.tree_map(lambda x: cut(x, full, n), xs), n - full)
    return tree.tree_map(lambda a, b: _shape.concatenate([a, b], 0), ys, rest)


def _vectorized(f: Callable[[Any], Any], xs: Any, size: int) -> Any:
    """The function applied to all elements at once."""
    leaves = tree.tree_leaves(xs)
    flat = FlatFunction(f, tree.tree_flatten((xs,))[1])
    outs, dims = batch(flat, AxisData(None, size), leaves, [0] * len(leaves))
    return tree.tree_unflatten(flat.out_tree, [move_batch(y, d, 0, size) for y, d in zip(outs, dims)])
