"""Where the elements of an array are."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from veery._core.errors import DuplicateSpecError, IndivisibleError
from veery._core.memory import DEVICE
from veery._core.mesh import AbstractMesh, Mesh, devices_of
from veery._core.partition_spec import PartitionSpec, axes_in, axes_of

Index = tuple[slice, ...]


def _checked_memory(kind: str | None, device: Any) -> str:
    """A kind of memory of a device, its own if none is named.

    Raises:
        ValueError: the device has no such memory.
    """
    if kind is None:
        return DEVICE
    device.memory(kind)
    return kind


class Sharding:
    """How an array is laid out over devices; base of the layouts."""

    __slots__ = ()

    @property
    def device_set(self) -> set[Any]:
        """The devices."""
        return set(self._device_assignment)

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        """The devices in order."""
        raise NotImplementedError("A subclass of Sharding should implement _device_assignment.")

    def _blocks(self, ndim: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Into how many blocks each dimension is divided, and which block each device has, in order."""
        raise NotImplementedError("A subclass of Sharding should implement _blocks.")

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.device_set)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process among them: all."""
        return self.device_set

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:
        return self._device_assignment

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return bool(self.device_set)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some device belongs to this process."""
        return bool(self.device_set)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        raise NotImplementedError("A subclass of Sharding should implement is_fully_replicated.")

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        return DEVICE

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same devices, in memory of that kind."""
        raise NotImplementedError("A subclass of Sharding should implement with_memory_kind.")

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the piece on each device.

        Raises:
            ValueError: a dimension cannot be divided into equal pieces.
        """
        shape = tuple(global_shape)
        counts, _ = self._blocks(len(shape))
        for axis, (size, count) in enumerate(zip(shape, counts)):
            if size % count:
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {axis} is partitioned {count} times, but the dimension "
                    f"size is {size} (full shape: {shape}, per-dimension tiling factors: {list(counts)} should evenly "
                    "divide the shape)"
                )
        return tuple(size // count for size, count in zip(shape, counts))

    def indices(self, shape: tuple[int, ...]) -> list[Index]:
        """What part of an array of that shape each device has, in order."""
        piece = self.shard_shape(shape)
        counts, blocks = self._blocks(len(shape))
        whole = slice(None)
        return [
            tuple(whole if n == 1 else slice(i * d, (i + 1) * d) for i, n, d in zip(block, counts, piece))
            for block in blocks
        ]

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """What part of the array each device holds."""
        return dict(zip(self._device_assignment, self.indices(tuple(global_shape))))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """What part of the array each device of this process holds."""
        return self.devices_indices_map(global_shape)

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of that shape have too few dimensions."""

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of that rank are laid out alike."""
        if self == other:
            return True
        same_place = (self._device_assignment, self.memory_kind) == (other._device_assignment, other.memory_kind)
        return same_place and self._blocks(ndim) == other._blocks(ndim)


class SingleDeviceSharding(Sharding):
    """An array in one piece.

    Args:
        device: where it is.
        memory_kind: the kind of memory there, "device" (if None), "pinned_host" or on CPUs "unpinned_host".

    Raises:
        ValueError: the device has no such memory.

    >>> import veery
    >>> place = SingleDeviceSharding(veery.devices("cpu")[0])
    >>> veery.device_put(1.0, place).sharding == place
    True
    """

    __slots__ = ("_device", "_memory_kind")

    def __init__(self, device: Any, *, memory_kind: str | None = None):
        self._device = device
        self._memory_kind = _checked_memory(memory_kind, device)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array."""
        return self._memory_kind

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        return (self._device,)

    def _blocks(self, ndim: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        return (1,) * ndim, ((0,) * ndim,)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        return True

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The same device, in memory of that kind."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SingleDeviceSharding):
            return False
        return self._device is other._device and self._memory_kind == other._memory_kind

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device, self._memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self._memory_kind})"


class NamedSharding(Sharding):
    """An array whose dimensions are divided by axes of a mesh.

    Args:
        mesh: the mesh, of devices or abstract.
        spec: which axes divide which dimensions.
        memory_kind: the kind of memory, "device" (if None), "pinned_host" or on CPUs "unpinned_host".

    Raises:
        TypeError: the spec is no PartitionSpec.
        ValueError: the spec names an axis that the mesh does not have, or there is no such memory.
        DuplicateSpecError: the spec names an axis twice.

    >>> import veery
    >>> place = NamedSharding(veery.sharding.Mesh(veery.devices("cpu")[:1], "x"), PartitionSpec("x"))
    >>> place.shard_shape((4, 2))
    (4, 2)
    """

    __slots__ = ("mesh", "spec", "_memory_kind", "_logical_device_ids", "__weakref__")

    def __init__(
        self,
        mesh: Mesh | AbstractMesh,
        spec: PartitionSpec,
        memory_kind: str | None = None,
        _logical_device_ids: tuple[int, ...] | None = None,
    ):
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(f"NamedSharding: the mesh is a Mesh or an AbstractMesh, got {mesh!r} of type {type(mesh)}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding: the spec is a PartitionSpec, got {spec!r} of type {type(spec)}")
        if isinstance(mesh, Mesh) and mesh.size:
            memory_kind = _checked_memory(memory_kind, mesh.devices.flat[0])
        seen = set()
        for axis in (*axes_in(spec), *spec.unreduced, *spec.reduced):
            if axis not in mesh.axis_names:
                raise ValueError(f"Resource axis: {axis} of {spec} is not found in mesh: {mesh.axis_names}.")
        for axis in axes_in(spec):
            if axis in seen:
                raise DuplicateSpecError(
                    "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                    f"dimension, but {spec} has duplicate entries for `{axis}`"
                )
            seen.add(axis)
        self.mesh = mesh
        self.spec = spec
        self._memory_kind = memory_kind
        self._logical_device_ids = _logical_device_ids

    def _concrete(self, what: str) -> Mesh:
        if not isinstance(self.mesh, Mesh):
            raise ValueError(f"{what} is not implemented for `jax.sharding.AbstractMesh`.")
        return self.mesh

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        return devices_of(self._concrete("device_assignment"))

    @property
    def device_set(self) -> set[Any]:
        """The devices."""
        return set(devices_of(self._concrete("device_set")))

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return bool(self._concrete("is_fully_addressable").size) or self.mesh.axis_names == ()

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return math.prod(self.mesh.axis_sizes)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the array; None where the mesh is abstract and none was named."""
        return self._memory_kind

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        return all(self.mesh.shape[axis] == 1 for axis in axes_in(self.spec))

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes that divide no dimension."""
        return frozenset(self.mesh.axis_names) - set(axes_in(self.spec)) - self.spec.unreduced

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same devices, in memory of that kind."""
        return NamedSharding(self.mesh, self.spec, kind)

    def update(self, **changes: Any) -> NamedSharding:
        """The sharding with some of mesh, spec and memory_kind replaced."""
        fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self._memory_kind} | changes
        return NamedSharding(**fields)

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of that shape have too few dimensions."""
        if len(self.spec) > len(aval_shape):
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but was applied to a "
                f"value of rank {len(aval_shape)}."
            )

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the piece on each device.

        Raises:
            ValueError: there are too few dimensions, or one cannot be divided into equal pieces.
        """
        self.check_compatible_aval(global_shape)
        return super().shard_shape(global_shape)

    def _blocks(self, ndim: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        return _blocks(self.mesh.axis_names, self.mesh.axis_sizes, self.spec, ndim)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, NamedSharding) or self._memory_kind != other._memory_kind:
            return False
        return self.spec == other.spec and self.mesh == other.mesh

    def __hash__(self) -> int:
        return hash((NamedSharding, self.mesh, self.spec, self._memory_kind))

    def __repr__(self) -> str:
        memory = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{memory})"


@functools.lru_cache(maxsize=1024)
def _blocks(
    names: tuple[Any, ...], sizes: tuple[int, ...], spec: PartitionSpec, ndim: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    entries = [axes_of(entry) for entry in spec][:ndim]
    entries += [()] * (ndim - len(entries))
    size_of = dict(zip(names, sizes))
    counts = tuple(math.prod(size_of[axis] for axis in axes) for axes in entries)
    blocks = []
    for position in range(math.prod(sizes)):
        place, rest = {}, position
        for name, size in zip(reversed(names), reversed(sizes)):
            rest, place[name] = divmod(rest, size)
        block = []
        for axes in entries:
            number = 0
            for axis in axes:  # the first divides coarsest
                number = number * size_of[axis] + place[axis]
            block.append(number)
        blocks.append(tuple(block))
    return counts, tuple(blocks)


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of arrays in one piece on a device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)
