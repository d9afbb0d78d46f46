"""What the sparse formats share: warnings and errors, functions over leading axes, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from veery import numpy as jnp
from veery._api.vectorize import vmap

Array = Any
Shape = tuple[int, ...]


class SparseEfficiencyError(ValueError):
    """An operation would store more than a dense array has."""


class SparseEfficiencyWarning(UserWarning):
    """An operation stores more than a dense array has."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """A name of JAX's, for GPUs of one vendor. Never warned of here."""


class SparseInfo(NamedTuple):
    """What a sparse array knows beside its buffers."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False


def nfold_vmap(fun: Callable[..., Any], N: int, *, broadcasted: bool = True, in_axes: Any = 0) -> Callable[..., Any]:
    """A function over N leading axes of its arguments, which are of one size, or of size 1 where `broadcasted`."""
    for _ in range(N):
        fun = broadcasting_vmap(fun, in_axes) if broadcasted else vmap(fun, in_axes)
    return fun


def broadcasting_vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """`vmap` whose arguments may be of size 1 along the mapped axis."""

    def mapped(*args: Any) -> Any:
        size = max((x.shape[0] for x in args if jnp.ndim(x)), default=1)
        if size == 0 or all(x.shape[0] == size for x in args):
            return vmap(fun, in_axes, out_axes)(*args)
        axes = [0 if x.shape[0] == size else None for x in args]
        return vmap(fun, axes, out_axes)(*[x if a == 0 else x[0] for x, a in zip(args, axes)])

    return mapped


def per_axis(values: Any, indices: Array) -> Array:
    """A number for each axis that indices have, as an array of their rank and dtype."""
    row = jnp.asarray(values, indices.dtype)
    return row.reshape(*[1] * (indices.ndim - 1), row.size)


def columns(indices: Array, which: Sequence[int] | None = None) -> tuple[Array, ...]:
    """The columns of a matrix of indices, for indexing."""
    return tuple(indices[..., i] for i in (range(indices.shape[-1]) if which is None else which))
