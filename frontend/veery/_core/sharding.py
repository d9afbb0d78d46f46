"""Where the elements of an array are: so far on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MEMORY = "device"  # devices have one kind


class Sharding:
    """How an array is laid out over devices; base of the layouts."""

    __slots__ = ()

    device_set: set[Any]

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.device_set)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process among them: all."""
        return self.device_set

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return True

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some device belongs to this process."""
        return True


class SingleDeviceSharding(Sharding):
    """An array in one piece.

    Args:
        device: where it is.
        memory_kind: the kind of memory there; devices have one, "device".

    Raises:
        ValueError: the device has no such memory.

    >>> import veery
    >>> place = SingleDeviceSharding(veery.devices("cpu")[0])
    >>> veery.device_put(1.0, place).sharding == place
    True
    """

    __slots__ = ("_device",)

    def __init__(self, device: Any, *, memory_kind: str | None = None):
        if memory_kind not in (None, _MEMORY):
            raise ValueError(
                f"Could not find memory addressable by device {device}. Device {device} can address the following "
                f"memory kinds: {_MEMORY}. Got memory kind: {memory_kind}"
            )
        self._device = device

    @property
    def device_set(self) -> set[Any]:  # type: ignore[override]
        """The device, as a set."""
        return {self._device}

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        return True

    @property
    def memory_kind(self) -> str:
        """The kind of memory that holds the array."""
        return _MEMORY

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The same device, in memory of that kind."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the piece on each device: the whole."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """What part of the array each device holds."""
        return {self._device: (slice(None),) * len(tuple(global_shape))}

    addressable_devices_indices_map = devices_indices_map

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Arrays of any shape can be in one piece."""

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of that rank are laid out alike."""
        return self == other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device is other._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={_MEMORY})"


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of arrays in one piece on a device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)
