"""Devices and their queues: cpu (inline and threaded), Vulkan and CUDA where a driver is there."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from veery_runtime import completion, iree
from veery_runtime.buffer import COUNTED_NBYTES, Buffer, Ledger, Spec
from veery_runtime.errors import tells_of_loss, translate
from veery_runtime.flight import Flight


@dataclass(frozen=True)
class Client:
    """What the devices of a platform have in common."""

    platform: str
    platform_version = f"IREE {iree.VERSION}"
    runtime_type = "iree"

    def process_index(self) -> int:
        """The number of this process among those that compute together."""
        return 0


@dataclass(frozen=True)
class Memory:
    """A memory that the programs of a device reach: its own, or the host's."""

    device: Device
    kind: str

    @property
    def id(self) -> int:
        """Its number among those of the platform."""
        kinds = self.device.memory_kinds
        return self.device.id * len(kinds) + kinds.index(self.kind)

    @property
    def process_index(self) -> int:
        """The number of the process that it belongs to."""
        return self.device.process_index

    @property
    def platform(self) -> str:
        """That of the device."""
        return self.device.platform

    def addressable_by_devices(self) -> list[Device]:
        """The devices whose programs reach it."""
        return [self.device]

    def __repr__(self) -> str:
        kind = f"{self.platform}_{self.kind}" if self.kind == "device" else self.kind
        return f"{kind.upper()}_{self.id}"

    def __str__(self) -> str:
        kind = f"{self.platform}_{self.kind}" if self.kind == "device" else self.kind
        name = "".join(word.capitalize() for word in kind.split("_"))
        return f"{name}Memory(id={self.id}, process_index={self.process_index}, client={self.platform})"


class Device:
    """One device. It lives as long as the process: its buffers could not be freed without it."""

    platform = "none"
    target = "none"  # what the compiler calls the device
    memory_kinds: tuple[str, ...] = ("device", "pinned_host")  # its own memory, and that of the host
    host_visible = True
    element_types: Mapping[np.dtype[Any], Any] = iree.ELEMENT_TYPES
    dlpack_device = (1, 0)
    loss: BaseException | None = None  # the last time that the device was lost
    unpickle: ClassVar[Callable[[str, int], Device]]  # see `configure`

    def __init__(self, id: int, device_kind: str) -> None:
        self.id = id
        self.device_kind = device_kind
        self.process_index = self.task_id = self.host_id = 0
        self.local_hardware_id = id
        self.client: Any = Client(self.platform)
        self.ledger = Ledger()
        self.in_flight = Flight()
        self._specs: dict[tuple[tuple[int, ...], np.dtype[Any]], Spec] = {}
        self.find_spec = self._specs.get
        self._lock = threading.Lock()
        self._generation = completion.generation

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device.unpickle, (self.platform, self.id)

    def default_memory(self) -> Memory:
        """Where arrays go: its own."""
        return Memory(self, self.memory_kinds[0])

    def addressable_memories(self) -> list[Memory]:
        """All memories that its programs reach: its own first."""
        return [Memory(self, kind) for kind in self.memory_kinds]

    def memory(self, kind: str) -> Memory:
        """The memory of a kind.

        Raises:
            ValueError: the device has none such.
        """
        if kind not in self.memory_kinds:
            raise ValueError(
                f"Could not find memory addressable by device {self.device_kind}. Device {self.device_kind} can "
                f"address the following memory kinds: {', '.join(self.memory_kinds)}. Got memory kind: {kind}"
            )
        return Memory(self, kind)

    @property
    def hal(self) -> iree.HalDevice:
        """The queue that runs large work and holds uploads."""
        raise NotImplementedError

    @property
    def inline(self) -> iree.HalDevice | None:
        """A queue that runs work in the caller's thread, where the platform has one."""
        return None

    def on_loss(self, hal: iree.HalDevice) -> Callable[[BaseException], None] | None:
        """What to call with an error that says that the device behind `hal` was lost; None where it cannot be."""
        return None

    def failure(self, name: str, error: BaseException, hal: iree.HalDevice) -> BaseException:
        """The exception to raise for a program that failed on `hal`."""
        cause = translate(name, error)
        lose = self.on_loss(hal)
        if lose is not None and tells_of_loss(cause):
            lose(cause)
        return cause

    def spec(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Spec:
        """The shared description of buffers of this shape and dtype here."""
        key = (shape, dtype)
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) > 4096:  # programs with ever new shapes must not grow this for ever
                self._specs.clear()
            found = self._specs[key] = Spec(tuple(map(int, shape)), dtype, self)
        return found

    def upload(self, array: np.ndarray[Any, Any], spec: Spec) -> Any:
        """Copies a C-contiguous array into fresh device memory; returns a reference to that."""
        hal = self.inline or self.hal
        if spec.nbytes == 0:
            empty = iree.allocate_visible(hal, 1)
            return iree.HalBufferView(empty, spec.shape, spec.element_type).__iree_vm_ref__
        data = array if spec.raw is None else array.view(spec.raw)
        return hal.allocator.allocate_buffer_copy(
            _DEVICE_LOCAL, _DEFAULT_USAGE, hal, data, spec.element_type
        ).__iree_vm_ref__

    def share(self, array: np.ndarray[Any, Any], spec: Spec) -> Any:
        """A reference to the memory of `array` (C-contiguous, 64-byte aligned, not empty), which it keeps alive."""
        if not array.flags.writeable:
            array = writable_alias(array)
        # As bytes: DLPack has no name for some dtypes, and the view gets its own element type anyway.
        view = self.hal.from_dlpack_capsule(array.reshape(-1).view(np.uint8).__dlpack__())
        return iree.HalBufferView(view.get_buffer(), spec.shape, spec.element_type).__iree_vm_ref__

    def read(self, ref: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """The ready, non-empty contents behind a reference as a read-only array."""
        return self.read_view(ref.deref(iree.HalBufferView), spec)

    def read_view(self, view: iree.HalBufferView, spec: Spec) -> np.ndarray[Any, Any]:
        """As `read`, of a view."""
        return np.frombuffer(view.map(), spec.dtype).reshape(spec.shape)

    def give_up(self, ref: Any) -> Any:
        """Frees the contents behind a reference, once work in flight and views of the host's have ended.

        Returns:
            What the deleted buffer keeps, as long as it is there itself.
        """
        return None

    def reshape(self, ref: Any, spec: Spec) -> Any:
        """A reference to the same memory in the shape of another description."""
        memory = ref.deref(iree.HalBufferView).get_buffer()
        return iree.HalBufferView(memory, spec.shape, spec.element_type).__iree_vm_ref__

    def export(self, ref: Any, spec: Spec) -> Any:
        """A DLPack capsule of ready contents."""
        return self.hal.create_dlpack_capsule(ref.deref(iree.HalBufferView), *self.dlpack_device)

    def load(self, program: Any, compiled: bytes | None) -> Any:
        """A program that another compiler than IREE's makes for this device, as something to call."""
        raise TypeError(f"{self!r} runs programs of IREE's compiler")

    def synchronize(self) -> None:
        """Blocks until all submitted work is done; raises the first failure that nobody has seen."""
        self.in_flight.drain()

    def live_buffers(self) -> list[Buffer]:
        """The buffers on this device that are neither deleted nor failed."""
        return [b for b in gc.get_objects() if isinstance(b, Buffer) and b._spec.device is self and b._ref is not None]

    def memory_stats(self) -> dict[str, int]:
        """Bytes and buffers in use now and at most, under JAX's names.

        Buffers under 16 KiB enter the peak, and the size of the largest, only when this is called.
        """
        mine = self.live_buffers()
        small = [b._spec.nbytes for b in mine if b._spec.nbytes < COUNTED_NBYTES]
        large = sum(b._tally is not None for b in mine)
        with self.ledger.lock:
            self.ledger.settle()
            in_use = self.ledger.live + sum(small)
            self.ledger.peak = max(self.ledger.peak, in_use)
            self.ledger.largest = max(self.ledger.largest, *small, 0)
            stats = {
                "bytes_in_use": in_use,
                "peak_bytes_in_use": self.ledger.peak,
                "largest_alloc_size": self.ledger.largest,
                "num_allocs": large + len(small),
                "calls_in_flight": len(self.in_flight.calls),
            }
        limit = self.memory_limit()
        return stats if limit is None else {**stats, "bytes_limit": limit}

    def memory_limit(self) -> int | None:
        """The bytes of memory that the device has; None where that is not known."""
        return None


_DEVICE_LOCAL = int(iree.MemoryType.DEVICE_LOCAL)
_DEFAULT_USAGE = int(iree.BufferUsage.DEFAULT)


def writable_alias(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory without the read-only mark, which NumPy's DLPack export refuses to lose."""
    raw = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    raw.owner = array  # type: ignore[attr-defined]
    return np.frombuffer(memoryview(raw), array.dtype).reshape(array.shape)
