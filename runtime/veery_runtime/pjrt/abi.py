"""The part of PJRT's C interface that is used here: its functions, structs and numbers.

A plugin exports `GetPjrtApi`, which returns a table of functions. Each takes one struct, which begins with its own
size, so that both sides may be of different versions: fields are added at the end, and zero is what they were before.
All structs have room for fields to come, and say so: plugins refuse those that are shorter than they know them.

Source: xla/pjrt/c/pjrt_c_api.h of OpenXLA, whose order and names these tables follow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

MAJOR = 0
OLDEST_MINOR = 54  # the first with all functions below

# The functions of the table, in their order; those behind the last that is used are left out.
FUNCTIONS = """
Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy Event_IsReady Event_Error
Event_Await Event_OnReady Client_Create Client_Destroy Client_PlatformName Client_ProcessIndex Client_PlatformVersion
Client_Devices Client_AddressableDevices Client_LookupDevice Client_LookupAddressableDevice Client_AddressableMemories
Client_Compile Client_DefaultDeviceAssignment Client_BufferFromHostBuffer DeviceDescription_Id
DeviceDescription_ProcessIndex DeviceDescription_Attributes DeviceDescription_Kind DeviceDescription_DebugString
DeviceDescription_ToString Device_GetDescription Device_IsAddressable Device_LocalHardwareId Device_AddressableMemories
Device_DefaultMemory Device_MemoryStats Memory_Id Memory_Kind Memory_DebugString Memory_ToString
Memory_AddressableByDevices Executable_Destroy Executable_Name Executable_NumReplicas Executable_NumPartitions
Executable_NumOutputs Executable_SizeOfGeneratedCodeInBytes Executable_GetCostAnalysis Executable_OutputMemoryKinds
Executable_OptimizedProgram Executable_Serialize LoadedExecutable_Destroy LoadedExecutable_GetExecutable
LoadedExecutable_AddressableDevices LoadedExecutable_Delete LoadedExecutable_IsDeleted LoadedExecutable_Execute
Executable_DeserializeAndLoad LoadedExecutable_Fingerprint Buffer_Destroy Buffer_ElementType Buffer_Dimensions
Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices Buffer_GetMemoryLayout Buffer_OnDeviceSizeInBytes
Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu
Buffer_ReadyEvent Buffer_UnsafePointer Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount
Buffer_OpaqueDeviceMemoryDataPointer CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk
CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize CopyToDeviceStream_CurrentBytes
TopologyDescription_Create TopologyDescription_Destroy TopologyDescription_PlatformName
TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions TopologyDescription_Serialize
TopologyDescription_Attributes Compile Executable_OutputElementTypes Executable_OutputDimensions Buffer_CopyToMemory
Client_CreateViewOfDeviceBuffer Executable_Fingerprint Client_TopologyDescription
Executable_GetCompiledMemoryStats
""".split()

_HEADER = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
_KINDS = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "i": ctypes.c_int,
    "q": ctypes.c_int64,
    "b": ctypes.c_bool,
}
_ROOM = 8  # words for fields of later versions


class Struct(ctypes.Structure):
    """A struct of the interface. Made with the values of fields; those not given are zero."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


def _struct(name: str, fields: str) -> type[Struct]:
    """A struct after its header: fields as "name:kind", kinds as in `_KINDS`."""
    pairs = [field.split(":") for field in fields.split()]
    listed = [*_HEADER, *((field, _KINDS[kind]) for field, kind in pairs), ("room", ctypes.c_size_t * _ROOM)]
    return type(name, (Struct,), {"_fields_": listed})


ErrorDestroy = _struct("ErrorDestroy", "error:p")
ErrorMessage = _struct("ErrorMessage", "error:p message:p message_size:z")
ErrorGetCode = _struct("ErrorGetCode", "error:p code:i")
PluginInitialize = _struct("PluginInitialize", "")
PluginAttributes = _struct("PluginAttributes", "attributes:p num_attributes:z")
Event = _struct("Event", "event:p")  # of Event_Destroy, Event_Error and Event_Await
EventIsReady = _struct("EventIsReady", "event:p is_ready:b")
EventOnReady = _struct("EventOnReady", "event:p callback:p user_arg:p")
ClientCreate = _struct(
    "ClientCreate",
    "create_options:p num_options:z kv_get_callback:p kv_get_user_arg:p kv_put_callback:p kv_put_user_arg:p client:p",
)
ClientText = _struct("ClientText", "client:p text:p size:z")  # of Client_PlatformName and Client_PlatformVersion
ClientDevices = _struct("ClientDevices", "client:p devices:p num_devices:z")
Program = _struct("Program", "code:p code_size:z format:p format_size:z")
ClientCompile = _struct("ClientCompile", "client:p program:p options:p options_size:z executable:p")
BufferFromHostBuffer = _struct(
    "BufferFromHostBuffer",
    "client:p data:p type:i dims:p num_dims:z byte_strides:p num_byte_strides:z semantics:i device:p memory:p layout:p"
    " done_with_host_buffer:p buffer:p",
)
DeviceGetDescription = _struct("DeviceGetDescription", "device:p description:p")
DescriptionId = _struct("DescriptionId", "description:p id:i")
DescriptionText = _struct("DescriptionText", "description:p text:p size:z")
DeviceMemoryStats = _struct(
    "DeviceMemoryStats",
    "device:p bytes_in_use:q peak_bytes_in_use:q has_peak:b num_allocs:q has_num_allocs:b largest_alloc_size:q"
    " has_largest:b bytes_limit:q has_limit:b bytes_reserved:q has_reserved:b peak_bytes_reserved:q"
    " has_peak_reserved:b bytes_reservable_limit:q has_reservable_limit:b largest_free_block_bytes:q"
    " has_largest_free:b pool_bytes:q has_pool:b peak_pool_bytes:q has_peak_pool:b",
)
GetExecutable = _struct("GetExecutable", "loaded:p executable:p")
Executable = _struct("Executable", "executable:p")  # of the functions that destroy one
ExecutableSerialize = _struct("ExecutableSerialize", "executable:p bytes:p size:z serialized:p deleter:p")
DeserializeAndLoad = _struct("DeserializeAndLoad", "client:p bytes:p size:z loaded:p options:p options_size:z")
CostAnalysis = _struct("CostAnalysis", "executable:p num_properties:z properties:p")
CompiledMemoryStats = _struct(
    "CompiledMemoryStats",
    "executable:p generated_code:q arguments:q outputs:q alias:q temporary:q host_generated_code:q host_arguments:q"
    " host_outputs:q host_alias:q host_temporary:q peak:q",
)
OptimizedProgram = _struct("OptimizedProgram", "executable:p program:p")
ExecuteOptions = _struct(
    "ExecuteOptions",
    "send_callbacks:p recv_callbacks:p num_send_ops:z num_recv_ops:z launch_id:i non_donatable:p num_non_donatable:z"
    " context:p call_location:p num_tasks:z task_ids:p incarnation_ids:p",
)
Execute = _struct(
    "Execute",
    "executable:p options:p argument_lists:p num_devices:z num_args:z output_lists:p device_complete_events:p"
    " execute_device:p",
)
Buffer = _struct("Buffer", "buffer:p")  # of Buffer_Destroy, Buffer_Delete, Buffer_IncreaseExternalReferenceCount...
BufferReadyEvent = _struct("BufferReadyEvent", "buffer:p event:p")
BufferPointer = _struct("BufferPointer", "buffer:p pointer:p")
BufferToHost = _struct("BufferToHost", "buffer:p layout:p dst:p dst_size:z event:p")
BufferIsOnCpu = _struct("BufferIsOnCpu", "buffer:p is_on_cpu:b")
BufferCopyToDevice = _struct("BufferCopyToDevice", "buffer:p device:p copy:p")


# A struct of a pointer and an answer, as words: its size, its extensions, the pointer, the answer.
Words = ctypes.c_size_t * 12
OF, ANSWER = 2, 3
WORDS_SIZE = ctypes.sizeof(Words)


class MemoryLayout(ctypes.Structure):
    """PJRT_Buffer_MemoryLayout, of the tiled kind, without tiles: the dimensions from the fastest to the slowest."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("tiled_size", ctypes.c_size_t),
        ("tiled_extension", ctypes.c_void_p),
        ("minor_to_major", ctypes.c_void_p),
        ("minor_to_major_size", ctypes.c_size_t),
        ("tile_dims", ctypes.c_void_p),
        ("tile_dim_sizes", ctypes.c_void_p),
        ("num_tiles", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("room", ctypes.c_size_t),
    ]


TILED_SIZE = 7 * 8


class NamedValue(ctypes.Structure):
    """PJRT_NamedValue, its union as the word that it is; strings, lists and floats are other kinds than these."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("value_size", ctypes.c_size_t),
    ]


def named_values(options: Sequence[tuple[str, int]]) -> tuple[Any, Any]:
    """Integers and bools as an array of NamedValues, and what must live as long."""
    names = [ctypes.create_string_buffer(name.encode()) for name, _ in options]
    values = (NamedValue * len(options))()
    for each, name, (_, value) in zip(values, names, options):
        each.struct_size = ctypes.sizeof(NamedValue)
        each.name, each.name_size = ctypes.addressof(name), len(name) - 1
        each.type, each.value, each.value_size = BOOL if isinstance(value, bool) else INT64, value, 1
    return values, names


INT64, BOOL = 1, 4  # PJRT_NamedValue_Type

# PJRT_HostBufferSemantics.
COPIED_DURING_CALL = 0
SHARED_UNCHANGED = 2

# PJRT_Buffer_Type by NumPy's and ml_dtypes' names.
ELEMENT_TYPES = {
    name: number
    for number, name in enumerate(
        "- bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 complex64 complex128"
        " float8_e5m2 float8_e4m3fn float8_e4m3b11fnuz float8_e5m2fnuz float8_e4m3fnuz int4 uint4 - int2 uint2"
        " float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn".split()
    )
    if name != "-"
}


class Table(ctypes.Structure):
    """PJRT_Api up to its functions."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("version_size", ctypes.c_size_t),
        ("version_extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


class Extension(ctypes.Structure):
    """PJRT_Extension_Base: one of a chain."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p)]


FFI_EXTENSION = 5
