"""Where parts of programs compute: hints, which have no effect, since a program runs on one device as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from veery._core.absent import attributes as _attributes

_KINDS = ("device_host", "device", "tpu_sparsecore")


@contextlib.contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Say where operations are to compute. All do on the device of their program; a CPU device is the host itself.

    Args:
        compute_type: "device_host", "device", "tpu_sparsecore" or "gpu_stream:" and a number.

    Raises:
        TypeError: it is no text.
        ValueError: there is no such place.

    >>> import veery.numpy as jnp
    >>> with compute_on("device_host"):
    ...     jnp.arange(2) + 1
    Array([1, 2], dtype=int32)
    """
    if not isinstance(compute_type, str):
        raise TypeError("`compute_on`'s compute_type argument must be a string.")
    if compute_type not in _KINDS and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, `device`, "
            "`tpu_sparsecore`, and `gpu_stream:#`."
        )
    yield


__getattr__, __dir__ = _attributes(__name__)
