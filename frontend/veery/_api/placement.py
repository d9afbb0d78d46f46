"""Devices, transfers and waiting."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from veery import _dispatch
from veery._api import jit
from veery._core import source, tree
from veery._core.array import ArrayImpl
from veery._core.avals import maybe_aval_of
from veery._core.trace import Tracer
from veery._core.transfers import guard
from veery.lax import _shape


def devices(backend: str | None = None) -> list[Any]:
    """The devices of a platform ("cpu", "vulkan", "cuda"); by default those of the default platform.

    Raises:
        RuntimeError: the platform is unknown, or its driver is missing (the message says what was looked for).

    >>> import veery
    >>> veery.devices("cpu")[0].platform
    'cpu'
    """
    return _dispatch.runtime().devices(backend or _dispatch.default_device().platform)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Any]:
    """The devices of this process."""
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """The number of devices."""
    return len(devices(backend))


local_device_count = device_count


def process_index(backend: str | None = None) -> int:
    """The index of this process among those that compute together: there is one."""
    return 0


def process_count(backend: str | None = None) -> int:
    """The number of processes that compute together: one."""
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """The indices of all processes."""
    return [0]


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays of a platform (by default of the default one) that are alive and not deleted.

    >>> import veery, veery.numpy as jnp
    >>> x = jnp.ones(3)
    >>> any(each is x for each in veery.live_arrays())
    True
    """
    wanted = platform or default_backend()
    found = [x for x in gc.get_objects() if type(x) is ArrayImpl and not x.is_deleted()]
    return [x for x in found if any(device.platform == wanted for device in x.devices())]


def default_backend() -> str:
    """The platform that computations run on by default."""
    return _dispatch.default_device().platform


@source.api_boundary
def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None
) -> Any:
    """Put arrays on a device.

    Args:
        x: a pytree of arrays, NumPy arrays and scalars.
        device: a device, a SingleDeviceSharding or alike (anything with a `device_set` of one), or a pytree prefix of
            them; None for the default device, without committing to it.
        src: accepted for compatibility.
        donate: accepted for compatibility.
        may_alias: True shares the memory of NumPy arrays that are aligned to 64 bytes with devices that can, so that
            nothing is copied; they must not be written to afterwards. Otherwise they are copied.

    Returns:
        The pytree with arrays on the device.

    Raises:
        TypeError: a leaf is not an array.

    >>> import veery, numpy as np
    >>> veery.device_put(np.arange(3), veery.devices("cpu")[0])
    Array([0, 1, 2], dtype=int32)
    """
    return tree.tree_map(lambda leaf: _put_leaf(leaf, _as_device(device), copy=not may_alias), x)


def _as_device(device: Any) -> Any:
    members = getattr(device, "device_set", None)
    if members is None:
        return device
    if len(members) != 1:
        raise ValueError(f"device_put with a sharding over {len(members)} devices is not supported; put to one device")
    return next(iter(members))


def _put_leaf(x: Any, device: Any, copy: bool = True) -> Any:
    if isinstance(x, Tracer):
        return _shape.copy(x)
    if device is not None and not hasattr(device, "platform"):
        raise ValueError(f"device_put got {device!r}, which is not a device; see veery.devices()")
    aval = maybe_aval_of(x)
    if aval is None:
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type")
    if isinstance(x, ArrayImpl):
        return x if device is None else _dispatch.move(x, device, explicit=True)
    guard("host_to_device", aval, device or "the default device", explicit=True)
    return _dispatch.put(np.asarray(x, aval.dtype), aval, device, copy=copy)  # type: ignore[attr-defined]


def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays.

    >>> import veery, veery.numpy as jnp
    >>> veery.device_get({"a": jnp.ones(2)})
    {'a': array([1., 1.], dtype=float32)}
    """
    return tree.tree_map(lambda leaf: leaf._numeric("device_get") if isinstance(leaf, ArrayImpl) else leaf, x)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are computed; returns the pytree.

    Raises:
        Exception: whatever a computation raised.
    """
    for leaf in tree.tree_leaves(x):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def effects_barrier() -> None:
    """Wait until the Python functions that programs called so far (`io_callback`, `debug.print`...) have run.

    Raises:
        Exception: what such a function raised, if nobody has seen it yet.
    """
    _dispatch.runtime().synchronize()


def copy_to_host_async(x: Any) -> Any:
    """Begin to copy the arrays of a pytree to the host; returns the pytree."""
    for leaf in tree.tree_leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def clear_caches() -> None:
    """Forget all traces and compiled programs of this process (those on disk stay)."""
    jit._traces.clear()
    _dispatch.clear_caches()
