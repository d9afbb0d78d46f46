"""The only door to `iree.runtime`: every other file of this package takes IREE's names from here."""

from __future__ import annotations

import ctypes
import importlib.metadata
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from iree.runtime import (
    BufferUsage,
    HalBuffer,
    HalBufferView,
    HalDevice,
    HalElementType,
    HalFence,
    HalSemaphore,
    MemoryType,
    ParameterIndex,
    PyModuleInterface,
    VmContext,
    VmFunction,
    VmInstance,
    VmModule,
    VmRef,
    VmVariantList,
    _binding,
    create_hal_module,
    flags,
    get_driver,
    parameter_index_add_numpy_ndarray,
)

from veery_runtime.errors import ArtifactError

__all__ = [
    "BufferUsage", "HalBuffer", "HalBufferView", "HalDevice", "HalElementType", "HalFence", "HalSemaphore",
    "MemoryType", "PyModuleInterface", "VmContext", "VmFunction", "VmInstance", "VmModule", "VmRef", "VmVariantList",
    "create_hal_module", "get_driver", "INSTANCE", "NO_FENCE", "VERSION", "ELEMENT_TYPES", "dtype_from_name",
    "immortal", "new_local_driver", "allocate_visible", "read_parameters", "write_parameters",
]  # fmt: skip

# Devices and the instance are kept alive on purpose (see `immortal`); nanobind would report them as leaks at exit.
_binding.disable_leak_checker()

VERSION: str = importlib.metadata.version("iree-base-runtime")

# The process-wide VM instance, as immortal as the devices. It comes first: creating it registers the types behind
# references, and a reference made earlier is silently null.
INSTANCE = VmInstance()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(INSTANCE))

# Routines of LAPACK that kernels call may want more than the 128 KiB of IREE's workers: what a thread has otherwise. Of
# these only what is used is taken.
flags.parse_flags(f"--task_worker_stack_size={8 << 20}")

# A fence without timepoints: as a wait it means "now"; as a signal it means "nobody waits".
NO_FENCE: VmRef = HalFence(0).__iree_vm_ref__

# The unsigned twin of an integer type is accepted for it and the other way round; what matters is the width.
ELEMENT_TYPES: dict[np.dtype[Any], HalElementType] = {
    np.dtype(name): getattr(HalElementType, element)
    for name, element in {
        "bool": "BOOL_8",
        "int8": "SINT_8",
        "int16": "SINT_16",
        "int32": "SINT_32",
        "int64": "SINT_64",
        "uint8": "UINT_8",
        "uint16": "UINT_16",
        "uint32": "UINT_32",
        "uint64": "UINT_64",
        "float16": "FLOAT_16",
        "float32": "FLOAT_32",
        "float64": "FLOAT_64",
        "complex64": "COMPLEX_64",
        "complex128": "COMPLEX_128",
    }.items()
} | {
    np.dtype(getattr(ml_dtypes, name)): getattr(HalElementType, element)
    for name, element in {
        "bfloat16": "BFLOAT_16",
        "float8_e4m3fn": "FLOAT_8_E4M3_FN",
        "float8_e4m3fnuz": "FLOAT_8_E4M3_FNUZ",
        "float8_e5m2": "FLOAT_8_E5M2",
        "float8_e5m2fnuz": "FLOAT_8_E5M2_FNUZ",
        "float8_e8m0fnu": "FLOAT_8_E8M0_FNU",
    }.items()
}

_DTYPE_NAMES: dict[str, np.dtype[Any]] = {dtype.name: dtype for dtype in ELEMENT_TYPES}


def dtype_from_name(name: str) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) dtype called `name`; raises TypeError when a device cannot hold it."""
    try:
        return _DTYPE_NAMES[name]
    except KeyError:
        raise TypeError(f"no device buffer can hold dtype {name!r}; supported: {', '.join(_DTYPE_NAMES)}") from None


def immortal(device: HalDevice) -> HalDevice:
    """Gives `device` one reference that is never returned.

    A buffer from a device-owned pool that is released after its device crashes the process, and at interpreter
    exit the order of destruction is arbitrary (3 of 3 exits crashed without this).
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(device))
    return device


def new_local_driver() -> Any:
    """A local-task driver with worker threads of its own (a forked child has lost those of the cached driver)."""
    return _binding.create_hal_driver("local-task")


def allocate_visible(device: HalDevice, nbytes: int) -> HalBuffer:
    """An uninitialised buffer on `device` that the host may map."""
    return device.allocator.allocate_buffer(
        memory_type=int(MemoryType.DEVICE_LOCAL) | int(MemoryType.HOST_VISIBLE),
        allowed_usage=int(BufferUsage.DEFAULT) | int(BufferUsage.MAPPING),
        allocation_size=nbytes,
    )


def tool(name: str) -> str | None:
    """The path of one of IREE's command-line tools that come with the runtime, None where they do not."""
    path = Path(_binding.__file__).parents[1] / "_runtime_libs" / name
    return str(path) if path.exists() else None


def write_parameters(path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Writes arrays to a parameter archive."""
    index = ParameterIndex()
    for name, array in arrays.items():
        parameter_index_add_numpy_ndarray(index, name, array)
    index.create_archive_file(path)


def read_parameters(path: str) -> list[tuple[str, memoryview, bytes]]:
    """Name, bytes in the mapped file and metadata of the arrays of a parameter archive.

    Raises:
      ArtifactError: IREE cannot read the file.
    """
    index = ParameterIndex()
    try:
        index.load(path)
    except Exception as error:
        raise ArtifactError(f"{path} is no parameter archive that IREE reads: {error}") from None
    return [(key, entry.file_view, entry.metadata) for key, entry in index.items()]
