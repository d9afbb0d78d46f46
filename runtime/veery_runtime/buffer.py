"""Device buffers: uploads, reads, sharing, deletion and accounting."""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from veery_runtime import buffer_protocol, completion, workers
from veery_runtime.completion import DELETED, Deferred, Pending
from veery_runtime.errors import DeletedBufferError

if TYPE_CHECKING:
    from veery_runtime.device import Device

ALIGNMENT = 64  # what IREE's kernels assume of an argument; DLPack imports are checked for it

# Below this a copy into IREE's own allocation is the cheaper upload (1.0 us against 6 us for 8 floats); above it page
# faults decide and NumPy's memory wins (64 MB: 16 ms against 82 ms).
_SMALL_UPLOAD = 1 << 16

# Buffers from this size on are counted as they come and go; smaller ones only when statistics are asked for, because
# the count would cost a tenth of a small call.
COUNTED_NBYTES = 1 << 14
_MOST_NOTES = 1 << 12

# Stands in `_host` for "memory that somebody else may see": such a buffer is copied instead of donated.
SHARED = object()


class HostCopy:
    """Stands in `_host` for a copy to the host that a thread is making."""

    __slots__ = ("done", "begun")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.begun = completion.generation

    def wait(self) -> None:
        """Blocks until the thread is done; returns at once in a forked child, which has no such thread."""
        while not self.done.wait(completion.SLICE_SECONDS) and self.begun == completion.generation:
            pass


class Spec:
    """What all buffers of one shape and dtype on one device have in common."""

    __slots__ = ("shape", "dtype", "nbytes", "device", "element_type", "raw", "small", "exports")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> None:
        self.shape = shape
        self.dtype = dtype
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.device = device
        self.element_type = device.element_types.get(dtype)
        if self.element_type is None:
            known = ", ".join(each.name for each in device.element_types)
            raise TypeError(f"no device buffer can hold dtype {dtype.name!r}; {device!r} supports {known}")
        # Dtypes that Python's buffer protocol does not know travel as integers of their size.
        self.raw = None if dtype.kind in "biufc" and dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
        self.exports = device.host_visible and self.raw is None and _EXPORTS_IN_C
        self.small = device.host_visible and 0 < self.nbytes <= _SMALL_UPLOAD


class Ledger:
    """Live and peak bytes of one device.

    What comes and goes is noted, and added up when somebody asks, or when that is much: a note takes 0.05 us, where
    adding under a lock takes 0.8. The lock is re-entrant: a collection may free a buffer while it is held.
    """

    __slots__ = ("live", "peak", "largest", "lock", "notes")

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self.largest = 0
        self.lock = threading.RLock()
        self.notes: deque[int] = deque()  # bytes that came, or went where they are negative, not yet added

    def settle(self) -> None:
        """Adds up what was noted, in its order."""
        with self.lock:
            for _ in range(len(self.notes)):
                nbytes = self.notes.popleft()
                self.live += nbytes
                if self.live > self.peak:
                    self.peak = self.live
                if nbytes > self.largest:
                    self.largest = nbytes


class Tally:
    """One buffer's entry in the ledger; it is struck out when the tally goes."""

    __slots__ = ("ledger", "nbytes")

    def __init__(self, ledger: Ledger, nbytes: int) -> None:
        self.ledger = ledger
        self.nbytes = nbytes
        notes = ledger.notes
        notes.append(nbytes)
        if len(notes) > _MOST_NOTES:
            ledger.settle()

    def __del__(self) -> None:
        self.ledger.notes.append(-self.nbytes)


class _Referenced:
    __slots__ = ("__weakref__",)


class Buffer(_Referenced):
    """An array in device memory, perhaps still being computed.

    Made by `put` and by calls of an `Executable`; never by hand.
    """

    # `_pending is None` is the one test of the hot path: deleted, failed and unfinished buffers all have a state there.
    # `_twin` is what another compiler's programs on this processor see of the memory.
    __slots__ = ("_ref", "_spec", "_pending", "_host", "_tally", "_twin")

    def __init__(self, ref: Any, spec: Spec, pending: Pending | None = None) -> None:
        self._ref = ref
        self._spec = spec
        self._pending = pending
        self._host: Any = None
        self._twin: Any = None
        self._tally = Tally(spec.device.ledger, spec.nbytes) if spec.nbytes >= COUNTED_NBYTES else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self._spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self._spec.dtype

    @property
    def nbytes(self) -> int:
        """Size of the contents in bytes."""
        return self._spec.nbytes

    @property
    def device(self) -> Device:
        """The device that holds the contents."""
        return self._spec.device

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted() else "ready" if self.is_ready() else "pending"
        return f"Buffer({self.dtype.name}{list(self.shape)}, {self.device!r}, {state})"

    def is_ready(self) -> bool:
        """True when the contents are there (or are known never to come); never blocks."""
        self._check_alive()
        pending = self._pending
        return pending is None or pending.done()

    def wait(self) -> None:
        """Blocks until the contents are there; raises the error of the work that should have made them."""
        pending = self._pending
        if pending is None:
            return
        if pending is DELETED:
            self._check_alive()
        pending.wait()
        if isinstance(pending, Deferred):
            if pending.is_lazy:
                return
            self._settle(pending)
        if self._pending is pending:  # else: deleted meanwhile by another thread
            self._pending = None

    def _settle(self, deferred: Deferred) -> None:
        """Takes over the reference that a worker thread has obtained for this buffer."""
        index = self._ref
        if isinstance(index, int) and self._pending is deferred:
            self._ref = deferred.refs[index]

    def numpy(self) -> np.ndarray[Any, Any]:
        """The contents as a read-only NumPy array, after waiting for them; no copy where the host sees the memory.

        Returns:
          An array of this buffer's shape and dtype. It keeps the memory alive by itself.

        Raises:
          RuntimeError: the buffer was deleted, or the work that makes it failed.

        >>> import numpy, veery_runtime
        >>> buffer = veery_runtime.put(numpy.arange(3), veery_runtime.devices()[0])
        >>> buffer.numpy()
        array([0, 1, 2])
        """
        host = self._host
        if type(host) is HostCopy:
            host.wait()
            if self._host is host:
                self._host = None
            host = self._host
        if type(host) is not np.ndarray:
            host = self._host = self._read()
            if self._spec.exports:
                self.__class__ = ReadBuffer
        return host

    def __buffer__(self, flags: int) -> memoryview:
        """The contents where the host sees the memory, after waiting for them, for Python 3.12 and later.

        Raises:
          BufferError: the device has memory of its own.
        """
        return self._exported().data

    def _exported(self) -> np.ndarray[Any, Any]:
        if not self._spec.device.host_visible:
            raise BufferError(f"the memory of {self.device!r} cannot be shared; copy it with numpy.asarray")
        return self.numpy()

    def numpy_if_ready(self) -> np.ndarray[Any, Any] | None:
        """The contents as `numpy` gives them, if they are there; None if they are not (yet), without waiting."""
        if type(self._host) is np.ndarray:
            return self._host
        pending = self._pending
        if pending is not None and (pending is DELETED or not pending.done() or pending.failed()):
            return None
        return self.numpy()

    def _read(self) -> np.ndarray[Any, Any]:
        spec = self._spec
        ref = self._reference()
        if ref is None:
            self._check_alive()
        if spec.nbytes == 0:
            host = np.empty(spec.shape, spec.dtype)
            host.flags.writeable = False
        else:
            host = spec.device.read(ref, spec)
        return host

    def _reference(self) -> Any:
        """The reference to the contents, after waiting for them."""
        pending = self._pending
        if pending is not None:
            self.wait()
            if isinstance(pending, Deferred) and self._pending is pending:
                pending.wait_submitted()
                self._settle(pending)
                self._pending = None
        return self._ref

    def held(self) -> Any:
        """The reference, perhaps to what is still being computed, for somebody who has it longer than this buffer."""
        return self._ref

    def state(self) -> Pending | None:
        """The state of the work that makes the contents; None where they are known to be there."""
        return self._pending

    def copy_to_host_async(self) -> None:
        """Begins to copy the contents to the host, where `numpy` finds them; nothing to do where memory is shared.

        Raises:
          RuntimeError: the buffer was deleted.
        """
        self._check_alive()
        if self._spec.device.host_visible or type(self._host) in (HostCopy, np.ndarray):
            return
        copy = self._host = HostCopy()
        pending = self._pending

        def run() -> None:
            value = None
            reported = pending is not None and pending.reported
            try:
                value = self._read()
            except BaseException:  # whoever reads the buffer meets it again
                if pending is not None:
                    pending.reported = reported
            finally:
                if self._host is copy:
                    self._host = value
                copy.done.set()

        workers.host_copies.submit(run)

    def unsafe_pointer(self) -> int:
        """The address of the contents in the host's memory, after waiting for them.

        Raises:
          NotImplementedError: the device has memory of its own.
        """
        if not self._spec.device.host_visible:
            raise NotImplementedError(f"unsafe_pointer: the memory of {self.device!r} has no address on the host")
        return self.numpy().ctypes.data

    def reshaped(self, shape: tuple[int, ...]) -> Buffer:
        """The same contents in another shape, after waiting for them: a buffer on the same memory."""
        ref = self._reference()
        spec = self._spec.device.spec(shape, self.dtype)
        if self._host is None:
            self._host = SHARED
        other = Buffer(spec.device.reshape(ref, spec), spec)
        other._host = SHARED
        other._tally = None  # the memory is counted once
        return other

    def delete(self) -> None:
        """Gives the memory up; later uses raise. Arrays handed out by `numpy` and work in flight stay valid."""
        self._pending = DELETED
        self._host = self._tally = None
        ref, self._ref = self._ref, None
        if ref is not None:
            self._twin = self._spec.device.give_up(ref)

    def is_deleted(self) -> bool:
        """True after `delete` or donation."""
        return self._pending is DELETED

    def deleted_error(self) -> DeletedBufferError:
        """The error for a use after deletion, in JAX's words."""
        shape = ",".join(map(str, self.shape))
        return DeletedBufferError(f"Array has been deleted with shape={self.dtype.name}[{shape}].")

    def _check_alive(self) -> None:
        if self._pending is DELETED:
            raise self.deleted_error()

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and number."""
        return self._spec.device.dlpack_device

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule that shares this buffer's memory. The consumer must not write to it.

        Raises:
          BufferError: a copy or another device was asked for.
        """
        ref = self._reference()
        device = self._spec.device
        if copy:
            raise BufferError("Buffer.__dlpack__ shares its memory; copy in the consumer instead")
        if dl_device is not None and tuple(dl_device) != device.dlpack_device:
            raise BufferError(f"Buffer.__dlpack__: the contents are on {device!r}, not on DLPack device {dl_device}")
        if type(self._host) is not np.ndarray:
            self._host = SHARED
        return device.export(ref, self._spec)


class ReadBuffer(Buffer):
    """A buffer whose contents were read: its NumPy array, while it has one, is what it exports."""

    __slots__ = ()


buffer_protocol.provide(Buffer, Buffer._exported)
_EXPORTS_IN_C = buffer_protocol.redirect(ReadBuffer, "_host")


def put(array: np.ndarray[Any, Any], device: Device, copy: bool = True) -> Buffer:
    """Places a NumPy array on a device.

    Args:
      array: any shape, a dtype that devices can hold; strides do not matter.
      device: where to.
      copy: False gives the memory away: it may be shared instead of copied (when 64-byte aligned and contiguous), and
        must not be written to afterwards. Where it is donated it is copied then.

    Returns:
      The buffer. The caller may change `array` at once when `copy` is true.

    Raises:
      TypeError: the dtype has no counterpart on devices (object, string, longdouble...).

    >>> import numpy, veery_runtime
    >>> veery_runtime.put(numpy.ones((2, 2), numpy.float32), veery_runtime.devices()[0]).shape
    (2, 2)
    """
    spec = device.find_spec((array.shape, array.dtype))
    if spec is None:
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        spec = device.spec(array.shape, array.dtype)
    if copy and spec.small and array.flags.c_contiguous:  # 1.6 us for 8 floats, of which IREE's copy takes 0.9
        return Buffer(device.upload(array, spec), spec)
    if not device.host_visible or spec.nbytes == 0:
        return Buffer(device.upload(np.array(array, order="C", copy=None), spec), spec)
    if not copy and array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        buffer = Buffer(device.share(array, spec), spec)
        buffer._host = SHARED
        return buffer
    return Buffer(device.upload(np.ascontiguousarray(array).reshape(spec.shape), spec), spec)
