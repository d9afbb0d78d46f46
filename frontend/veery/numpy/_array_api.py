"""What the array API standard asks of a namespace about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._api.placement import devices as all_devices
from veery._core import dtypes

VERSION = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", VERSION)

_DTYPES = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS = {kind: (kind,) for kind in _DTYPES} | {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


class ArrayNamespaceInfo:
    """Devices, dtypes and capabilities of veery.numpy, as the array API standard's inspection interface.

    >>> import veery.numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32']
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether boolean masks index and shapes may depend on values (not in traced code), and the highest rank."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """The device of new arrays: None stands for it in `device=`."""
        return None

    def devices(self) -> list[Any]:
        """The devices that `device=` accepts."""
        return [None, *all_devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of arrays made of Python numbers, and that of indices."""
        return {
            "real floating": dtypes.default_float_dtype(),
            "complex floating": dtypes.default_complex_dtype(),
            "integral": dtypes.default_int_dtype(),
            "indexing": dtypes.default_int_dtype(),
        }

    def dtypes(self, *, device: Any = None, kind: str | Sequence[str] | None = None) -> dict[str, np.dtype]:
        """The standard's dtypes that are enabled, by name.

        Args:
            device: accepted for compatibility: all devices have the same.
            kind: a kind of dtypes such as "real floating", or several; None for all.

        Raises:
            ValueError: there is no such kind.
        """
        kinds = tuple(_DTYPES) if kind is None else (kind,) if isinstance(kind, str) else tuple(kind)
        unknown = [k for k in kinds if k not in _KINDS]
        if unknown:
            raise ValueError(f"Unknown dtype kind {unknown[0]!r}; expected one of {', '.join(map(repr, _KINDS))}.")
        names = [name for k in kinds for part in _KINDS[k] for name in _DTYPES[part]]
        found = {name: np.dtype(name) for name in names}
        return {name: dtype for name, dtype in found.items() if dtypes.canonicalize_dtype(dtype) == dtype}


def check_version(api_version: str | None) -> None:
    """Raise ValueError for a version of the standard that veery.numpy does not follow."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            f"api_version={api_version!r} is not available; available versions are {', '.join(map(repr, _VERSIONS))}"
        )
