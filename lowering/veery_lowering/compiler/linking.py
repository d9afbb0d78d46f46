"""A linker for what IREE's llvm-cpu backend makes: functions of relocatable x86-64 objects become a library for it.

LLVM's own linker is a process of 335 MB that takes 9 ms for this; the whole of `x + 1` takes 90. What comes of it is
laid out alike: segments for what is read, run and written, one exported symbol, and addresses that are filled in
where the library is loaded. Sections that the entry does not reach are left out.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, version 1.0, chapters 4 and 5.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

EXPORT = "iree_hal_executable_library_query"
PAGE = 4096

_WRITE, _EXECUTE = 1, 4  # of sections (SHF_...)
_CODE, _SYMBOLS, _RELOCATIONS, _NO_BITS = 1, 2, 4, 8  # kinds of sections (SHT_...)
_FUNCTION = ".text."  # how the name of a function's own section begins
ABSOLUTE, RELATIVE, _R_PLT32, _R_RELATIVE = 1, 2, 4, 8  # ways in which an address is wanted (R_X86_64_...)
_FIRST_RESERVED = 0xFF00  # numbers of sections from here on mean something else
_X86_64, _RELOCATABLE, _SHARED = 62, 1, 3
_HEADER, _SEGMENT, _SECTION, _SYMBOL, _RELOCATION, _DYNAMIC = 64, 56, 64, 24, 24, 16  # sizes in bytes


class Unsupported(Exception):
    """An object that this linker does not know how to link."""


class _Header(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


Number = tuple[str, int]  # of a section: of which object it is, and its number there


class Place(NamedTuple):
    """Where in a section an address is wanted: of a byte of another section, and in which way."""

    offset: int
    kind: int
    section: Number
    value: int


@dataclass
class Section:
    """What is laid out as a whole: data, or as many zeros, and the addresses that it has."""

    kind: int
    flags: int
    size: int
    alignment: int
    data: bytes
    places: list[Place] = field(default_factory=list)
    address: int = 0


Sections = dict[Number, Section]


class Part(NamedTuple):
    """A function, and all that it needs.

    Attributes:
        section: where it begins.
        sections: its own, and those that it reaches.
    """

    section: Number
    sections: Sections


class Object:
    """An object file.

    Args:
        code: its contents.
        name: tells its sections from those of other objects.
        others: functions that are taken from elsewhere, by the names that they have here.

    Raises:
        Unsupported: it is none of x86-64.
    """

    def __init__(self, code: bytes, name: str = "", others: Mapping[str, Part] | None = None):
        if code[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", code, 16) != (_RELOCATABLE, _X86_64):
            raise Unsupported("not a relocatable object of x86-64")
        self._code, self._name, self._others = code, name, others or {}
        (table,) = struct.unpack_from("<Q", code, 40)
        count, names = struct.unpack_from("<HH", code, 60)
        self._headers = [_Header(*struct.unpack_from("<IIQQQQIIQQ", code, table + _SECTION * i)) for i in range(count)]
        symbols = next((h for h in self._headers if h.kind == _SYMBOLS), None)
        if symbols is None:
            raise Unsupported("an object without symbols")
        self._symbol_names, self._section_names = self._headers[symbols.link].offset, self._headers[names].offset
        self._symbols = [_Symbol(*fields) for fields in struct.iter_unpack("<IBBHQQ", self._bytes(symbols))]
        self._relocations: dict[int, list[_Header]] = {}
        for header in self._headers:
            if header.kind == _RELOCATIONS:
                self._relocations.setdefault(header.info, []).append(header)

    def function(self, name: str) -> Part:
        """A function that has a section of its own."""
        for number, header in enumerate(self._headers):
            if header.kind == _CODE and self._text(self._section_names + header.name) == _FUNCTION + name:
                return Part((self._name, number), self.reached(number))
        raise Unsupported(f"no section of {name!r}")

    def reached(self, first: int) -> Sections:
        """A section, and all that it needs.

        Raises:
            Unsupported: it calls what is not there, or wants an unknown relocation.
        """
        found: Sections = {}
        waiting = [first]
        while waiting:
            number = waiting.pop()
            if (self._name, number) in found:
                continue
            section = self._section(number)
            found[self._name, number] = section
            for place in section.places:
                if place.section[0] == self._name:
                    waiting.append(place.section[1])
                else:
                    part = next(part for part in self._others.values() if part.section == place.section)
                    found |= part.sections
        return found

    def _section(self, number: int) -> Section:
        header = self._headers[number]
        section = Section(header.kind, header.flags, header.size, header.alignment or 1, self._bytes(header))
        for table in self._relocations.get(number, ()):
            for offset, info, addend in struct.iter_unpack("<QQq", self._bytes(table)):
                symbol, kind = self._symbols[info >> 32], info & 0xFFFFFFFF
                if symbol.section == 0 or symbol.section >= _FIRST_RESERVED:
                    raise Unsupported(f"calls {self._text(self._symbol_names + symbol.name)!r}, which it does not have")
                if kind not in (ABSOLUTE, RELATIVE, _R_PLT32):
                    raise Unsupported(f"relocation {kind}")
                section.places.append(Place(offset, kind, self._elsewhere(symbol.section), symbol.value + addend))
        return section

    def _elsewhere(self, number: int) -> Number:
        name = self._text(self._section_names + self._headers[number].name)
        part = self._others.get(name.removeprefix(_FUNCTION)) if name.startswith(_FUNCTION) else None
        return part.section if part else (self._name, number)

    def _bytes(self, header: _Header) -> bytes:
        return b"" if header.kind == _NO_BITS else self._code[header.offset : header.offset + header.size]

    def _text(self, start: int) -> str:
        return self._code[start : self._code.index(b"\0", start)].decode()


def encode(part: Part) -> bytes:
    """A function as bytes, for the disk."""
    numbers = {number: k for k, number in enumerate(part.sections)}
    rows = [
        [s.kind, s.flags, s.size, s.alignment, len(s.data), [[*p[:2], numbers[p.section], p.value] for p in s.places]]
        for s in part.sections.values()
    ]
    header = json.dumps([numbers[part.section], rows]).encode()
    return len(header).to_bytes(8, "little") + header + b"".join(s.data for s in part.sections.values())


def decode(data: bytes, name: str) -> Part:
    """A function that `encode` wrote; the name tells its sections from those of other objects."""
    start = 8 + int.from_bytes(data[:8], "little")
    first, rows = json.loads(data[8:start])
    sections: Sections = {}
    for number, (kind, flags, size, alignment, length, places) in enumerate(rows):
        found = [Place(offset, way, (name, target), value) for offset, way, target, value in places]
        sections[name, number] = Section(kind, flags, size, alignment, data[start : start + length], found)
        start += length
    return Part((name, first), sections)


def link(entry: Part) -> bytes:
    """Make a shared library that exports a function as `EXPORT`, as IREE's loader expects it."""
    found = dict(sorted(entry.sections.items()))
    sections = found.values()
    readable = [s for s in sections if not s.flags & (_WRITE | _EXECUTE)]
    executable = [s for s in sections if s.flags & _EXECUTE]
    writable = [s for s in sections if s.flags & _WRITE]
    absolute = [(s, place) for s in sections for place in s.places if place.kind == ABSOLUTE]
    names = b"\0" + EXPORT.encode() + b"\0"

    # Offsets in the file are addresses: headers and tables first, then what is read, run and written, each on pages of
    # its own.
    segments = 6
    symbols = _HEADER + _SEGMENT * segments
    hashes = symbols + 2 * _SYMBOL
    strings = hashes + 24
    relocations = _aligned(strings + len(names), 8)
    end_read = _placed(readable, relocations + _RELOCATION * len(absolute))
    start_run = _aligned(end_read, PAGE)
    end_run = _placed(executable, start_run)
    start_written = _aligned(end_run, PAGE)
    dynamic = _aligned(_placed(writable, start_written), 8)
    entries = [
        (7, relocations), (8, _RELOCATION * len(absolute)), (9, _RELOCATION), (0x6FFFFFF9, len(absolute)),
        (6, symbols), (11, _SYMBOL), (5, strings), (10, len(names)), (4, hashes), (0, 0),
    ]  # fmt: skip
    end = dynamic + _DYNAMIC * len(entries)
    table = _aligned(end, 8)
    out = bytearray(table + 2 * _SECTION)

    for section in sections:
        if section.kind != _NO_BITS:
            out[section.address : section.address + section.size] = section.data
        for place in section.places:
            here, there = section.address + place.offset, found[place.section].address + place.value
            if place.kind != ABSOLUTE:
                struct.pack_into("<i", out, here, there - here)
    for k, (section, place) in enumerate(absolute):
        there = found[place.section].address + place.value
        struct.pack_into("<QQq", out, relocations + _RELOCATION * k, section.address + place.offset, _R_RELATIVE, there)
    exported = found[entry.section]
    struct.pack_into("<IBBHQQ", out, symbols + _SYMBOL, 1, 0x12, 0, 1, exported.address, exported.size)
    struct.pack_into("<IIIIII", out, hashes, 1, 2, 1, 0, 0, 0)
    out[strings : strings + len(names)] = names
    for k, entry_ in enumerate(entries):
        struct.pack_into("<QQ", out, dynamic + _DYNAMIC * k, *entry_)

    written, paged = end - start_written, _aligned(end, PAGE) - start_written
    headers = [
        (6, 4, _HEADER, _SEGMENT * segments, _SEGMENT * segments, 8),  # of this table itself
        (1, 4, 0, end_read, end_read, PAGE),
        (1, 5, start_run, end_run - start_run, end_run - start_run, PAGE),
        (1, 6, start_written, written, written, PAGE),
        (2, 6, dynamic, end - dynamic, end - dynamic, 8),
        (0x6474E552, 4, start_written, written, paged, 1),  # read-only when addresses are filled in
    ]
    for k, (kind, flags, offset, size, memory, alignment) in enumerate(headers):
        fields = kind, flags, offset, offset, offset, size, memory, alignment
        struct.pack_into("<IIQQQQQQ", out, _HEADER + _SEGMENT * k, *fields)
    # IREE's loader wants a table of sections, and looks at none of them.
    size = end_run - start_run
    struct.pack_into("<IIQQQQIIQQ", out, table + _SECTION, 0, 1, 6, start_run, start_run, size, 0, 0, 16, 0)
    identity = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    numbers = _SHARED, _X86_64, 1, 0, _HEADER, table, 0, _HEADER, _SEGMENT, segments, _SECTION, 2, 0
    struct.pack_into("<16sHHIQQQIHHHHHH", out, 0, identity, *numbers)
    return bytes(out)


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _placed(sections: list[Section], address: int) -> int:
    """Give sections their addresses, from one on; returns where the last one ends."""
    for section in sections:
        section.address = _aligned(address, section.alignment)
        address = section.address + section.size
    return address
