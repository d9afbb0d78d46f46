"""Which axes of a mesh divide which dimensions of an array."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any


class _Unconstrained:
    """Stands in a PartitionSpec for a dimension of which nothing is said."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


def _entry(entry: Any) -> Any:
    """One dimension's entry in its simplest form: None, a name, or a tuple of several names."""
    if not isinstance(entry, (tuple, list)):
        return entry
    names = tuple(entry)
    return None if not names else names[0] if len(names) == 1 else names


class PartitionSpec:
    """For each dimension of an array, the mesh axes that divide it.

    Args:
        *partitions: a name, a tuple of names (the first divides coarsest), or None for a dimension that is not divided.
            Dimensions beyond them are not divided.
        unreduced: axes over which values are still to be summed.
        reduced: axes over which values were summed.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    >>> PartitionSpec("x") + ("y",)
    P('x', 'y')
    """

    __slots__ = ("partitions", "unreduced", "reduced", "__weakref__")
    UNCONSTRAINED = UNCONSTRAINED

    def __init__(
        self, *partitions: Any, unreduced: Collection[Any] = frozenset(), reduced: Collection[Any] = frozenset()
    ):
        self.partitions = tuple(map(_entry, partitions))
        self.unreduced = frozenset(unreduced)
        self.reduced = frozenset(reduced)

    def update(self, **changes: Any) -> PartitionSpec:
        """The spec with some of partitions, unreduced and reduced replaced."""
        fields = {"partitions": self.partitions, "unreduced": self.unreduced, "reduced": self.reduced} | changes
        return PartitionSpec(*fields.pop("partitions"), **fields)

    def index(self, value: Any) -> int:
        """The first dimension with this entry."""
        return self.partitions.index(_entry(value))

    def count(self, value: Any) -> int:
        """The number of dimensions with this entry."""
        return self.partitions.count(_entry(value))

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, i: Any) -> Any:
        return self.partitions[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            sets = dict(unreduced=self.unreduced | other.unreduced, reduced=self.reduced | other.reduced)
            return PartitionSpec(*self.partitions, *other.partitions, **sets)
        if not isinstance(other, tuple):
            raise NotImplementedError(f"a PartitionSpec and a {type(other).__name__} cannot be joined")
        return self.update(partitions=(*self.partitions, *other))

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            raise NotImplementedError(f"a {type(other).__name__} and a PartitionSpec cannot be joined")
        return self.update(partitions=(*other, *self.partitions))

    def _key(self) -> tuple[Any, ...]:
        return self.partitions, self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        text = ", ".join(map(repr, self.partitions)) + ("," if len(self.partitions) == 1 else "")
        sets = [f"{name}={set(value)}" for name in ("unreduced", "reduced") if (value := getattr(self, name))]
        if not sets:
            return f"P({text})"
        return f"P({', '.join([text.rstrip(','), *sets] if text else sets)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, self._key()


def _remake(partitions: tuple[Any, ...], unreduced: frozenset[Any], reduced: frozenset[Any]) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def axes_of(entry: Any) -> tuple[Any, ...]:
    """The mesh axes that divide a dimension, the coarsest first."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def axes_in(spec: PartitionSpec) -> tuple[Any, ...]:
    """All mesh axes that a spec names, in its order."""
    return tuple(axis for entry in spec for axis in axes_of(entry))
