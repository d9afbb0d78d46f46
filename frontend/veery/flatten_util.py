"""Pytrees of arrays as one vector."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core import dtypes
from veery._core.tree import PyTreeDef, tree_flatten


@dataclass(frozen=True)
class _Unravel:
    """Takes a vector apart into a pytree. Hashable, so that it may be a static argument."""

    treedef: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    vector_dtype: Any

    def __call__(self, flat: Any) -> Any:
        sizes = [math.prod(shape) for shape in self.shapes]
        if jnp.shape(flat) != (sum(sizes),):
            raise ValueError(f"unravel function given array of shape {jnp.shape(flat)}, but expected {(sum(sizes),)}")
        # Leaves of one dtype take that of the vector: the vector may be in another precision than the tree was.
        mixed = len(set(self.dtypes)) > 1
        dtype = dtypes.dtype_of(flat)
        if mixed and dtype != self.vector_dtype:
            raise TypeError(f"unravel function given array of dtype {dtype}, but expected dtype {self.vector_dtype}")
        flat = jnp.asarray(flat)
        ends = list(itertools.accumulate(sizes))
        leaves = [
            lax.reshape(lax.slice(flat, (end - size,), (end,)), shape)
            for end, size, shape in zip(ends, sizes, self.shapes)
        ]
        if mixed:
            leaves = [_unpromoted(leaf, dtype) for leaf, dtype in zip(leaves, self.dtypes)]
        return self.treedef.unflatten(leaves)


def _unpromoted(leaf: Any, dtype: Any) -> Any:
    """A leaf in the dtype it had; what was real beside complex numbers has no imaginary part to warn of."""
    if dtypes.issubdtype(leaf.dtype, np.complexfloating) and not dtypes.issubdtype(dtype, np.complexfloating):
        leaf = lax.real(leaf)
    return lax.convert_element_type(leaf, dtype)


def ravel_pytree(pytree: Any) -> tuple[Any, Any]:
    """A pytree of arrays as a vector.

    Args:
        pytree: arrays and scalars of any shapes and dtypes.

    Returns:
        The vector of all elements, leaf after leaf, in the dtype that the leaves promote to; and the function that
        makes a pytree of such a vector.

    Raises:
        TypeError: a leaf is not an array.

    >>> vector, unravel = ravel_pytree({"a": 1.0, "b": [2.0, 3.0]})
    >>> vector
    Array([1., 2., 3.], dtype=float32)
    >>> unravel(vector)["b"]
    [Array(2., dtype=float32), Array(3., dtype=float32)]
    """
    leaves, treedef = tree_flatten(pytree)
    leaf_dtypes = tuple([dtypes.dtype_of(leaf) for leaf in leaves])
    vector_dtype = dtypes.result_type(*leaf_dtypes) if leaves else dtypes.default_float_dtype()
    unravel = _Unravel(treedef, tuple([jnp.shape(leaf) for leaf in leaves]), leaf_dtypes, vector_dtype)
    if not leaves:
        return jnp.zeros((0,), vector_dtype), unravel
    flat = [lax.convert_element_type(jnp.ravel(leaf), vector_dtype) for leaf in leaves]
    return jnp.concatenate(flat), unravel
