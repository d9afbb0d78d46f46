"""A plugin in use: its client, what it compiles, and the events by which work is waited for."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery_runtime import completion
from veery_runtime.errors import ForkedProcessError
from veery_runtime.pjrt import abi
from veery_runtime.pjrt.api import Api, PjrtError
from veery_runtime.pjrt.handle import Handle, Origin, Shared, Work, one_field, text_buffer
from veery_runtime.pjrt.options import compile_options
from veery_runtime.pjrt.result import maker_of, result_type

_READY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

_TAKES_BYTES = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)

# A struct of a pointer and an answer, and what functions are given of it.
_Struct = tuple[Any, Any]


class Client:
    """The client of a plugin. It lives as long as the process.

    Attributes:
        api: the plugin's functions.
        platform_name, platform_version: what the plugin calls itself.
        addresses: of the devices that programs can run on.
        host_visible: whether the host sees the devices' memory.
    """

    runtime_type = "pjrt_c_api"

    def __init__(self, api: Api, options: Mapping[str, int] | None = None) -> None:
        """Starts a plugin.

        Args:
            api: the plugin's functions.
            options: what it is started with; those that it does not take are left out, the last ones first.
        """
        self.api = api
        self.address = _created(api, options or {})
        self.platform_name = api.text("Client_PlatformName", abi.ClientText(client=self.address))
        self.platform_version = api.text("Client_PlatformVersion", abi.ClientText(client=self.address))
        found = api.call("Client_AddressableDevices", abi.ClientDevices(client=self.address))
        self.addresses = list((ctypes.c_size_t * found.num_devices).from_address(found.devices))
        self.host_visible = self.platform_name == "cpu"
        self.destroy_buffer = _freeing(api.Buffer_Destroy)
        self._delete_buffer = _freeing(api.Buffer_Delete)
        self.destroy_event = _freeing(api.Event_Destroy)
        self.end_view = _freeing(api.Buffer_DecreaseExternalReferenceCount)
        self._await = _taking_bytes(api.Event_Await)
        # Structs kept for the next call: to make one takes 1 us.
        self._structs: list[_Struct] = []
        self.wait_for = self._waiter()
        self.begin_view = self._viewer()
        self._uploads, self._copies = Origin(self, "copy to a device"), Origin(self, "copy between devices")
        self.finished = Work(Origin(self, "a finished call"))  # of buffers whose contents are there
        self.finished.is_done = True
        self._results = result_type(self)
        self.maker = maker_of(self._results)
        self._generation = completion.generation
        self._waiting: dict[int, Callable[[], Any]] = {}
        self.lent: set[int] = set()  # of those that wait: what lives as long as a buffer
        self._numbers = itertools.count(1)
        self._on_ready = _READY(self._call_waiting)
        self._on_ready_address = ctypes.cast(self._on_ready, ctypes.c_void_p).value

    def process_index(self) -> int:
        """The number of this process among those that compute together."""
        return 0

    @property
    def identity(self) -> str:
        """What is another for plugins that do not load each other's executables: they have no version that tells."""
        stat = os.stat(self.api.path)
        return f"{self.api.version} {self.platform_name} {self.platform_version} {stat.st_size} {stat.st_mtime_ns}"

    def check_process(self, name: str) -> None:
        """Raises ForkedProcessError in a child: the plugin's threads are the parent's."""
        if self._generation != completion.generation:
            raise ForkedProcessError(
                f"{name}: a forked child cannot use the parent's {self.platform_name} plugin; start the child with the "
                "'spawn' method"
            )

    # Events.

    def ready_event(self, buffer: int) -> int:
        """The event of a buffer's contents; to be destroyed."""
        self.check_process("read")
        return self._answer(self.api.Buffer_ReadyEvent, buffer)

    def _waiter(self) -> Callable[[Any], PjrtError | None]:
        """What blocks until the contents of a buffer are there, and returns what their work failed with.

        It takes 0.5 us if they are there.
        """
        api, new, take, keep = self.api, self.new_struct, self._structs.pop, self._structs.append
        function = api.keeping_lock if self.host_visible else api.quick
        ready_event, wait, destroy = function("Buffer_ReadyEvent"), api.quick("Event_Await"), function("Event_Destroy")
        begun, check = completion.generation, self.check_process
        of, answer = abi.OF, abi.ANSWER

        def wait_for(buffer: Any) -> PjrtError | None:
            if completion.generation != begun:
                check("read")
            try:
                struct = take()
            except IndexError:
                struct = new()
            words, at = struct
            # No other thread runs between these two lines: the plugin's buffer is there until it has given its event.
            words[of] = buffer._ref
            error = ready_event(at)
            if error:
                raise api.exception(error)
            words[of] = words[answer]
            error = wait(at)
            destroy(at)
            keep(struct)
            return api.exception(error) if error else None

        return wait_for

    def wait_interruptibly(self, buffer: int, name: str) -> None:
        """Blocks until the contents of a buffer are there, in slices, so that Ctrl-C is noticed."""
        event = self.ready_event(buffer)
        try:
            if not self.is_ready(event):
                done = threading.Event()
                self.when_ready(event, done.set)
                while not done.wait(completion.SLICE_SECONDS):
                    self.check_process(name)
        finally:
            self.destroy_event(event)

    def is_ready(self, event: int) -> bool:
        """Whether what an event stands for is finished, successfully or not."""
        return bool(self._answer(self.api.Event_IsReady, event) & 0xFF)

    def new_struct(self) -> _Struct:
        """A struct of a pointer and an answer, and what functions are given of it."""
        words = abi.Words(abi.WORDS_SIZE)
        return words, ctypes.byref(words)

    def _answer(self, function: Callable[[Any], int | None], of: int) -> int:
        """What a function says of a pointer, in the word behind it."""
        try:
            words, at = struct = self._structs.pop()
        except IndexError:
            words, at = struct = self.new_struct()
        words[abi.OF] = of
        words[abi.ANSWER] = 0
        error = function(at)
        answer: int = words[abi.ANSWER]
        self._structs.append(struct)
        if error:
            raise self.api.exception(error)
        return answer

    def error_of(self, event: int) -> PjrtError | None:
        """What finished work failed with."""
        error = self.api.try_call("Event_Error", abi.Event(event=event))
        return self.api.exception(error) if error else None

    def wait(self, event: int) -> PjrtError | None:
        """Blocks until an event has happened; returns what the work failed with."""
        error = self._await(one_field(event))
        return self.api.exception(error) if error else None

    def when_ready(self, event: int, then: Callable[[], Any]) -> None:
        """Calls a function, on one of the plugin's threads, when an event has happened."""
        self._call_when_ready(next(self._numbers), event, then)

    def _call_when_ready(self, number: int, event: int, then: Callable[[], Any]) -> None:
        self._waiting[number] = then
        self.api.call("Event_OnReady", abi.EventOnReady(event=event, callback=self._on_ready_address, user_arg=number))

    def keep_until(self, event: int, kept: Any, number: int | None = None) -> None:
        """Keeps what the plugin uses until an event has happened, which is freed then."""
        destroy = self.destroy_event

        def free(_: Any = kept) -> None:
            destroy(event)

        self._call_when_ready(next(self._numbers) if number is None else number, event, free)

    def finish(self) -> None:
        """At exit: waits until no thread of the plugin will call Python any more, which would end the process.

        Buffers are left to the system: the plugin may have its last use of one still before it, and tells then.
        """
        self.destroy_buffer = _leave
        self._results.__del__ = _leave  # type: ignore[attr-defined]
        while self._generation == completion.generation and self._waiting.keys() - self.lent:
            time.sleep(0.0005)

    def _call_waiting(self, error: int | None, number: int) -> None:
        if error:
            self.api.try_call("Error_Destroy", abi.ErrorDestroy(error=error))
        then, self._waiting[number] = self._waiting[number], _nothing
        try:
            then()
            del then  # with what it kept, whose end may run Python
        finally:
            # The last instruction: `finish` may return as soon as another thread runs, and none does behind it.
            del self._waiting[number]

    # Buffers.

    def upload(self, array: np.ndarray[Any, Any], element_type: int, device: int, *, shared: bool) -> Handle:
        """A C-contiguous array on a device; `shared` lets the plugin use its memory, which must not change, instead."""
        self.check_process("put")
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        arguments = abi.BufferFromHostBuffer(
            client=self.address,
            data=array.ctypes.data,
            type=element_type,
            dims=ctypes.addressof(dims),
            num_dims=array.ndim,
            semantics=abi.SHARED_UNCHANGED if shared else abi.COPIED_DURING_CALL,
            device=device,
        )
        self.api.call("Client_BufferFromHostBuffer", arguments)
        done = arguments.done_with_host_buffer
        if shared:
            handle = Shared(arguments.buffer, Work(self._uploads))
            handle.number = number = next(self._numbers)
            self.lent.add(number)
            self.keep_until(done, array, number)
            return handle
        if done:
            self.destroy_event(done)
        return Handle(arguments.buffer, Work(self._uploads))

    def delete_buffer(self, address: int) -> None:
        """Gives the contents of a buffer up; work in flight and views keep what they use of them."""
        if isinstance(address, Shared):
            self.lent.discard(address.number)
        self._delete_buffer(address)

    def is_deleted(self, buffer: int) -> bool:
        """Whether the contents of a buffer were given up or taken over."""
        return bool(self._answer(self.api.Buffer_IsDeleted, buffer) & 0xFF)

    def _viewer(self) -> Callable[[Handle], int]:
        """What keeps the contents of a ready buffer until `end_view`, and gives their address on the host, if any."""
        api, new, take, keep = self.api, self.new_struct, self._structs.pop, self._structs.append
        function = api.keeping_lock if self.host_visible else api.quick
        begin = function("Buffer_IncreaseExternalReferenceCount")
        pointer = function("Buffer_OpaqueDeviceMemoryDataPointer")
        end, of, answer = self.end_view, abi.OF, abi.ANSWER

        def begin_view(handle: Handle) -> int:
            try:
                struct = take()
            except IndexError:
                struct = new()
            words, at = struct
            words[of] = handle
            error = begin(at)
            if error:
                raise api.exception(error)
            words[answer] = 0
            error = pointer(at)
            found: int = words[answer]
            keep(struct)
            if error:
                end(handle)
                raise api.exception(error)
            return found

        return begin_view

    def download(self, handle: Handle, into: np.ndarray[Any, Any]) -> None:
        """Copies a buffer into a C-contiguous array, and waits for that."""
        order = (ctypes.c_int64 * into.ndim)(*reversed(range(into.ndim)))
        layout = abi.MemoryLayout(
            struct_size=ctypes.sizeof(abi.MemoryLayout),
            tiled_size=abi.TILED_SIZE,
            minor_to_major=ctypes.addressof(order),
            minor_to_major_size=into.ndim,
        )
        arguments = abi.BufferToHost(
            buffer=handle, layout=ctypes.addressof(layout), dst=into.ctypes.data, dst_size=into.nbytes
        )
        event = self.api.call("Buffer_ToHostBuffer", arguments).event
        error = self.wait(event)
        self.destroy_event(event)
        if error is not None:
            raise error

    def copy(self, handle: Handle, device: int) -> Handle:
        """A buffer copied to another device of the client."""
        copied = self.api.call("Buffer_CopyToDevice", abi.BufferCopyToDevice(buffer=handle, device=device))
        return Handle(copied.copy, Work(self._copies))

    # Programs.

    def compile(
        self, code: bytes, device_ids: Sequence[int], *, partitions: int = 1, overrides: Mapping[str, Any] | None = None
    ) -> int:
        """The address of a loaded executable of a StableHLO module.

        Raises:
            PjrtError: with the compiler's words.
        """
        self.check_process("compile")
        options = compile_options(device_ids, partitions=partitions, overrides=overrides)
        held = [text_buffer(code), text_buffer(b"mlir"), text_buffer(options)]
        (_, code_at), (_, format_at), (_, options_at) = held
        program = abi.Program(code=code_at, code_size=len(code), format=format_at, format_size=4)
        arguments = abi.ClientCompile(
            client=self.address,
            program=ctypes.addressof(program),
            options=options_at,
            options_size=len(options),
        )
        return int(self.api.call("Client_Compile", arguments).executable)

    def executable_of(self, loaded: int) -> int:
        """The executable behind a loaded one; to be destroyed."""
        return int(self.api.call("LoadedExecutable_GetExecutable", abi.GetExecutable(loaded=loaded)).executable)

    def memory_of(self, loaded: int) -> Any:
        """What a loaded executable needs of memory: a CompiledMemoryStats."""
        executable = self.executable_of(loaded)
        try:
            stats = abi.CompiledMemoryStats(executable=executable)
            return self.api.call("Executable_GetCompiledMemoryStats", stats)
        finally:
            self.api.call("Executable_Destroy", abi.Executable(executable=executable))

    def serialize(self, loaded: int) -> bytes:
        """A loaded executable as bytes, which the same plugin loads again.

        Raises:
            PjrtError: the plugin cannot.
        """
        executable = self.executable_of(loaded)
        try:
            made = self.api.call("Executable_Serialize", abi.ExecutableSerialize(executable=executable))
            content = ctypes.string_at(made.bytes, made.size)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.deleter)(made.serialized)
            return content
        finally:
            self.api.call("Executable_Destroy", abi.Executable(executable=executable))

    def deserialize(self, content: bytes) -> int:
        """The loaded executable of what `serialize` gave.

        Raises:
            PjrtError: it is of another plugin, or damaged.
        """
        self.check_process("load")
        _held, at = text_buffer(content)
        arguments = abi.DeserializeAndLoad(client=self.address, bytes=at, size=len(content))
        return int(self.api.call("Executable_DeserializeAndLoad", arguments).loaded)

    def destroy_executable(self, loaded: int) -> None:
        """Frees a loaded executable."""
        self.api.try_call("LoadedExecutable_Destroy", abi.Executable(executable=loaded))


def _nothing() -> None:
    """In the place of what is being called."""


def _leave(_: Any) -> None:
    """Frees nothing."""


def _created(api: Api, options: Mapping[str, int]) -> int:
    """The address of a new client."""
    for count in range(len(options), 0, -1):
        values, _held = abi.named_values(list(options.items())[:count])
        given = abi.ClientCreate(create_options=ctypes.addressof(values), num_options=count)
        try:
            return int(api.call("Client_Create", given).client)
        except PjrtError:  # what is wrong besides options is told below
            pass
    return int(api.call("Client_Create", abi.ClientCreate()).client)


def _freeing(function: Any) -> Callable[[int], None]:
    """What frees by address. At exit the module has lost its names, so that they are variables of the function's."""
    call, struct = _taking_bytes(function), one_field

    def free(address: int) -> None:
        call(struct(address))

    return free


def _taking_bytes(function: Any) -> Callable[[bytes], Any]:
    taking: Callable[[bytes], Any] = _TAKES_BYTES(ctypes.cast(function, ctypes.c_void_p).value or 0)
    return taking
