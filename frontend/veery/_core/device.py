"""What a device is, to those who ask before there is one."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any


class Device(abc.ABC):
    """A place where arrays are and programs run; `veery.devices()` lists them.

    Attributes:
        id: its number among those of its platform.
        platform: "cpu", "vulkan" or "cuda".
        device_kind: what the driver calls it.
    """

    id: int
    platform: str
    device_kind: str


def devices_text(devices: Sequence[Any]) -> str:
    """What a message calls one device, or several."""
    if len(devices) == 1:
        return f"device {devices[0]}"
    return f"device ids {[device.id for device in devices]} on platform {devices[0].platform.upper()}"


_with_arrays: list[Any] = []


def keeps_arrays(cached: Any) -> Any:
    """Decorate a cached function whose results have arrays: they are made anew after a device's loss."""
    _with_arrays.append(cached)
    return cached


def forget_arrays() -> None:
    """Forget all arrays that such functions keep."""
    for cached in _with_arrays:
        cached.cache_clear()
