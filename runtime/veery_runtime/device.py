"""Devices and their queues: cpu (inline and threaded), Vulkan and CUDA where a driver is there."""

from __future__ import annotations

import atexit
import functools
import gc
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_runtime import completion, effects, iree, vulkan, workers
from veery_runtime.buffer import COUNTED_NBYTES, Buffer, Ledger, Spec
from veery_runtime.errors import DeviceUnavailableError, ForkedProcessError, tells_of_loss, translate

# Results of the inline queue come from malloc, whose fresh pages cost 8 times the work of a 64 MB x + x; this keeps at
# most 128 MB in 64 free blocks for reuse (78 ms -> 10 ms).
_INLINE_ALLOCATOR = "caching:*=*;128mib;64"
# Results of the threaded queue likewise, in use or free; the rest is given back as it is freed.
_THREADED_ALLOCATOR = "caching:*=*;{}mib;512"
_KEPT_PART = 8  # of the machine's memory

# A loop that submits calls faster than its device runs them waits at these limits.
MAX_CALLS_IN_FLIGHT = 64
MAX_BYTES_IN_FLIGHT = 1 << 30
# The most bytes that submitted calls may hold beside their results. They come from the device's allocator, since IREE's
# own pool loses memory (see veery_lowering.passes.vm.allocation).
MAX_SCRATCH_IN_USE = 1 << 28


class Device:
    """One device. It lives as long as the process: its buffers could not be freed without it."""

    platform = "none"
    target = "none"  # what the compiler calls the device
    host_visible = True
    dlpack_device = (1, 0)
    loss: BaseException | None = None  # the last time that the device was lost

    def __init__(self, id: int, device_kind: str) -> None:
        self.id = id
        self.device_kind = device_kind
        self.process_index = self.task_id = self.host_id = 0
        self.local_hardware_id = id
        self.ledger = Ledger()
        self.in_flight = Flight()
        self._specs: dict[tuple[tuple[int, ...], np.dtype[Any]], Spec] = {}
        self.find_spec = self._specs.get
        self._lock = threading.Lock()
        self._generation = completion.generation

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

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

    def upload(self, array: np.ndarray[Any, Any], spec: Spec) -> iree.VmRef:
        """Copies a C-contiguous array into fresh device memory."""
        hal = self.inline or self.hal
        if spec.nbytes == 0:
            empty = iree.allocate_visible(hal, 1)
            return iree.HalBufferView(empty, spec.shape, spec.element_type).__iree_vm_ref__
        data = array if spec.raw is None else array.view(spec.raw)
        return hal.allocator.allocate_buffer_copy(
            _DEVICE_LOCAL, _DEFAULT_USAGE, hal, data, spec.element_type
        ).__iree_vm_ref__

    def read(self, view: iree.HalBufferView, spec: Spec) -> np.ndarray[Any, Any]:
        """The ready, non-empty contents of `view` as a read-only array."""
        return np.frombuffer(view.map(), spec.dtype).reshape(spec.shape)

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


class Flight:
    """The calls of one device that are submitted and not known to be done, oldest first; bounded."""

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()
        self.nbytes = 0
        self.lost: list[Any] = []
        self._scratch: deque[tuple[Any, int]] = deque()
        self._lock = threading.Lock()

    def admit(self, call: Any, nbytes: int, has_effects: bool, reads: Sequence[Any] = ()) -> None:
        """Notes a submitted call and the buffers that it reads; above the bounds, waits for the oldest calls."""
        calls = self.calls
        self.retire_done()
        if not calls:
            self.nbytes = 0  # unlocked counting may drift; an empty queue sets it right
        calls.append((call, nbytes, has_effects, frozenset(map(weakref.ref, reads))))
        self.nbytes += nbytes
        if workers.nested():
            return  # the oldest call may be the one that runs this
        while len(calls) > MAX_CALLS_IN_FLIGHT or (self.nbytes > MAX_BYTES_IN_FLIGHT and len(calls) > 1):
            self._await_oldest()

    def make_room(self, nbytes: int) -> None:
        """Waits for submitted calls until a call that needs `nbytes` beside its results may be submitted."""
        while len(self._scratch) > 1 and nbytes + sum(size for _, size in tuple(self._scratch)) > MAX_SCRATCH_IN_USE:
            try:
                _await(self._scratch.popleft()[0])
            except IndexError:  # another thread was faster
                return

    def use_scratch(self, call: Any, nbytes: int) -> None:
        """Notes what a submitted call needs beside its results."""
        scratch = self._scratch
        scratch.append((call, nbytes))
        while scratch and scratch[0][0].done():
            try:
                scratch.popleft()
            except IndexError:
                return

    def retire_done(self) -> None:
        """Forgets the oldest calls as far as they are done: what is known of a call keeps its results."""
        calls = self.calls
        if calls and calls[0][0].done():
            with self._lock:
                while calls and calls[0][0].done():
                    self._retire()

    def _retire(self) -> None:
        call, nbytes, has_effects, _ = self.calls.popleft()
        self.nbytes -= nbytes
        if has_effects and call.failed() and len(self.lost) < 16:
            self.lost.append(call)

    def _await_oldest(self) -> None:
        try:
            oldest = self.calls[0]
        except IndexError:  # another thread was faster
            return
        _await(oldest[0])
        with self._lock:
            if self.calls and self.calls[0] is oldest:
                self._retire()

    def reading(self, buffer: Any) -> list[Any]:
        """The unfinished calls that read `buffer`."""
        reference = weakref.ref(buffer)
        return [call for call, _, _, reads in tuple(self.calls) if reference in reads and not call.done()]

    def drain(self) -> None:
        while self.calls:
            self._await_oldest()
        lost, self.lost = self.lost, []
        for call in lost:
            if not call.reported:
                call.wait()


def _await(call: Any) -> None:
    """Blocks until a call is done; its failure belongs to whoever reads the result."""
    if call.done():
        return
    reported = call.reported
    try:
        call.wait()
    except ForkedProcessError:
        pass
    except Exception:
        call.reported = reported


class CpuDevice(Device):
    """The host's processor, with a queue in the caller's thread for small work and one on worker threads for large."""

    platform = "cpu"
    target = "cpu"

    def __init__(self, id: int) -> None:
        super().__init__(id, "cpu")
        self._task: iree.HalDevice | None = None
        self._sync: iree.HalDevice | None = None

    @property
    def hal(self) -> iree.HalDevice:
        task = self._task
        if task is None or self._generation != completion.generation:
            task = self._open_task()
        return task

    def _open_task(self) -> iree.HalDevice:
        with self._lock:
            if self._generation != completion.generation:
                # After a fork the worker threads are gone: a driver of our own brings new ones.
                self._task = _open_threaded(iree.new_local_driver())
                self._generation = completion.generation
            elif self._task is None:
                driver = iree.new_local_driver() if completion.generation else iree.get_driver("local-task")
                self._task = _open_threaded(driver)
            return self._task

    def memory_limit(self) -> int | None:
        return _host_memory()

    @property
    def inline(self) -> iree.HalDevice:
        sync = self._sync
        if sync is None:
            with self._lock:
                if self._sync is None:
                    driver = iree.get_driver("local-sync")
                    self._sync = iree.immortal(driver.create_default_device(allocators=[_INLINE_ALLOCATOR]))
                sync = self._sync
        return sync


def _open_threaded(driver: Any) -> iree.HalDevice:
    kept = max(1 << 28, (_host_memory() or 0) // _KEPT_PART)
    return iree.immortal(driver.create_default_device(allocators=[_THREADED_ALLOCATOR.format(kept >> 20)]))


def _host_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


class GpuDevice(Device):
    """A device behind IREE's vulkan or cuda driver. Its memory is reached through staging copies.

    A driver may give a device up. Then the buffers on it fail, and it is opened anew for what comes.
    """

    host_visible = False

    def __init__(self, id: int, platform: str, kind: str, open: Callable[[], iree.HalDevice], target: str) -> None:
        self.platform = platform
        self.target = target
        super().__init__(id, kind)
        self._open = open
        self._hal: iree.HalDevice | None = iree.immortal(open())
        self.dlpack_device = ({"cuda": 2, "vulkan": 7}[platform], id)

    @property
    def hal(self) -> iree.HalDevice:
        if self._generation != completion.generation:
            raise ForkedProcessError(f"{self!r}: a forked child cannot use the parent's device")
        hal = self._hal
        if hal is None:
            with self._lock:
                hal = self._hal
                if hal is None:
                    hal = self._hal = iree.immortal(self._open())
        return hal

    def on_loss(self, hal: iree.HalDevice) -> Callable[[BaseException], None] | None:
        return functools.partial(self._lose, hal)

    def _lose(self, hal: iree.HalDevice, error: BaseException) -> None:
        with self._lock:
            if self._hal is not hal:  # known already
                return
            self._hal, self.loss = None, error
            # No buffer of the lost device may reach a program on the new one: drivers die of foreign handles.
            for buffer in self.live_buffers():
                buffer._ref, buffer._pending = None, completion.Failed(error)

    def upload(self, array: np.ndarray[Any, Any], spec: Spec) -> iree.VmRef:
        hal = self.hal
        try:
            return super().upload(array, spec)
        except Exception as error:
            if not tells_of_loss(error):
                raise
            cause = self.failure(f"copy to {self!r}", error, hal)
        raise cause

    def read(self, view: iree.HalBufferView, spec: Spec) -> np.ndarray[Any, Any]:
        hal = self.hal
        staging = hal.allocator.allocate_buffer(
            memory_type=int(iree.MemoryType.HOST_LOCAL) | int(iree.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(iree.BufferUsage.TRANSFER_TARGET) | int(iree.BufferUsage.MAPPING_SCOPED),
            allocation_size=spec.nbytes,
        )
        semaphore = hal.create_semaphore(0)
        done = iree.HalFence.create_at(semaphore, 1)
        hal.queue_copy(view.get_buffer(), staging, iree.HalFence(0), done)
        completion.Completion(f"copy from {self!r}", semaphore, done, self.on_loss(hal)).wait()
        host = np.frombuffer(staging.map(), np.uint8)[: spec.nbytes].copy().view(spec.dtype).reshape(spec.shape)
        host.flags.writeable = False
        return host


_lock = threading.Lock()
_devices: list[Device] | None = None
_absent: dict[str, str] = {}
_cpu_count: int | None = None

_LOOKED_FOR = {
    "vulkan": "looked for the Vulkan loader (libvulkan.so.1 or vulkan-1.dll) and devices of its installed drivers",
    "cuda": "looked for NVIDIA's driver library (libcuda.so.1 or nvcuda.dll) and its devices",
}


def configure(*, num_cpu_devices: int) -> None:
    """Sets the number of virtual CPU devices. More can be asked for at any time; fewer only before the first use.

    The environment variable VEERY_NUM_CPU_DEVICES gives the number where this was not called (default 1).
    """
    global _cpu_count
    if num_cpu_devices < 1:
        raise ValueError(f"configure: num_cpu_devices must be at least 1, got {num_cpu_devices}")
    with _lock:
        if _devices is not None:
            cpus = [d for d in _devices if d.platform == "cpu"]
            if num_cpu_devices < len(cpus):
                raise RuntimeError(
                    f"configure: {len(cpus)} CPU devices are in use already; ask for {num_cpu_devices} earlier"
                )
            at = len(cpus)
            _devices[at:at] = [CpuDevice(i) for i in range(at, num_cpu_devices)]
        _cpu_count = num_cpu_devices


def _requested_cpus() -> int:
    text = os.environ.get("VEERY_NUM_CPU_DEVICES", "1")
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"VEERY_NUM_CPU_DEVICES must be a positive integer, got {text!r}")
    return count


def _open_gpus(platform: str) -> list[Device]:
    """The devices behind one GPU driver; without any, the reason goes into `_absent`."""
    try:
        targets = {f"GPU-{p.uuid}": p.target for p in vulkan.query()} if platform == "vulkan" else {}
        driver = iree.get_driver(platform)
        found = driver.query_available_devices()
        if not found:
            _absent[platform] = f"{_LOOKED_FOR[platform]}: the driver is there but reports no device"
        opened: list[Device] = []
        for i, info in enumerate(found):
            # Without its properties a device is not usable: code for another one computes wrongly, without an error.
            target = targets[str(info["path"])] if platform == "vulkan" else platform
            open = functools.partial(driver.create_device, info["device_id"])
            opened.append(GpuDevice(i, platform, str(info.get("name", platform)), open, target))
        return opened
    except Exception as error:  # whatever a driver does wrong must not take the CPU away
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = lines[0].split("; ", 1)[-1] if lines else type(error).__name__
        _absent[platform] = f"{_LOOKED_FOR[platform]}: {cause}"
        return []


def _all() -> list[Device]:
    global _devices
    if _devices is None:
        with _lock:
            if _devices is None:
                cpus: list[Device] = [CpuDevice(i) for i in range(_cpu_count or _requested_cpus())]
                _devices = cpus
    return _devices


_gpus: dict[str, list[Device]] = {}


def _platform(name: str) -> list[Device]:
    if name == "cpu":
        return [d for d in _all() if d.platform == "cpu"]
    with _lock:
        if name not in _gpus:
            _gpus[name] = _open_gpus(name)
        return _gpus[name]


def devices(platform: str | None = None) -> list[Device]:
    """The devices of this machine.

    Args:
      platform: "cpu", "vulkan" or "cuda" ("gpu" is whichever of the two is there); None lists the CPU devices first
        and then every GPU.

    Raises:
      RuntimeError: the platform is unknown or absent; the message says what was looked for.

    >>> import veery_runtime
    >>> veery_runtime.devices("cpu")
    [CpuDevice(id=0)]
    """
    if platform is None:
        return [*_platform("cpu"), *_platform("cuda"), *_platform("vulkan")]
    if platform == "gpu":
        found = _platform("cuda") or _platform("vulkan")
        return found or _missing("gpu", "; ".join(f"{name}: {cause}" for name, cause in _absent.items()))
    if platform not in ("cpu", "vulkan", "cuda"):
        raise DeviceUnavailableError(f"Unknown backend {platform!r}; veery knows cpu, vulkan and cuda")
    return _platform(platform) or _missing(platform, _absent.get(platform, "no device"))


def _missing(platform: str, cause: str) -> list[Device]:
    raise DeviceUnavailableError(f"No {platform} device on this machine: {cause}")


def absent() -> dict[str, str]:
    """The platforms that are not available here, each with the cause."""
    for name in ("cuda", "vulkan"):
        _platform(name)
    return dict(_absent)


def _opened() -> list[Device]:
    return [*(_devices or ()), *(device for found in _gpus.values() for device in found)]


def synchronize() -> None:
    """Blocks until all work on all devices is done, Python functions too; raises the first failure nobody has seen.

    Within a function that a program calls it does nothing: the program itself is such work.
    """
    if workers.nested():
        return
    workers.drain()
    for device in _opened():
        device.synchronize()


def _finish() -> None:
    """At exit: native code that comes back into Python after finalisation aborts the process, so nothing is left."""
    for device in _opened():
        try:
            device.synchronize()
        except Exception:
            logging.getLogger("veery").exception("work with effects failed and its error was never read")
    workers.drain()


def _after_fork() -> None:
    """In the child: locks that other threads of the parent may have held are replaced; threads are made when needed."""
    global _lock
    _lock = threading.Lock()
    completion.count_fork()
    for device in _opened():
        device.ledger.lock = threading.RLock()
        device._lock = threading.Lock()
        device.in_flight = Flight()
    effects.forget()


atexit.register(_finish)
os.register_at_fork(after_in_child=_after_fork)
