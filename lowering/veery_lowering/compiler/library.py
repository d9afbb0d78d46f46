"""The table by which IREE's runtime finds the dispatches of a library, and the function that tells where it is.

IREE's backend has LLVM compile both with each program. Here they are written, so that what is linked may be functions
of any objects, and a program whose dispatches are all known needs no LLVM.

Source: iree/hal/local/executable_library.h of IREE 3.13, version 0.6 of what it describes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from veery_lowering.compiler.linking import ABSOLUTE, RELATIVE, Part, Place, Section, Sections

_VERSION = 6
_PAGE = 4096  # what memory of a workgroup is counted in
_NAME = "library"  # of all
_TABLE, _QUERY = ("", 0), ("", 1)  # numbers of sections, of none of the objects
_PROGRAM_DATA = 1  # the kind of sections that have data (SHT_PROGBITS)
_DATA, _CODE = 1 | 2, 2 | 4  # flags of sections (SHF_...): written when addresses are filled in, and run
_HEADER_AT, _POINTERS_AT = 128, 152  # where in the table its header is, and the addresses of functions
_ATTRIBUTES = 64  # bytes for each function
_COUNT = 24  # where in the table the number of functions is
_FUNCTIONS, _ATTRIBUTES_OF, _NAMES = 32, 40, 64  # and where the addresses of what is known of them
# xor ecx, ecx; cmp edi, _VERSION; lea rax, [the table]; cmovne rax, rcx; ret
_QUERY_CODE = bytes((0x31, 0xC9, 0x83, 0xFF, _VERSION, 0x48, 0x8D, 0x05, 0, 0, 0, 0, 0x48, 0x0F, 0x45, 0xC1, 0xC3))
_TABLE_IN_QUERY = 8
_AFTER = 4  # bytes from such a place to what it counts from
_CONSTANTS = re.compile(r"constants = (\d+)")


class Export(NamedTuple):
    """How a dispatch is called.

    Attributes:
        name: of its function.
        constants, bindings: how many numbers and buffers it is given.
        memory: bytes of a workgroup's own.
        size: of a workgroup; zeros if that is not known.
    """

    name: str
    constants: int
    bindings: int
    memory: int
    size: tuple[int, int, int]


def export(op: Any) -> Export:
    """What an operation `hal.executable.export` says."""
    attributes = op.attributes
    layout = str(attributes["layout"])
    constants = _CONSTANTS.search(layout)
    memory = attributes["workgroup_local_memory"].value if "workgroup_local_memory" in attributes else 0
    size = [int(n.value) for n in attributes["workgroup_size"]] if "workgroup_size" in attributes else [0, 0, 0]
    return Export(
        attributes["sym_name"].value,
        int(constants[1]) if constants else 0,
        layout.count("#hal.pipeline.binding<"),
        memory,
        (size[0], size[1], size[2]),
    )


def query(functions: Sequence[tuple[Export, Part]]) -> Part:
    """The function that gives the table of a library, with all that the table needs."""
    count = len(functions)
    attributes = _POINTERS_AT + 8 * count
    names = attributes + _ATTRIBUTES * count
    strings = names + 8 * count
    table = bytearray(strings)
    places: list[Place] = []

    def point(where: int, to: int) -> None:
        places.append(Place(where, ABSOLUTE, _TABLE, to))

    def text(of: str) -> int:
        start = len(table)
        table.extend(of.encode() + b"\0")
        return start

    point(0, _HEADER_AT)
    struct.pack_into("<I", table, _HEADER_AT, _VERSION)
    point(_HEADER_AT + 8, text(_NAME))
    struct.pack_into("<I", table, _COUNT, count)
    point(_FUNCTIONS, _POINTERS_AT)
    point(_ATTRIBUTES_OF, attributes)
    point(_NAMES, names)
    sections: Sections = {}
    for k, (entry, part) in enumerate(functions):
        places.append(Place(_POINTERS_AT + 8 * k, ABSOLUTE, part.section, 0))
        pages = -(-entry.memory // _PAGE)
        fields = 0, pages, entry.constants, entry.bindings, *entry.size
        struct.pack_into("<QHBBIIH", table, attributes + _ATTRIBUTES * k, *fields)
        point(names + 8 * k, text(entry.name))
        sections |= part.sections
    sections[_TABLE] = Section(_PROGRAM_DATA, _DATA, len(table), 16, bytes(table), places)
    there = [Place(_TABLE_IN_QUERY, RELATIVE, _TABLE, -_AFTER)]
    sections[_QUERY] = Section(_PROGRAM_DATA, _CODE, len(_QUERY_CODE), 16, _QUERY_CODE, there)
    return Part(_QUERY, sections)
