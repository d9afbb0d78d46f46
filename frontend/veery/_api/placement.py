"""Devices, transfers and waiting."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from veery import _dispatch, _distributed
from veery._api import jit
from veery._api.platforms import devices as devices
from veery._core import dtypes, source, tree, tree_errors
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of, maybe_aval_of, values_of
from veery._core.layout import Format, sharding_of
from veery._core.memory import DEVICE, MemorySpace
from veery._core.mesh import context
from veery._core.partition_spec import PartitionSpec
from veery._core.sharding import NamedSharding, Sharding, SingleDeviceSharding
from veery._core.trace import Tracer
from veery._core.transfers import guard
from veery.lax import _shape
from veery.lax._placement import check_fits, device_put_p


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
        device: a device, a sharding, a PartitionSpec of the mesh of `set_mesh`, a memory (`veery.memory.Space`), or a
            pytree prefix of them; None for the default device, without committing to it.
        src: accepted for compatibility.
        donate: accepted for compatibility.
        may_alias: True shares the memory of NumPy arrays that are aligned to 64 bytes with devices that can, so that
            nothing is copied; they must not be written to afterwards. Otherwise they are copied. False copies also
            arrays that are on the device already.

    Returns:
        The pytree with arrays on the device.

    Raises:
        TypeError: a leaf is not an array.
        ValueError: there is no such device, a sharding does not fit the shape, or both donate and may_alias are True.

    >>> import veery, numpy as np
    >>> veery.device_put(np.arange(3), veery.devices("cpu")[0])
    Array([0, 1, 2], dtype=int32)
    """
    if donate and may_alias:
        raise ValueError("may_alias and donate cannot be True at the same time.")
    leaves, treedef = tree.tree_flatten(x)
    for leaf in leaves:
        if maybe_aval_of(leaf) is None:
            raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type")
    placed = [put_leaf(leaf, place, copy=not may_alias) for leaf, place in zip(leaves, _places(device, x, leaves))]
    if may_alias is False:
        placed = [_in_other_memory(made, leaf) for made, leaf in zip(placed, leaves)]
    return tree.tree_unflatten(treedef, placed)


def _in_other_memory(made: Any, given: Any) -> Any:
    """What was made of an array, copied if it is in the memory of that."""
    if not (isinstance(made, ArrayImpl) and isinstance(given, ArrayImpl)) or made._buffer is not given._buffer:
        return made
    copied: Any = _shape.copy(made)
    copied._committed = made._committed
    return copied


def _places(device: Any, x: Any, leaves: list[Any]) -> list[Any]:
    """Where each leaf goes."""
    if device is None or hasattr(device, "device_kind") or isinstance(device, _PLACES):
        return [device] * len(leaves)
    try:
        return tree.broadcast_optional(device, x)
    except ValueError:
        details = [error("device_put device") for error in tree_errors.prefix_errors(device, x, lambda p: p is None)]
        raise ValueError(
            "device_put device specification must be a tree prefix of the corresponding value; Mismatch details "
            f"({len(details)} found):\n" + "\n".join(map(str, details))
        ) from None


_PLACES = (Sharding, PartitionSpec, Format, MemorySpace)


def _as_place(place: Any, ndim: int) -> Any:
    """A device, a sharding that says more than a device, a memory or None."""
    place = sharding_of(place, ndim)
    if isinstance(place, MemorySpace):
        return place
    if isinstance(place, PartitionSpec):
        mesh = context().concrete
        if mesh is None:
            raise ValueError("Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put")
        return NamedSharding(mesh, place)
    if isinstance(place, SingleDeviceSharding) and place.memory_kind == DEVICE:
        return place._device
    if isinstance(place, NamedSharding) and not place.mesh.axis_names:
        return None  # what types say of arrays on no mesh
    if isinstance(place, Sharding):
        return place
    members = getattr(place, "device_set", None)
    if members is not None and len(members) == 1:
        return next(iter(members))
    if place is not None and not hasattr(place, "device_kind"):
        raise ValueError(
            "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`, `jax.Device`, `Format`, `jax.memory.Space` "
            f"or a pytree of these values. Received invalid value: {place}"
        )
    return place


def put_leaf(x: Any, place: Any, copy: bool = True) -> Any:
    """One array on a device, or laid out by a sharding (see `device_put`)."""
    aval: Any = aval_of(x)
    device = _as_place(place, aval.ndim)
    if isinstance(device, MemorySpace):
        if isinstance(x, Tracer):
            return device_put_p.bind(x, sharding=device)
        device = _distributed.in_memory(x, device)
    if isinstance(device, Sharding):
        check_fits(device, aval, "device_put args")
        if isinstance(x, Tracer):
            return device_put_p.bind(x, sharding=device)
        return _distributed.place(x, device, explicit=True)
    if isinstance(x, Tracer):
        if isinstance(place, SingleDeviceSharding) and aval.memory_space is not MemorySpace.Device:
            return device_put_p.bind(x, sharding=place)
        return _shape.copy(x)
    if isinstance(x, ArrayImpl):
        return x if device is None else _dispatch.move(x, device, explicit=True)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    guard("host_to_device", aval, device or "the default device", explicit=True)
    return _dispatch.put(values_of(x, aval.dtype), aval, device, copy=copy)


def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays; arrays of keys, which NumPy has not, as they are.

    >>> import veery, veery.numpy as jnp
    >>> veery.device_get({"a": jnp.ones(2)})
    {'a': array([1., 1.], dtype=float32)}
    """
    on_host = lambda leaf: isinstance(leaf, ArrayImpl) and not isinstance(leaf.dtype, dtypes.KeyDType)
    return tree.tree_map(lambda leaf: leaf._numeric("device_get") if on_host(leaf) else leaf, x)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are computed; returns the pytree.

    Raises:
        Exception: whatever a computation raised.
    """
    for leaf in (x,) if isinstance(x, ArrayImpl) else tree.tree_leaves(x):  # a tree's leaves are found in 1 us
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
