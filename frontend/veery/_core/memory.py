"""The kinds of memory that arrays lie in, and what types tell of them."""

from __future__ import annotations

import enum

DEVICE = "device"  # the kind that arrays are in unless something else is asked for
HOST = "pinned_host"


class MemorySpace(enum.Enum):
    """The memory that an array is in, as its type tells it.

    >>> import veery, veery.numpy as jnp
    >>> x = veery.device_put(jnp.ones(2), veery.memory.Space.Host)
    >>> x.sharding.memory_kind, veery.typeof(x)
    ('pinned_host', ShapedArray(float32<host>[2]))
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"


def space_of(kind: str | None) -> MemorySpace:
    """What types tell of a kind of memory. "unpinned_host" is no memory of its own to them, as in JAX."""
    return MemorySpace.Host if kind == HOST else MemorySpace.Device


def kind_of(space: MemorySpace) -> str:
    """The kind of memory for arrays of a type."""
    return HOST if space is MemorySpace.Host else DEVICE
