"""What a Vulkan device can do, asked of its driver through the Vulkan loader.

IREE's runtime names its devices and says nothing of their properties, but code must be generated for the one at hand:
a subgroup size that is not the device's makes sums wrong without any error, and 8 and 16-bit data of a device
that cannot store them are written wrongly.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_LIBRARIES = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.1.dylib", "libMoltenVK.dylib")}
_API_1_3 = (1 << 22) | (3 << 12)
_COMPUTE_STAGE = 0x20
_ARITHMETIC = 0x4
_SHUFFLES = 0x30

_u32, _pointer = ctypes.c_uint32, ctypes.c_void_p


@dataclass(frozen=True)
class Properties:
    """A device: its identity and the limits and features that generated code depends on.

    compute, storage: IREE's names of the types that shaders can compute with and load from buffers.
    subgroup_operations: IREE's names of what the invocations of a subgroup can do together.
    max_buffer_range: the bytes of a buffer that a shader can reach.
    keeps_nan: IREE's names of the floats for which shaders can ask that NaN, infinities and signs of zeros are kept.
    """

    name: str
    uuid: str
    api: tuple[int, int]
    compute: tuple[str, ...]
    storage: tuple[str, ...]
    subgroup_size: int
    subgroup_operations: tuple[str, ...]
    max_threads: int
    max_sizes: tuple[int, int, int]
    max_counts: tuple[int, int, int]
    shared_memory: int
    max_buffer_range: int
    keeps_nan: tuple[str, ...]

    @property
    def target(self) -> str:
        """The name of this device for the compiler: its properties, so that equal devices share programs."""
        fields = {
            "vulkan": f"{self.api[0]}.{self.api[1]}",
            "compute": "+".join(self.compute),
            "storage": "+".join(self.storage),
            "subgroup": str(self.subgroup_size),
            "operations": "+".join(self.subgroup_operations) or "none",
            "threads": str(self.max_threads),
            "sizes": "x".join(map(str, self.max_sizes)),
            "counts": "x".join(map(str, self.max_counts)),
            "memory": str(self.shared_memory),
            "nan": "+".join(self.keeps_nan) or "none",
        }
        return "vulkan:" + ",".join(f"{key}={value}" for key, value in fields.items())


class _Structure(ctypes.Structure):
    """Vulkan's extensible structures begin with their kind and a link to the next one."""

    KIND = 0

    def __init__(self, after: _Structure | None = None) -> None:
        super().__init__()
        self.kind = self.KIND
        self.next = None if after is None else ctypes.addressof(after)


def _structure(name: str, kind: int, *fields: tuple[str, Any]) -> type[_Structure]:
    content = {"KIND": kind, "_fields_": [("kind", _u32), ("next", _pointer), *fields]}
    return type(name, (_Structure,), content)


class _Limits(ctypes.Structure):
    """The head of VkPhysicalDeviceLimits, unread members as padding; 504 bytes in all."""

    _fields_ = [
        ("_0", _u32 * 7),
        ("max_storage_buffer_range", _u32),
        ("_1", _u32 * 46),
        ("max_compute_shared_memory_size", _u32),
        ("max_compute_work_group_count", _u32 * 3),
        ("max_compute_work_group_invocations", _u32),
        ("max_compute_work_group_size", _u32 * 3),
        ("_2", _u32 * 64),
    ]


class _Identity(ctypes.Structure):
    """VkPhysicalDeviceProperties."""

    _fields_ = [
        ("api_version", _u32),
        ("_0", _u32 * 4),
        ("name", ctypes.c_char * 256),
        ("_1", ctypes.c_uint8 * 16),
        ("_2", _u32),
        ("limits", _Limits),
        ("_3", _u32 * 6),
    ]


_Application = _structure(
    "_Application", 0, ("_0", _pointer), ("_1", _u32), ("_2", _pointer), ("_3", _u32), ("api_version", _u32)
)
_Creation = _structure(
    "_Creation", 1, ("flags", _u32), ("application", _pointer), ("_0", _u32), ("_1", _pointer), ("_2", _u32),
    ("_3", _pointer),
)  # fmt: skip
_Properties2 = _structure("_Properties2", 1000059001, ("identity", _Identity))
_IdProperties = _structure("_IdProperties", 1000071004, ("uuid", ctypes.c_uint8 * 16), ("_0", _u32 * 8))
_Subgroup = _structure("_Subgroup", 1000094000, ("size", _u32), ("stages", _u32), ("operations", _u32), ("quads", _u32))
_FloatControls = _structure(
    "_FloatControls", 1000197000, ("_0", _u32 * 2), ("float16", _u32), ("float32", _u32), ("float64", _u32),
    ("_1", _u32 * 12),
)  # fmt: skip
# VkPhysicalDeviceFeatures is 55 switches: float64, int64 and int16 are 39 to 41.
_Features2 = _structure("_Features2", 1000059000, ("switches", _u32 * 55))
_Storage16 = _structure("_Storage16", 1000083000, ("buffer", _u32), ("_0", _u32 * 3))
_Storage8 = _structure("_Storage8", 1000177000, ("buffer", _u32), ("_0", _u32 * 2))
_Small = _structure("_Small", 1000082000, ("float16", _u32), ("int8", _u32))


def _library() -> ctypes.CDLL:
    names = _LIBRARIES.get(sys.platform, ("libvulkan.so.1", "libvulkan.so"))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"the Vulkan loader is not installed (looked for {', '.join(names)})")


def _check(code: int, what: str) -> None:
    if code not in (0, 5):  # 5: more devices than asked for
        raise OSError(f"{what} failed with VkResult {code}")


@contextmanager
def _instance(library: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    application = _Application()
    application.api_version = _API_1_3
    creation = _Creation()
    creation.application = ctypes.addressof(application)
    instance = _pointer()
    _check(library.vkCreateInstance(ctypes.byref(creation), None, ctypes.byref(instance)), "vkCreateInstance")
    try:
        yield instance
    finally:
        library.vkDestroyInstance(instance, None)


def query() -> list[Properties]:
    """The Vulkan devices of this machine.

    Raises:
      OSError: there is no Vulkan loader, or it fails.
    """
    library = _library()
    with _instance(library) as instance:
        count = _u32()
        _check(library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None), "vkEnumeratePhysicalDevices")
        handles = (_pointer * count.value)()
        _check(library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles), "vkEnumeratePhysicalDevices")
        return [_describe(library, _pointer(handle)) for handle in handles]


def _describe(library: ctypes.CDLL, device: ctypes.c_void_p) -> Properties:
    controls: Any = _FloatControls()
    subgroup: Any = _Subgroup(controls)
    identifier: Any = _IdProperties(subgroup)
    properties: Any = _Properties2(identifier)
    library.vkGetPhysicalDeviceProperties2(device, ctypes.byref(properties))
    small: Any = _Small()
    storage8: Any = _Storage8(small)
    storage16: Any = _Storage16(storage8)
    features: Any = _Features2(storage16)
    library.vkGetPhysicalDeviceFeatures2(device, ctypes.byref(features))
    float64, int64, int16 = features.switches[39:42]
    compute = {
        "fp64": float64, "fp32": 1, "fp16": small.float16, "int64": int64, "int32": 1, "int16": int16,
        "int8": small.int8,
    }  # fmt: skip
    storage = {"b64": int64, "b32": 1, "b16": storage16.buffer, "b8": storage8.buffer}
    together = subgroup.operations if subgroup.stages & _COMPUTE_STAGE else 0
    operations = {"shuffle": together & _SHUFFLES == _SHUFFLES, "arithmetic": together & _ARITHMETIC}
    identity, limits = properties.identity, properties.identity.limits
    return Properties(
        name=identity.name.decode(errors="replace"),
        uuid=bytes(identifier.uuid).hex(),
        api=(identity.api_version >> 22 & 0x7F, identity.api_version >> 12 & 0x3FF),
        compute=tuple(name for name, there in compute.items() if there),
        storage=tuple(name for name, there in storage.items() if there),
        subgroup_size=subgroup.size,
        subgroup_operations=tuple(name for name, there in operations.items() if there),
        max_threads=limits.max_compute_work_group_invocations,
        max_sizes=tuple(limits.max_compute_work_group_size),
        max_counts=tuple(limits.max_compute_work_group_count),
        shared_memory=limits.max_compute_shared_memory_size,
        max_buffer_range=limits.max_storage_buffer_range,
        keeps_nan=tuple(f"fp{bits}" for bits in (16, 32, 64) if getattr(controls, f"float{bits}")),
    )
