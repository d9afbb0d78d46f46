"""The order of elements in memory. There is one: row by row."""

from __future__ import annotations

from typing import Any

from veery._core import tree
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of
from veery._core.layout import Format as Format, Layout as Layout, sharding_of
from veery._core.sharding import SingleDeviceSharding
from veery._core.trace import Tracer


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Have values in memory in a certain order, which is row by row.

    Args:
        x: a pytree of arrays.
        layouts: a Layout for all, or a pytree prefix of them.

    Raises:
        ValueError: a layout has another number of dimensions than its value, or the value is no array.
        NotImplementedError: a layout is not row by row.

    >>> import veery.numpy as jnp
    >>> with_layout_constraint(jnp.ones((1, 2)), Layout((0, 1)))
    Array([[1., 1.]], dtype=float32)
    """
    leaves, treedef = tree.tree_flatten(x)
    for leaf, layout in zip(leaves, tree.flatten_axes("with_layout_constraint layouts", treedef, layouts)):
        if not isinstance(layout, Layout):
            raise TypeError(f"with_layout_constraint: a Layout is expected, got {layout!r}")
        if not isinstance(leaf, (ArrayImpl, Tracer)):
            raise ValueError(
                f"with_layout_constraint in eager mode can only be applied to jax.Arrays. Got {type(leaf)}"
            )
        try:
            sharding_of(Format(layout, SingleDeviceSharding(None)), aval_of(leaf).ndim)
        except ValueError as error:
            raise ValueError(
                f"One of with_layout_constraint arguments is incompatible with its layout annotation {layout}: {error}"
            ) from None
    return x
