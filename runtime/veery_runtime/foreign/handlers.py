"""Foreign functions: functions of compiled libraries, registered by name, that programs call on the host.

Version 1 of their interface is XLA's call frame (see `abi.py`, and `include/veery/ffi.h` for C), version 0 the older
`void f(void *out, const void **in)`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veery_runtime.foreign import abi
from veery_runtime.foreign.api import API, ForeignError, taken_error, types

STAGES = ("instantiate", "prepare", "initialize", "execute")
# The folder of the header for C.
INCLUDE = Path(__file__).parent / "include"


@dataclass(frozen=True)
class Handler:
    """A foreign function: the addresses of its stages, and the version of the interface that it is for."""

    version: int
    stages: dict[str, int] = field(hash=False)


_handlers: dict[tuple[str, str, int], Handler] = {}


def pycapsule(function: Any) -> Any:
    """A pointer to a function in a PyCapsule.

    Args:
        function: a function of a library that ctypes loaded, a callback of ctypes, or an address.

    Returns:
        The capsule. It does not keep a callback of ctypes alive.
    """
    return _new_capsule(ctypes.cast(function, ctypes.c_void_p) if callable(function) else function, None, None)


def register(name: str, function: Any, platform: str, version: int) -> None:
    """Make a foreign function known.

    Args:
        name: by which programs call it.
        function: a PyCapsule with the address of the function, or a dict from stages to capsules.
        platform: of the devices whose programs call it; "cpu" and "host" are the same.
        version: of the interface: 1 for call frames, 0 for the older one.

    Raises:
        ForeignError: no such version; no such stages; another function has the name; the function does not say for
            which version of the interface it was compiled, or for a later one than this.
    """
    if version not in (0, 1):
        raise ForeignError(
            "UNIMPLEMENTED",
            f"API version {version} is not supported by RegisterCustomCallTarget. Supported versions are 0 and 1.",
        )
    handler = Handler(version, _addresses(name, function, platform, version))
    key = (name, _host(platform), version)
    if _handlers.get(key, handler) != handler:
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"Duplicate FFI handler registration for {name} on platform {platform} with different bundle addresses",
        )
    if version == 1 and _host(platform) == "host":
        for address in handler.stages.values():
            _check_version(name, address)
    _handlers[key] = handler


def register_type(name: str, type_id: Any, type_info: Any) -> None:
    """Make the type of a foreign function's state known.

    Args:
        name: of the type.
        type_id: a PyCapsule with the address where its number is.
        type_info: a PyCapsule with the address of the functions of it, or None.

    Raises:
        ForeignError: the name has another number.
    """
    types.register(name, _address(type_id), 0 if type_info is None else _address(type_info))


def find(name: str, version: int) -> Handler:
    """The foreign function of a name for the host.

    Raises:
        ForeignError: there is none.
    """
    handler = _handlers.get((name, "host", version))
    if handler is None:
        raise ForeignError("NOT_FOUND", f"No FFI handler registered for {name} on a platform Host")
    return handler


def _host(platform: str) -> str:
    return "host" if platform.lower() in ("cpu", "host") else platform.lower()


def _addresses(name: str, function: Any, platform: str, version: int) -> dict[str, int]:
    if version == 1 and isinstance(function, Mapping):
        if "execute" not in function:
            raise ForeignError(
                "INVALID_ARGUMENT", f"FFI handler for {name} on a platform {platform} must provide an execute "
                f"implementation: got {', '.join(map(repr, function)) or 'nothing'}, of the stages {', '.join(STAGES)}",
            )  # fmt: skip
        unknown = [stage for stage in function if stage not in STAGES]
        if unknown:
            raise ForeignError(
                "INVALID_ARGUMENT", f"{name}: there is no stage {unknown[0]!r}; the stages are {', '.join(STAGES)}"
            )
        return {stage: _address(function[stage]) for stage in STAGES if function.get(stage) is not None}
    return {"execute": _address(function)}


def _address(capsule: Any) -> int:
    if type(capsule).__name__ != "PyCapsule":
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"expected a PyCapsule, got {type(capsule).__name__}: `jax.ffi.pycapsule(function)` makes one of a "
            "function of ctypes",
        )
    address: int = _capsule_pointer(capsule, _capsule_name(capsule))
    return address


def _check_version(name: str, address: int) -> None:
    """Ask a function for which version of the interface it was compiled."""
    metadata = abi.Metadata(ctypes.sizeof(abi.Metadata), abi.Version(ctypes.sizeof(abi.Version), None, -1, -1))
    extension = abi.MetadataExtension(
        ctypes.sizeof(abi.MetadataExtension), abi.METADATA, None, ctypes.addressof(metadata)
    )
    frame = new_frame(abi.EXECUTE)
    frame.extension_start = ctypes.addressof(extension)
    error = abi.HANDLER(address)(ctypes.addressof(frame))
    if error:
        raise taken_error(error)
    version = metadata.version
    if version.major < 0:
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"{name} does not say for which version of the interface it was compiled. A function with call frames "
            "answers the metadata extension, as XLA_FFI_DEFINE_HANDLER and veery_ffi_describe do; register functions "
            "`void f(void *out, const void **in)` with api_version=0",
        )
    if (version.major, version.minor) > (abi.MAJOR, abi.MINOR):
        raise ForeignError(
            "INVALID_ARGUMENT",
            f"{name} was compiled for version {version.major}.{version.minor} of the interface, and the latest known "
            f"here is {abi.MAJOR}.{abi.MINOR}: compile it with older headers",
        )


def new_frame(stage: int) -> abi.Frame:
    """A call frame without arguments, results and attributes."""
    sized: Any = lambda kind: kind(ctypes.sizeof(kind))
    return abi.Frame(
        abi.Frame.future.offset, None, ctypes.addressof(API), None, stage, sized(abi.Values), sized(abi.Values),
        sized(abi.Attributes),
    )  # fmt: skip


def _python_function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _python_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_name = _python_function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_capsule_pointer = _python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
