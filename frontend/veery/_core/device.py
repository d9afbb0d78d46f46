"""What a device is, to those who ask before there is one."""

from __future__ import annotations

import abc


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
