"""A plugin's table of functions: loading it, calling them, and their errors as exceptions."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from veery_runtime.errors import DeviceUnavailableError
from veery_runtime.pjrt import abi

Function = Callable[[int], int | None]
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
# Of what `byref` gives, which no argument type has to look at: 0.03 us less. Without an answer, 0.03 us less again.
_QUICK = ctypes.CFUNCTYPE(ctypes.c_void_p)
_QUICK_KEEPING_LOCK = ctypes.PYFUNCTYPE(ctypes.c_void_p)
_WITHOUT_ANSWER = ctypes.PYFUNCTYPE(None)


class PjrtError(RuntimeError):
    """What a plugin answered: its words begin with the code, as in "INVALID_ARGUMENT: ...".

    Attributes:
        code: the number of the code.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


_CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED"
    " RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS"
    " UNAUTHENTICATED".split()
)


class Api:
    """The functions of a plugin, each as an attribute by its name without "PJRT_".

    Attributes:
        path: the shared library.
        version: (major, minor) of the interface.
        attributes: what the plugin says about itself: "xla_version", "stablehlo_current_version", ...
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with _quiet_log():
                library = ctypes.CDLL(path)
            get = library.GetPjrtApi
        except (OSError, AttributeError) as error:
            raise DeviceUnavailableError(f"{path} is not a PJRT plugin that can be loaded: {error}") from None
        get.restype = ctypes.c_void_p
        address = get()
        table = abi.Table.from_address(address)
        self.version = (table.major, table.minor)
        size = ctypes.sizeof(abi.Table) + 8 * len(abi.FUNCTIONS)
        if table.major != abi.MAJOR or table.minor < abi.OLDEST_MINOR or table.struct_size < size:
            raise DeviceUnavailableError(
                f"{path} has version {table.major}.{table.minor} of PJRT's interface; veery speaks "
                f"{abi.MAJOR}.{abi.OLDEST_MINOR} and later ones of {abi.MAJOR}. Install another release of the plugin"
            )
        self._extensions = table.extension_start
        pointers = (ctypes.c_void_p * len(abi.FUNCTIONS)).from_address(address + ctypes.sizeof(abi.Table))
        for name, pointer in zip(abi.FUNCTIONS, pointers):
            setattr(self, name, _FUNCTION(pointer) if pointer else functools.partial(self._lacks, name))
        self.call("Plugin_Initialize", abi.PluginInitialize())
        found = self.call("Plugin_Attributes", abi.PluginAttributes())
        self.attributes = named_values(found.attributes, found.num_attributes)

    def __getattr__(self, name: str) -> Function:
        raise AttributeError(f"PJRT has no function {name}")

    def _lacks(self, name: str, _: int) -> None:
        raise PjrtError(f"UNIMPLEMENTED: {self.path} has no function PJRT_{name}", _CODES.index("UNIMPLEMENTED"))

    def quick(self, name: str) -> Callable[[Any], int | None]:
        """A function that takes what `ctypes.byref` gives of a struct, and returns the address of its error."""
        return self._as(_QUICK, name)

    def keeping_lock(self, name: str, *, answers: bool = True) -> Callable[[Any], int | None]:
        """As `quick`, of a function that returns at once: Python's lock is kept, so that no thread runs meanwhile."""
        return self._as(_QUICK_KEEPING_LOCK if answers else _WITHOUT_ANSWER, name)

    def _as(self, kind: Any, name: str) -> Callable[[Any], int | None]:
        function: Callable[[Any], int | None] = kind(ctypes.cast(getattr(self, name), ctypes.c_void_p).value)
        return function

    def call(self, name: str, arguments: Any) -> Any:
        """Call a function with a struct, and return the struct.

        Raises:
            PjrtError: with the plugin's words.
        """
        error = self.try_call(name, arguments)
        if error:
            raise self.exception(error)
        return arguments

    def try_call(self, name: str, arguments: Any) -> int | None:
        """Call a function with a struct, which lives until it returns; the address of its error, if there is one."""
        error: int | None = getattr(self, name)(ctypes.addressof(arguments))
        return error

    def exception(self, error: int) -> PjrtError:
        """The exception for an error of the plugin, which is freed."""
        said = abi.ErrorMessage(error=error)
        self.try_call("Error_Message", said)
        message = ctypes.string_at(said.message, said.message_size).decode(errors="replace")
        coded = abi.ErrorGetCode(error=error)
        self.try_call("Error_GetCode", coded)
        self.try_call("Error_Destroy", abi.ErrorDestroy(error=error))
        name = _CODES[coded.code] if 0 <= coded.code < len(_CODES) else f"error {coded.code}"
        return PjrtError(message if message.startswith(name) else f"{name}: {message}", coded.code)

    def text(self, name: str, arguments: Any) -> str:
        """What a function that gives a text says."""
        said = self.call(name, arguments)
        return ctypes.string_at(said.text, said.size).decode(errors="replace")

    def extension(self, number: int) -> int | None:
        """The address of an extension of the interface; None where the plugin lacks it."""
        return next((address for address, kind in self._listed() if kind == number), None)

    def _listed(self) -> Iterator[tuple[int, int]]:
        address = self._extensions
        while address:
            extension = abi.Extension.from_address(address)
            yield address, extension.type
            address = extension.next


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """XLA takes the level of its log from the environment when it is loaded; without one it tells of each option."""
    name = "TF_CPP_MIN_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"  # warnings, as JAX has it
    try:
        yield
    finally:
        del os.environ[name]


def named_values(address: int | None, count: int) -> dict[str, Any]:
    """PJRT_NamedValues as a dictionary."""
    found: dict[str, Any] = {}
    for each in (abi.NamedValue * count).from_address(address) if address else ():
        name = ctypes.string_at(each.name, each.name_size).decode()
        raw = ctypes.c_uint64(each.value)
        if each.type == 0:
            found[name] = ctypes.string_at(each.value, each.value_size).decode(errors="replace")
        elif each.type == 1:
            found[name] = ctypes.c_int64(each.value).value
        elif each.type == 2:
            found[name] = list((ctypes.c_int64 * each.value_size).from_address(each.value)) if each.value_size else []
        elif each.type == 3:
            found[name] = ctypes.c_float.from_buffer(raw).value
        else:
            found[name] = bool(ctypes.c_bool.from_buffer(raw).value)
    return found
