"""Functions chosen by the platform that the program is compiled for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core import provided, source
from veery._core.ad import NONDIFFERENTIABLE
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery.lax import _cond

PLATFORMS = ("cpu", "vulkan", "cuda", "rocm", "metal", "tpu")


@source.api_boundary
def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Apply the function for the platform that the program is compiled for.

    Args:
        *args: pytrees of arrays for the functions.
        default: the function for platforms that are not named.
        **per_platform: functions by platform ("cpu", "vulkan", "cuda"), with outputs of the same types.

    Returns:
        The output of the function for the platform. All are traced; only that one is compiled.

    Raises:
        TypeError: a branch is not callable, or outputs differ in type.
        ValueError: "gpu" is named, or nothing is.
        NotImplementedError: there is no function for the platform (when compiling).

    >>> import veery
    >>> float(veery.lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x))
    3.0
    """
    for name, branch in per_platform.items():
        if not callable(branch):
            raise TypeError(f"lax.platform_dependent: the '{name}' branch must be a callable.")
        if name == "gpu":
            raise ValueError("Use 'cuda', 'vulkan' or 'rocm' for lax.platform_dependent.")
    if default is not None and not callable(default):
        raise TypeError("lax.platform_dependent: the 'default' branch must be a callable.")
    branches = [*per_platform.values(), *([] if default is None else [default])]
    if not branches:
        raise ValueError("lax.platform_dependent: no branches were given.")
    labels = tuple(f"{name!r} branch" for name in (*per_platform, *(["default"] if default else [])))
    index = platform_index_p.bind(platforms=tuple(per_platform), has_default=default is not None)
    if len(branches) == 1:
        # still an operation on the index, so that another platform is refused
        branches, labels = branches * 2, labels * 2
    return _cond.choose(index, branches, args, "platform_dependent", labels)


def platform_position(platform: str, platforms: tuple[str, ...], has_default: bool) -> int:
    """The position of the branch for a platform; the default is the last.

    Raises:
        NotImplementedError: there is none.
    """
    if platform in platforms:
        return platforms.index(platform)
    if has_default:
        return len(platforms)
    raise NotImplementedError(
        f"lax.platform_dependent: no branch for platform {platform!r}; there are {', '.join(platforms)} and no default"
    )


def _impl(*, platforms: tuple[str, ...], has_default: bool) -> np.ndarray:
    position = platform_position(provided.backend.default_hardware(), platforms, has_default)
    return np.asarray(position, np.int32)


platform_index_p: Primitive = Primitive(
    "platform_index",
    abstract_eval=lambda **_: ShapedArray((), np.int32),
    jvp=NONDIFFERENTIABLE,
    batch=lambda args, dims, **params: (platform_index_p.bind(**params), None),
    impl=_impl,
    reference=lambda *, platforms, has_default: np.asarray(platform_position("cpu", platforms, has_default), np.int32),
)
