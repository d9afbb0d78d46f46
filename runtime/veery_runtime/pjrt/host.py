"""Python functions that programs call, through XLA's foreign function interface.

All are one function to XLA, `veery.host_call`, which is told the program and the position of the function in it. XLA
calls it on one of its threads with the addresses of arguments and results.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from veery_runtime.buffer import Spec
from veery_runtime.errors import DeviceUnavailableError, remember
from veery_runtime.foreign import abi as foreign
from veery_runtime.hostcall import HostFunction, specs
from veery_runtime.pjrt import abi
from veery_runtime.pjrt.client import Client
from veery_runtime.pjrt.handle import text_buffer

NAME = b"veery.host_call"
# In a program's code, where the number of the program is put when it is loaded.
PLACE_OF_PROGRAM = b"veery-program-0000000000"
_PREFIX = b"veery-program-"


class _Register(ctypes.Structure):
    """PJRT_FFI_Register_Handler_Args."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("name", ctypes.c_void_p), ("name_size", ctypes.c_size_t),
        ("handler", ctypes.c_void_p), ("platform", ctypes.c_void_p), ("platform_size", ctypes.c_size_t),
        ("traits", ctypes.c_uint32),
    ]  # fmt: skip


class _Extension(ctypes.Structure):
    """PJRT_FFI_Extension."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p),
        ("register_type", ctypes.c_void_p), ("add_user_data", ctypes.c_void_p), ("register", ctypes.c_void_p),
    ]  # fmt: skip


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


_WORD = ctypes.c_size_t

# The threads that call programs, and those that run Python functions for which a program waits. XLA runs small programs
# in the caller's thread, others in one of its own, there one of a client's after the other: what such a function calls
# would wait for the program that waits for the function.
_of_thread = threading.local()
calling: set[int] = set()
waited_for: set[int] = set()


class _Arrays(dict[int, Any]):
    """Types of arrays of words, by their length: to make one takes 0.3 us."""

    def __missing__(self, length: int) -> Any:
        made = self[length] = _WORD * length
        return made


_WORDS = _Arrays()


class Functions:
    """The Python functions of one loaded program; XLA finds them as long as this is there."""

    def __init__(self, functions: list[HostFunction]) -> None:
        self.callees = [*map(_callee, functions)]
        self.key = _PREFIX + b"%010d" % next(_numbers)
        _programs[self.key] = self

    def bound(self, code: bytes) -> bytes:
        """The code of the program, in which calls say that they are of this program."""
        return code.replace(PLACE_OF_PROGRAM, self.key)


_numbers = itertools.count(1)
_programs: weakref.WeakValueDictionary[bytes, Functions] = weakref.WeakValueDictionary()


def functions(program: Any, device: Any) -> Functions:
    """The functions of a program for a device.

    Raises:
        DeviceUnavailableError: programs of this plugin cannot call Python functions.
    """
    if not device.host_visible:
        raise DeviceUnavailableError(
            f"{program.name} calls Python functions, which programs on {device!r} cannot: their memory is not the "
            "host's. Use a CPU device for it, or leave the calls out"
        )
    _register(device.client)
    return Functions(
        [
            HostFunction(call.symbol, call.function, specs(device, call.inputs), specs(device, call.outputs), device)
            for call in program.host_calls
        ]
    )


@functools.cache
def _register(client: Client) -> None:
    """Tell a plugin of the function, once."""
    address = client.api.extension(abi.FFI_EXTENSION)
    register = _Extension.from_address(address).register if address else None
    if not register:
        raise DeviceUnavailableError(f"{client.api.path} does not let programs call functions of the host")
    (_held_name, name), (_held_platform, platform) = text_buffer(NAME), text_buffer(b"Host")
    arguments = _Register(
        struct_size=ctypes.sizeof(_Register), name=name, name_size=len(NAME),
        handler=ctypes.cast(_handler, ctypes.c_void_p), platform=platform, platform_size=4,
    )  # fmt: skip
    error = _FUNCTION(register)(ctypes.addressof(arguments))
    if error:
        raise client.api.exception(error)


def _handle(address: int) -> int | None:
    """What XLA calls: asked for the version that it speaks, which is the caller's; and to run a function."""
    frame = foreign.Frame.from_address(address)
    extension = frame.extension_start
    while extension:
        found = foreign.MetadataExtension.from_address(extension)
        if found.type == foreign.METADATA:
            _describe(frame, found)
            return None
        extension = found.next
    if frame.stage != foreign.EXECUTE:
        return None
    thread = threading.get_ident()
    if thread not in calling and not hasattr(_of_thread, "stays"):
        # Python would take down what it knows of XLA's thread after each call: what threads have of their own, objects
        # of MLIR's among it, which crash then. One reference more keeps it.
        ctypes.pythonapi.PyGILState_Ensure()
        _of_thread.stays = True
    waits = thread not in calling and thread not in waited_for
    if waits:
        waited_for.add(thread)
    try:
        _run(frame)
        return None
    except BaseException as error:  # none may reach XLA's own code
        return _error(frame, remember(error))
    finally:
        if waits:
            waited_for.discard(thread)


def _describe(frame: foreign.Frame, extension: foreign.MetadataExtension) -> None:
    metadata = foreign.Metadata.from_address(extension.metadata)
    spoken = foreign.Api.from_address(frame.api).version if frame.api else None
    metadata.version.major, metadata.version.minor = (spoken.major, spoken.minor) if spoken else (0, 1)
    metadata.traits = 0


def _run(frame: foreign.Frame) -> None:
    index_at, program_at = _WORDS[2].from_address(frame.attributes.values)  # in the order of their names
    program = _programs.get(_text(program_at))
    if program is None:
        raise RuntimeError("the program whose Python function is called was freed")
    index = _WORD.from_address(foreign.Scalar.from_address(index_at).value).value
    program.callees[index](frame.args.values, frame.rets.values)


def _callee(function: HostFunction) -> Callable[[int, int], None]:
    """What calls a function with the memory at addresses; besides the function that takes 10 us."""
    inputs, outputs = [*map(_memory, function.inputs)], [*map(_memory, function.outputs)]
    arguments_at, results_at = (_WORDS[len(side)].from_address for side in (inputs, outputs))
    call = function.call

    def run(arguments: int, results: int) -> None:
        given = []
        for memory, buffer in zip(inputs, arguments_at(arguments) if inputs else ()):
            array = memory(buffer)
            array.flags.writeable = False
            given.append(array)
        found = call(given)
        for memory, buffer, result in zip(outputs, results_at(results) if outputs else (), found):
            memory(buffer)[...] = result

    return run


def _memory(spec: Spec) -> Callable[[int], np.ndarray[Any, Any]]:
    """From the address of a buffer of XLA's to its memory as an array."""
    shape, dtype, data = spec.shape, spec.dtype, foreign.Buffer.data.offset
    if not spec.nbytes:
        return lambda buffer: np.empty(shape, dtype)
    contents_at: Callable[[int], Any] = (ctypes.c_char * spec.nbytes).from_address
    word_at = _WORD.from_address

    def memory(buffer: int) -> np.ndarray[Any, Any]:
        return np.ndarray(shape, dtype, contents_at(word_at(buffer + data).value))

    return memory


def _text(address: int) -> bytes:
    span = foreign.Span.from_address(address)
    return ctypes.string_at(span.address, span.size)


_handler = foreign.HANDLER(_handle)


def _error(frame: foreign.Frame, message: str) -> int | None:
    create = _FUNCTION(foreign.Api.from_address(frame.api).Error_Create)
    arguments = foreign.ErrorCreate(
        struct_size=ctypes.sizeof(foreign.ErrorCreate),
        message=message.encode(errors="replace"),
        code=foreign.CODES.index("INTERNAL"),
    )
    made: int | None = create(ctypes.addressof(arguments))
    return made
