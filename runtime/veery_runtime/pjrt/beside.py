"""Programs of XLA on arrays of IREE's CPU device: both compilers see the host's memory, so that nothing is copied."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_runtime import completion
from veery_runtime.buffer import ALIGNMENT, SHARED, Buffer, Spec
from veery_runtime.completion import DELETED, Deferred, Failed
from veery_runtime.device import Device
from veery_runtime.donation import check_distinct
from veery_runtime.pjrt import host
from veery_runtime.pjrt.executable import PjrtExecutable
from veery_runtime.pjrt.handle import Handle, Work
from veery_runtime.pjrt.result import Maker

Call = Callable[[Sequence[Buffer]], list[Buffer]]

_twin = operator.attrgetter("_twin")


class Imported(Deferred):
    """A result of XLA, which becomes a reference of IREE's when somebody there needs one."""

    __slots__ = ("handle", "spec", "home")
    is_lazy = True

    def __init__(self, handle: Handle, spec: Spec, home: Any) -> None:
        self.name = handle.name
        self.handle = handle
        self.spec = spec
        self.home = home
        self.refs = []
        self.after = None
        self.begun = completion.generation

    @property
    def submitted(self) -> Imported:  # type: ignore[override]
        return self

    def is_set(self) -> bool:
        """Whether there is a reference of IREE's, or none to come; makes it where the result is ready."""
        if not self.refs and self.handle.done():
            self._settle()
        return bool(self.refs)

    def wait_submitted(self) -> None:
        """Blocks until there is."""
        if not self.refs:
            self._settle()

    def done(self) -> bool:
        return bool(self.refs) or self.handle.done()

    def wait(self) -> None:
        self.handle.wait()

    def failed(self) -> bool:
        return self.is_set() and self.after is not None

    def _settle(self) -> None:
        try:
            self.handle.wait()
        except BaseException as error:
            self.after, self.refs = Failed(error), [None]
            return
        spec = self.spec
        if spec.nbytes:
            contents = self.home.read(self.handle, spec)
            aligned = contents.ctypes.data % ALIGNMENT == 0
            self.refs = [spec.device.share(contents, spec) if aligned else spec.device.upload(contents, spec)]
        else:
            self.refs = [spec.device.upload(np.empty(spec.shape, spec.dtype), spec)]


class BesideExecutable:
    """A program of XLA that takes and returns buffers of the CPU device; see veery_runtime.Executable.

    Attributes:
        inner: the program on XLA's device.
    """

    overwritten: tuple[int, ...] = ()
    needs_ready = False
    queue = "xla"

    def __init__(self, inner: PjrtExecutable, device: Device) -> None:
        self.inner = inner
        self.name, self.device, self.donated, self.has_effects = inner.name, device, inner.donated, inner.has_effects
        self._program = inner._program
        self.inputs, self.outputs = (
            tuple(device.spec(spec.shape, spec.dtype) for spec in side) for side in (inner.inputs, inner.outputs)
        )
        self._by_other: Any = None
        self._make_other: Callable[[], Any] | None = None
        self.call: Call = self._choose_call()

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Runs the program; see veery_runtime.Executable."""
        return self.call(buffers)

    def at(self, shapes: Sequence[tuple[int, ...]]) -> BesideExecutable:
        """The program for arguments of these shapes: itself."""
        return self

    def serialize(self) -> bytes:
        """The compiled program; see PjrtExecutable."""
        return self.inner.serialize()

    def memory_analysis(self) -> dict[str, int]:
        """What a call needs; see PjrtExecutable."""
        return self.inner.memory_analysis()

    def _choose_call(self) -> Call:
        if self.donated or self.inner.calls_python or self.inner.constants:
            return self._general_call
        home = self.inner.device

        def one(address: int, spec: Spec, work: Work) -> Buffer:
            return _imported(Handle(address, work), spec, home)

        def many(addresses: Sequence[int], specs: Sequence[Spec], work: Work) -> list[Buffer]:
            return [_imported(Handle(address, work), spec, home) for address, spec in zip(addresses, specs)]

        # Arguments without an address are those that XLA has not seen yet, and deleted ones.
        return self.inner.caller(_twin, Maker(one, many), self.outputs, self._general_call, self._nested_call)

    def otherwise_by(self, make: Callable[[], Any]) -> BesideExecutable:
        """The program itself, told what makes the same one by another compiler, for calls that XLA would not run."""
        self._make_other = make
        return self

    def _nested_call(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """A call by a Python function that a program of XLA waits for."""
        if self._by_other is None:
            if self._make_other is None:
                self.inner.refuse_to_wait()
            self._by_other = self._make_other()
        results: list[Buffer] = self._by_other.call(buffers)
        return results

    def _general_call(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        if threading.get_ident() in host.waited_for:
            return self._nested_call(buffers)
        there: list[Any] = [_There(buffer, self.inner.device) for buffer in buffers]
        failed = next((each for each in there if each._ref is None), None)
        if failed is not None:
            return self._fail(failed)
        check_distinct(self.name, self.donated, buffers)
        results = [
            Buffer(None, spec, result._pending)
            if result._ref is None
            else _imported(result.held(), spec, self.inner.device)
            for result, spec in zip(self.inner.call(there), self.outputs)
        ]
        for index in self.donated:
            buffers[index].delete()
        return results

    def _fail(self, missing: _There) -> list[Buffer]:
        if missing.source._pending is DELETED:
            raise missing.source.deleted_error()
        return [Buffer(None, spec, missing._pending) for spec in self.outputs]


class _There:
    """A buffer of the CPU device as XLA's executables take one: only as long as the call."""

    __slots__ = ("source", "_ref", "_pending", "_host")

    def __init__(self, source: Buffer, home: Any) -> None:
        self.source = source
        twin = source._twin
        if twin is None:
            twin = _twin_of(source, home)
        self._ref = twin
        self._pending = source._pending
        # What is XLA's alone may be overwritten.
        alone = type(self._pending) is Imported and not self._pending.refs and source._host is SHARED
        self._host = None if alone else SHARED

    def delete(self) -> None:
        """The buffer is deleted by who gave it."""


def _twin_of(buffer: Buffer, home: Any) -> Handle | None:
    """XLA's view of the memory of a buffer, after waiting for its contents; None where they failed."""
    if buffer._pending is not None:
        reported = buffer._pending.reported
        try:
            buffer.wait()
        except Exception as error:
            if buffer._pending is DELETED:
                return None
            buffer._pending = Failed(error)
            buffer._pending.reported = reported
            return None
    if buffer._ref is None:
        return None
    spec = home.spec(buffer.shape, buffer.dtype)
    contents = buffer.numpy()
    aligned = spec.nbytes and contents.ctypes.data % ALIGNMENT == 0
    twin: Handle = home.share(contents, spec) if aligned else home.upload(contents, spec)
    buffer._twin = twin
    return twin


def _imported(handle: Handle, spec: Spec, home: Any) -> Buffer:
    """A result of XLA as a buffer of the CPU device."""
    buffer = Buffer(0, spec, Imported(handle, spec, home))
    buffer._twin = handle
    buffer._host = SHARED  # with XLA, of whose calls in flight IREE knows nothing
    return buffer
