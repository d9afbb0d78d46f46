"""What a bug report should tell of the environment."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

from veery._api.placement import devices, process_count
from veery.version import VEERY_VERSION

_PACKAGES = "iree-base-compiler", "iree-base-runtime", "numpy", "ml_dtypes"


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and settings of the environment, for bug reports.

    Args:
        return_string: return the text instead of printing it.

    >>> import veery
    >>> veery.print_environment_info(return_string=True).startswith("veery:")
    True
    """
    found = devices()
    lines = [
        f"veery:  {VEERY_VERSION}",
        *(f"{name}: {_version(name)}" for name in _PACKAGES),
        f"python: {sys.version}",
        f"device info: {found[0].device_kind}-{len(found)}, {len(found)} local devices",
        f"process_count: {process_count()}",
        f"platform: {platform.uname()}",
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(("VEERY_", "JAX_"))),
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
