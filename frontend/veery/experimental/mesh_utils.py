"""Devices arranged for meshes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._api.placement import devices as _all_devices
from veery._core.absent import attributes as _attributes


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """An array of devices for a `Mesh`, in their order: no device is nearer to another than to the rest.

    Args:
        mesh_shape: the shape of the array.
        devices: the devices; by default all.
        contiguous_submeshes: accepted for compatibility.
        allow_split_physical_axes: accepted for compatibility.

    Raises:
        ValueError: the shape has not as many places as there are devices.

    >>> import veery
    >>> create_device_mesh((1, 1), veery.devices()[:1]).shape
    (1, 1)
    """
    found = list(_all_devices() if devices is None else devices)
    shape = tuple(int(size) for size in mesh_shape)
    if math.prod(shape) != len(found):
        raise ValueError(f"Number of devices {len(found)} must equal the product of mesh_shape {shape}")
    array = np.empty(len(found), dtype=object)
    array[:] = found
    return array.reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """An array of devices for a `Mesh`: within a process by one shape, and over processes, of which there is one.

    Args:
        mesh_shape: the shape of the devices of a process.
        dcn_mesh_shape: the shape of the processes, of the same rank.
        devices: the devices; by default all.
        process_is_granule: must be True: devices have no slices.
        should_sort_granules_by_key: accepted for compatibility.
        allow_split_physical_axes: accepted for compatibility.

    Raises:
        ValueError: devices are asked for by slices, or the shapes do not fit.
    """
    found = list(_all_devices() if devices is None else devices)
    if not process_is_granule:
        raise ValueError(f"Device {found[0]} does not have attribute slice_index. See `process_is_granule` option.")
    processes = math.prod(int(size) for size in dcn_mesh_shape)
    if processes != 1:
        raise ValueError(f"Number of slices 1 must equal the product of dcn_mesh_shape {tuple(dcn_mesh_shape)}")
    if len(mesh_shape) != len(dcn_mesh_shape):
        raise ValueError(f"mesh_shape {mesh_shape} and dcn_mesh_shape {dcn_mesh_shape} must have the same length")
    return create_device_mesh(mesh_shape, found)


__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]

__getattr__, __dir__ = _attributes(__name__)
