"""How a program is compiled, as XLA's CompileOptionsProto: the few fields that are used, in protobuf's encoding.

Source: xla/pjrt/proto/compile_options.proto and xla/xla_data.proto (DeviceAssignmentProto) of OpenXLA.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

# CompileOptionsProto
_BUILD_OPTIONS, _OPTION_OVERRIDES = 3, 7
# ExecutableBuildOptionsProto
_DEVICE_ORDINAL, _NUM_REPLICAS, _NUM_PARTITIONS, _SPMD, _ASSIGNMENT, _SHARDY = 1, 4, 5, 6, 9, 19
# OptionOverrideProto
_STRING, _BOOL, _INT, _DOUBLE = 1, 2, 3, 4


def compile_options(
    device_ids: Sequence[int], *, partitions: int = 1, overrides: Mapping[str, str | bool | int | float] | None = None
) -> bytes:
    """The options for a program on devices.

    Args:
        device_ids: where it runs: one replica on each device, or one partition.
        partitions: the number of partitions, among which XLA's SPMD partitioner divides the arrays.
        overrides: XLA's debug options by name, such as {"xla_allow_excess_precision": False}.
    """
    replicas = len(device_ids) // partitions
    build = _number(_NUM_REPLICAS, replicas) + _number(_NUM_PARTITIONS, partitions)
    if partitions > 1:
        build += _number(_SPMD, 1)
    build += _message(_ASSIGNMENT, _assignment(device_ids, replicas, partitions))
    options = _message(_BUILD_OPTIONS, build)
    for name, value in (overrides or {}).items():
        entry = _message(1, name.encode()) + _message(2, _override(value))
        options += _message(_OPTION_OVERRIDES, entry)
    return options


def _assignment(device_ids: Sequence[int], replicas: int, partitions: int) -> bytes:
    encoded = _number(1, replicas) + _number(2, partitions)
    for partition in range(partitions):
        ids = b"".join(_varint(device_ids[replica * partitions + partition]) for replica in range(replicas))
        encoded += _message(3, _message(1, ids))
    return encoded


def _override(value: str | bool | int | float) -> bytes:
    if isinstance(value, bool):
        return _number(_BOOL, int(value))
    if isinstance(value, int):
        return _number(_INT, value)
    if isinstance(value, float):
        return _varint(_DOUBLE << 3 | 1) + struct.pack("<d", value)
    return _message(_STRING, value.encode())


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content
