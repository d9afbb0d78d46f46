"""A plugin in use: its client, what it compiles, and the events by which work is waited for."""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery_runtime import completion
from veery_runtime.errors import ForkedProcessError
from veery_runtime.pjrt import abi
from veery_runtime.pjrt.api import Api, Function, PjrtError
from veery_runtime.pjrt.handle import Handle, Origin, one_field, text_buffer
from veery_runtime.pjrt.options import compile_options

_READY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

# A struct of a pointer and an answer: its size, its extensions, the pointer, the answer.
_Words = ctypes.c_size_t * 12
_OF, _ANSWER = 2, 3
_WORDS_SIZE = ctypes.sizeof(_Words)
_TAKES_BYTES = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)


class Client:
    """The client of a plugin. It lives as long as the process.

    Attributes:
        api: the plugin's functions.
        platform_name, platform_version: what the plugin calls itself.
        addresses: of the devices that programs can run on.
        host_visible: whether the host sees the devices' memory.
    """

    runtime_type = "pjrt_c_api"

    def __init__(self, api: Api) -> None:
        self.api = api
        self.address = api.call("Client_Create", abi.ClientCreate()).client
        self.platform_name = api.text("Client_PlatformName", abi.ClientText(client=self.address))
        self.platform_version = api.text("Client_PlatformVersion", abi.ClientText(client=self.address))
        found = api.call("Client_AddressableDevices", abi.ClientDevices(client=self.address))
        self.addresses = list((ctypes.c_size_t * found.num_devices).from_address(found.devices))
        self.host_visible = self.platform_name == "cpu"
        # Those that free what nobody has any more take bytes, the quickest struct to make.
        self.destroy_buffer = _taking_bytes(api.Buffer_Destroy)
        self.destroy_event = _taking_bytes(api.Event_Destroy)
        self._await = _taking_bytes(api.Event_Await)
        self._uploads, self._copies = Origin(self, "copy to a device"), Origin(self, "copy between devices")
        # Structs of a pointer and an answer, with their addresses, kept for the next call: to make one takes 1 us.
        self._words: list[tuple[Any, int]] = []
        self._generation = completion.generation
        self._waiting: dict[int, Callable[[], Any]] = {}
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

    def wait_for(self, buffer: int) -> PjrtError | None:
        """Blocks until a buffer's contents are there; returns what their work failed with. Takes 0.8 us if they are."""
        api, (words, address) = self.api, self._take_words()
        words[_OF] = buffer
        if self._generation != completion.generation:
            self.check_process("read")
        error = api.Buffer_ReadyEvent(address)
        if error:
            raise api.exception(error)
        words[_OF] = words[_ANSWER]
        error = api.Event_Await(address)
        api.Event_Destroy(address)
        self._words.append((words, address))
        return api.exception(error) if error else None

    def is_ready(self, event: int) -> bool:
        """Whether what an event stands for is finished, successfully or not."""
        return bool(self._answer(self.api.Event_IsReady, event) & 0xFF)

    def _take_words(self) -> tuple[Any, int]:
        try:
            return self._words.pop()
        except IndexError:
            words = _Words(_WORDS_SIZE)
            return words, ctypes.addressof(words)

    def _answer(self, function: Function, of: int) -> int:
        """What a function says of a pointer, in the word behind it."""
        words, address = self._take_words()
        words[_OF] = of
        words[_ANSWER] = 0
        error = function(address)
        answer: int = words[_ANSWER]
        self._words.append((words, address))
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
        number = next(self._numbers)
        self._waiting[number] = then
        self.api.call("Event_OnReady", abi.EventOnReady(event=event, callback=self._on_ready_address, user_arg=number))

    def keep_until(self, event: int, kept: Any) -> None:
        """Keeps what the plugin uses until an event has happened, which is freed then."""
        destroy, struct = self.destroy_event, one_field(event)  # at exit the module has lost its names

        def free(_: Any = kept) -> None:
            destroy(struct)

        self.when_ready(event, free)

    def _call_waiting(self, error: int | None, number: int) -> None:
        if error:
            self.api.try_call("Error_Destroy", abi.ErrorDestroy(error=error))
        self._waiting.pop(number)()

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
            self.keep_until(done, array)
        elif done:
            self.destroy_event(one_field(done))
        return Handle(arguments.buffer, self._uploads, [False])

    def pointer(self, handle: Handle) -> int:
        """The address of a ready buffer's contents, on the host where the host sees them."""
        found = self.api.call("Buffer_OpaqueDeviceMemoryDataPointer", abi.BufferPointer(buffer=handle.address))
        return int(found.pointer or 0)

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
            buffer=handle.address, layout=ctypes.addressof(layout), dst=into.ctypes.data, dst_size=into.nbytes
        )
        event = self.api.call("Buffer_ToHostBuffer", arguments).event
        error = self.wait(event)
        self.destroy_event(one_field(event))
        if error is not None:
            raise error

    def copy(self, handle: Handle, device: int) -> Handle:
        """A buffer copied to another device of the client."""
        copied = self.api.call("Buffer_CopyToDevice", abi.BufferCopyToDevice(buffer=handle.address, device=device))
        return Handle(copied.copy, self._copies, [False])

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


def _taking_bytes(function: Any) -> Callable[[bytes], Any]:
    taking: Callable[[bytes], Any] = _TAKES_BYTES(ctypes.cast(function, ctypes.c_void_p).value or 0)
    return taking
