"""XLA's foreign function interface: the structs that a call passes.

Each begins with its size, so that later versions can add fields at the end. `include/veery/ffi.h` has the same for C.

Source: xla/ffi/api/c_api.h of OpenXLA, version 0.3.
"""

from __future__ import annotations

import ctypes
from typing import Any

# Versions of the interface: handlers up to this one are called.
MAJOR, MINOR = 0, 3

# Types of functions, and what makes of an address one that can be called.
HANDLER: Any = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
TASK: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
WITHOUT_FRAME: Any = ctypes.CFUNCTYPE(None)

# XLA_FFI_ExecutionStage
INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = range(4)
METADATA = 1  # XLA_FFI_Extension_Type
BUFFER = 1  # XLA_FFI_ArgType and XLA_FFI_RetType
ARRAY, DICTIONARY, SCALAR, STRING = range(1, 5)  # XLA_FFI_AttrType

# XLA_FFI_Error_Code, by number.
CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip

# XLA_FFI_DataType, by the name of the dtype. Those of less than a byte are not passed.
DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
    "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16, "complex128": 18,
    "float8_e5m2": 19, "float8_e4m3fn": 20, "float8_e4m3b11fnuz": 23, "float8_e5m2fnuz": 24, "float8_e4m3fnuz": 25,
    "float8_e4m3": 28, "float8_e3m4": 29, "float8_e8m0fnu": 33,
}  # fmt: skip


def _header(*fields: tuple[str, Any]) -> list[tuple[str, Any]]:
    return [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p), *fields]


class Version(ctypes.Structure):
    """XLA_FFI_Api_Version."""

    _fields_ = _header(("major", ctypes.c_int), ("minor", ctypes.c_int))


class Values(ctypes.Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = _header(("size", ctypes.c_int64), ("types", ctypes.c_void_p), ("values", ctypes.c_void_p))


class Attributes(ctypes.Structure):
    """XLA_FFI_Attrs, in the order of the names."""

    _fields_ = _header(
        ("size", ctypes.c_int64), ("types", ctypes.c_void_p), ("names", ctypes.c_void_p), ("values", ctypes.c_void_p)
    )


class Frame(ctypes.Structure):
    """XLA_FFI_CallFrame. Its size is said without the last field, which handlers fill that go on after they return."""

    _fields_ = _header(
        ("api", ctypes.c_void_p), ("context", ctypes.c_void_p), ("stage", ctypes.c_int), ("args", Values),
        ("rets", Values), ("attributes", Attributes), ("future", ctypes.c_void_p),
    )  # fmt: skip


class Buffer(ctypes.Structure):
    """XLA_FFI_Buffer."""

    _fields_ = _header(
        ("dtype", ctypes.c_int), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.c_void_p)
    )


class Span(ctypes.Structure):
    """XLA_FFI_ByteSpan."""

    _fields_ = [("address", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Scalar(ctypes.Structure):
    """XLA_FFI_Scalar."""

    _fields_ = [("dtype", ctypes.c_int), ("value", ctypes.c_void_p)]


class Array(ctypes.Structure):
    """XLA_FFI_Array."""

    _fields_ = [("dtype", ctypes.c_int), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class ErrorCreate(ctypes.Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = _header(("message", ctypes.c_char_p), ("code", ctypes.c_int))


class ErrorMessage(ctypes.Structure):
    """XLA_FFI_Error_GetMessage_Args."""

    _fields_ = _header(("error", ctypes.c_void_p), ("message", ctypes.c_void_p))


class ErrorDestroy(ctypes.Structure):
    """XLA_FFI_Error_Destroy_Args."""

    _fields_ = _header(("error", ctypes.c_void_p))


class TypeRegister(ctypes.Structure):
    """XLA_FFI_Type_Register_Args."""

    _fields_ = _header(("name", Span), ("type_id", ctypes.c_void_p), ("type_info", ctypes.c_void_p))


class TypeInfo(ctypes.Structure):
    """XLA_FFI_TypeInfo."""

    _fields_ = _header(("deleter", ctypes.c_void_p))


class State(ctypes.Structure):
    """XLA_FFI_State_Set_Args and XLA_FFI_State_Get_Args."""

    _fields_ = _header(
        ("context", ctypes.c_void_p), ("stage", ctypes.c_int), ("type_id", ctypes.c_void_p), ("state", ctypes.c_void_p)
    )


class OldState(ctypes.Structure):
    """The same before version 0.3, when there were states of the stage "instantiate" alone."""

    _fields_ = _header(("context", ctypes.c_void_p), ("type_id", ctypes.c_void_p), ("state", ctypes.c_void_p))


class Allocate(ctypes.Structure):
    """XLA_FFI_DeviceMemory_Allocate_Args."""

    _fields_ = _header(
        ("context", ctypes.c_void_p), ("size", ctypes.c_size_t), ("alignment", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
    )  # fmt: skip


class Free(ctypes.Structure):
    """XLA_FFI_DeviceMemory_Free_Args."""

    _fields_ = _header(("context", ctypes.c_void_p), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p))


class Schedule(ctypes.Structure):
    """XLA_FFI_ThreadPool_Schedule_Args."""

    _fields_ = _header(("context", ctypes.c_void_p), ("task", ctypes.c_void_p), ("data", ctypes.c_void_p))


class Future(ctypes.Structure):
    """XLA_FFI_Future_Create_Args, ..._SetAvailable_Args and ..._SetError_Args, of which the last has the error."""

    _fields_ = _header(("future", ctypes.c_void_p), ("error", ctypes.c_void_p))


class Number(ctypes.Structure):
    """Where a number is written of 64 bits (XLA_FFI_RunId_Get_Args) or of 32 (XLA_FFI_DeviceOrdinal_Get_Args)."""

    _fields_ = _header(("context", ctypes.c_void_p), ("value", ctypes.c_int64))


class NumThreads(ctypes.Structure):
    """XLA_FFI_ThreadPool_NumThreads_Args."""

    _fields_ = _header(("context", ctypes.c_void_p), ("count", ctypes.POINTER(ctypes.c_int64)))


class Metadata(ctypes.Structure):
    """XLA_FFI_Metadata."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("version", Version), ("traits", ctypes.c_uint32),
        ("state_type", ctypes.c_int64),
    ]  # fmt: skip


class MetadataExtension(ctypes.Structure):
    """XLA_FFI_Metadata_Extension."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    ]  # fmt: skip


# The functions of XLA_FFI_Api, in their order.
FUNCTIONS = (
    "Error_Create", "Error_GetMessage", "Error_Destroy", "Handler_Register", "Stream_Get", "Type_Register",
    "ExecutionContext_Get", "State_Set", "State_Get", "DeviceMemory_Allocate", "DeviceMemory_Free",
    "ThreadPool_Schedule", "ThreadPool_NumThreads", "Future_Create", "Future_SetAvailable", "Future_SetError",
    "RunId_Get", "DeviceOrdinal_Get",
)  # fmt: skip


class Api(ctypes.Structure):
    """XLA_FFI_Api."""

    _fields_ = _header(
        ("version", Version), ("internal", ctypes.c_void_p), *((name, ctypes.c_void_p) for name in FUNCTIONS)
    )
