"""Arrays that are laid out alike over devices."""

from __future__ import annotations

from typing import Any

from veery._api.placement import device_put
from veery._core import tree
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Both, laid out alike: where one is on several devices and the other is not, the other is divided as it is.

    While a function is traced they stay as they are, for programs are not partitioned.

    Args:
        x, y: pytrees of arrays of the same structure and shapes.

    Raises:
        ValueError: structures or shapes differ.

    >>> import veery.numpy as jnp
    >>> shard_alike(jnp.ones(2), jnp.zeros(2))
    (Array([1., 1.], dtype=float32), Array([0., 0.], dtype=float32))
    """
    (xs, of_x), (ys, of_y) = tree.tree_flatten(x), tree.tree_flatten(y)
    if of_x != of_y:
        raise ValueError(f"Trees should be equal. Got x_tree: {of_x}, y_tree: {of_y}")
    for a, b in zip(xs, ys):
        if aval_of(a).shape != aval_of(b).shape:
            raise ValueError(
                f"The leaves shapes of `x` and `y` should match. Got `x` leaf shape: {aval_of(a).shape} and `y` leaf "
                f"shape: {aval_of(b).shape}."
            )
    pairs = [(_as(a, b), _as(b, a)) for a, b in zip(xs, ys)]
    return tuple(tree.tree_unflatten(of_x, [pair[i] for pair in pairs]) for i in (0, 1))  # type: ignore[return-value]


def _as(a: Any, b: Any) -> Any:
    """The array, divided as another is."""
    if isinstance(a, ArrayImpl) and isinstance(b, ArrayImpl):
        if a._buffer.device is not None and b._buffer.device is None:
            return device_put(a, b.sharding)
    return a
