"""The platforms that a process may use, and their devices."""

from __future__ import annotations

from typing import Any

from veery import _dispatch
from veery._core.config import check_platforms_by, config

_GPUS = ("cuda", "vulkan")

check_platforms_by(lambda name: name in ("cpu", "gpu", *_GPUS) or _dispatch.runtime().discovery.is_platform(name))


def devices(backend: str | None = None) -> list[Any]:
    """The devices of a platform ("cpu", "vulkan", "cuda"); by default those of the default platform.

    Raises:
        RuntimeError: the platform is unknown, its driver is missing (the message says what was looked for), or the
            setting `jax_platforms` leaves it out.

    >>> import veery
    >>> veery.devices("cpu")[0].platform
    'cpu'
    """
    return _dispatch.runtime().devices(_permitted(backend or _dispatch.default_device().platform))


def _permitted(platform: str) -> str:
    """The platform, "gpu" being the one that is named, if `jax_platforms` names any."""
    if not config.jax_platforms or platform == "cpu":  # the host evaluates on the CPU, whatever is named
        return platform
    named = config.jax_platforms.split(",")
    if platform == "gpu":
        platform = next((name for name in named if name in _GPUS), platform)
    if platform not in named and not ("gpu" in named and platform in _GPUS):
        raise RuntimeError(
            f"Unknown backend: {platform!r} is none of the platforms that this process may use, which are those of "
            f"jax_platforms: {config.jax_platforms!r}. Name it there (JAX_PLATFORMS in the environment) to use it."
        )
    return platform
