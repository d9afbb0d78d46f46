"""The operations that the core and the transformations make themselves (see `veery._core.provided`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._transforms.staging import stage as stage
from veery.lax import _arithmetic, _parallel, _placement, _reduce, _refs, _shape
from veery.lax._dimension import dimension_value as dimension_value
from veery.lax._shape import broadcast_in_dim as broadcast_in_dim, moveaxis as moveaxis, zeros as zeros


def add(x: Any, y: Any) -> Any:
    """The sum of two tangents."""
    return _arithmetic.add_p.bind(x, y)


def copy(x: Any) -> Any:
    """The same value, as the result of an equation."""
    return _shape.copy_p.bind(x)


def reshard(x: Any, sharding: Any) -> Any:
    """The value divided in another way over Explicit axes of a mesh."""
    return _placement.reshard_p.bind(x, sharding=sharding)


def read(ref: Any) -> Any:
    """What a reference holds."""
    return _refs.get_p.bind(ref, indexers=())


def new_ref(value: Any) -> Any:
    """A reference that holds a value."""
    return _refs.new_ref_p.bind(value, kind=None)


def write(ref: Any, value: Any) -> None:
    """Replace what a reference holds."""
    _refs.swap_p.bind(ref, value, indexers=())


def invariant_sum(x: Any, axes: Sequence[Any]) -> Any:
    """The sum over named axes of a mesh, along which it does not vary any more."""
    return _parallel.reduce_axes("psum", x, tuple(axes))


def sum_over(x: Any, axes: Sequence[int]) -> Any:
    """The sum over some dimensions."""
    return _reduce.reduce_sum_p.bind(x, axes=tuple(axes))
