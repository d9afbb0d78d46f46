"""Python functions that programs call, through XLA's foreign function interface.

All are one function to XLA, `veery.host_call`, which is told the program and the position of the function in it. XLA
calls it on one of its threads with the addresses of arguments and results.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
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


class Functions:
    """The Python functions of one loaded program; XLA finds them as long as this is there."""

    def __init__(self, functions: list[HostFunction]) -> None:
        self.functions = functions
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
    try:
        _run(frame)
        return None
    except BaseException as error:  # none may reach XLA's own code
        return _error(frame, remember(error))


def _describe(frame: foreign.Frame, extension: foreign.MetadataExtension) -> None:
    metadata = foreign.Metadata.from_address(extension.metadata)
    spoken = foreign.Api.from_address(frame.api).version if frame.api else None
    metadata.version.major, metadata.version.minor = (spoken.major, spoken.minor) if spoken else (0, 1)
    metadata.traits = 0


def _run(frame: foreign.Frame) -> None:
    attributes = _attributes(frame.attributes)
    program = _programs.get(attributes["program"])
    if program is None:
        raise RuntimeError("the program whose Python function is called was freed")
    function = program.functions[attributes["index"]]
    arguments = [_array(at, spec) for at, spec in zip(_pointers(frame.args), function.inputs)]
    for argument in arguments:
        argument.flags.writeable = False
    results = function.call(arguments)
    for at, spec, result in zip(_pointers(frame.rets), function.outputs, results):
        if spec.nbytes:
            _array(at, spec)[...] = result


def _pointers(values: foreign.Values) -> list[int]:
    return list((ctypes.c_size_t * values.size).from_address(values.values)) if values.size else []


def _array(address: int, spec: Spec) -> np.ndarray[Any, Any]:
    """The memory of an argument or result as an array."""
    if not spec.nbytes:
        return np.empty(spec.shape, spec.dtype)
    memory = (ctypes.c_char * spec.nbytes).from_address(foreign.Buffer.from_address(address).data)
    array: np.ndarray[Any, Any] = np.frombuffer(memoryview(memory), np.uint8).view(spec.dtype).reshape(spec.shape)
    return array


def _attributes(attributes: foreign.Attributes) -> dict[str, Any]:
    """The two attributes of a call: texts as bytes, and integers of 64 bits."""
    words: Callable[[int], Any] = lambda address: (ctypes.c_size_t * attributes.size).from_address(address)
    kinds = (ctypes.c_int * attributes.size).from_address(attributes.types)
    found: dict[str, Any] = {}
    for kind, name, value in zip(kinds, words(attributes.names), words(attributes.values)):
        if kind == foreign.STRING:
            read: Any = _text(value)
        else:
            read = ctypes.c_int64.from_address(foreign.Scalar.from_address(value).value).value
        found[_text(name).decode()] = read
    return found


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
