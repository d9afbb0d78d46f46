"""Guards against transfers between host and devices that nobody asked for."""

from __future__ import annotations

import logging
from typing import Any

from veery._core.config import config
from veery._core.errors import JaxRuntimeError

logger = logging.getLogger("veery")


def guard(direction: str, value: Any, device: Any, explicit: bool = False) -> None:
    """Log or refuse a transfer, as the settings for its direction say.

    Args:
        direction: "host_to_device", "device_to_device" or "device_to_host".
        value: the aval of what is transferred.
        device: where to.
        explicit: whether the user asked for it (`device_put`, `device_get`).

    Raises:
        JaxRuntimeError: such transfers are disallowed.
    """
    level = getattr(config, f"jax_transfer_guard_{direction}")
    if level in (None, "allow") or (explicit and level in ("log", "disallow")):
        return
    words = f"{direction.replace('_', '-')} transfer: aval={value!r}, dst={device}"
    if level.startswith("log"):
        logger.warning(words)
    else:
        raise JaxRuntimeError(f"INVALID_ARGUMENT: Disallowed {words}")
