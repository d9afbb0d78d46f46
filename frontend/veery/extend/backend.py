"""Platforms as objects, for libraries that ask what computations run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from veery import _dispatch
from veery._api import placement
from veery._core.absent import attributes as _attributes


@dataclass(frozen=True)
class Backend:
    """A platform.

    Attributes:
        platform: "cpu", "vulkan" or "cuda".
    """

    platform: str

    def devices(self) -> list[Any]:
        """Its devices."""
        return placement.devices(self.platform)

    local_devices = devices

    def device_count(self) -> int:
        """The number of its devices."""
        return len(self.devices())

    local_device_count = device_count

    def process_index(self) -> int:
        """The index of this process among those that compute together."""
        return placement.process_index()

    @property
    def platform_version(self) -> str:
        """What compiles for it."""
        return f"IREE {version('iree-base-compiler')}"


def get_backend(platform: str | Backend | None = None) -> Backend:
    """The backend of a platform, by default of the default one.

    Raises:
        RuntimeError: the platform is unknown, or its driver is missing.

    >>> get_backend("cpu").devices()[0].platform
    'cpu'
    """
    if isinstance(platform, Backend):
        return platform
    backend = Backend(platform or placement.default_backend())
    backend.devices()
    return backend


def backends() -> dict[str, Backend]:
    """The backends that are in use without being asked for: the CPU, and the default one."""
    return {name: Backend(name) for name in dict.fromkeys(("cpu", placement.default_backend()))}


def get_default_device() -> Any:
    """Where new arrays go."""
    return _dispatch.default_device()


def clear_in_memory_compilation_cache() -> None:
    """Forget all traces and compiled programs of this process (those on disk stay)."""
    placement.clear_caches()


def register_backend_cache(cache: Callable[..., Any], for_what: str) -> None:
    """Accepted for compatibility: backends are not taken down, so that no cache of theirs goes stale."""


def backend_xla_version(platform: str | None = None) -> None:
    """None: there is no XLA."""


__getattr__, __dir__ = _attributes(__name__)
