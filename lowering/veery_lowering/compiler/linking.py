"""A linker for what IREE's llvm-cpu backend makes: one relocatable x86-64 object becomes the library that it loads.

LLVM's own linker is a process of 335 MB that takes 9 ms for this; the whole of `x + 1` takes 90. What comes of it is
laid out alike: segments for what is read, run and written, one exported symbol, and addresses that are filled in
where the library is loaded. Sections that the entry does not reach are left out.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, version 1.0, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

EXPORT = "iree_hal_executable_library_query"
PAGE = 4096

_WRITE, _EXECUTE = 1, 4  # of sections (SHF_...)
_RELOCATIONS, _SYMBOLS, _NO_BITS = 4, 2, 8  # kinds of sections (SHT_...)
_R_64, _R_PC32, _R_PLT32, _R_RELATIVE = 1, 2, 4, 8
_FIRST_RESERVED = 0xFF00  # numbers of sections from here on mean something else
_X86_64, _RELOCATABLE, _SHARED = 62, 1, 3
_HEADER, _SEGMENT, _SECTION, _SYMBOL, _RELOCATION, _DYNAMIC = 64, 56, 64, 24, 24, 16  # sizes in bytes


class Unsupported(Exception):
    """An object that this linker does not know how to link."""


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


class _Place(NamedTuple):
    """Where in a section an address is wanted: of a byte of another section, in one of the ways of `_R_...`."""

    offset: int
    kind: int
    section: int
    value: int


@dataclass
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    places: list[_Place] = field(default_factory=list)
    address: int = 0


class _Object:
    """The sections of an object file that an entry reaches.

    Raises:
        Unsupported: it is none of x86-64, has no such entry, calls what it has not, or wants an unknown relocation.
    """

    def __init__(self, code: bytes, entry: str):
        if code[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", code, 16) != (_RELOCATABLE, _X86_64):
            raise Unsupported("not a relocatable object of x86-64")
        self.code = code
        (table,) = struct.unpack_from("<Q", code, 40)
        (count,) = struct.unpack_from("<H", code, 60)
        headers = [struct.unpack_from("<IIQQQQIIQQ", code, table + _SECTION * i) for i in range(count)]
        sections = [
            _Section(kind, flags, offset, size, link, info, alignment or 1)
            for _, kind, flags, _, offset, size, link, info, alignment, _ in headers
        ]
        symbols = next((s for s in sections if s.kind == _SYMBOLS), None)
        if symbols is None:
            raise Unsupported("an object without symbols")
        self._names = sections[symbols.link].offset
        self._symbols = [_Symbol(*fields) for fields in struct.iter_unpack("<IBBHQQ", self._bytes(symbols))]
        found = next((s for s in self._symbols if s.section and self._name(s) == entry), None)
        if found is None:
            raise Unsupported(f"no symbol {entry!r}")
        self.entry = found
        self.sections = self._reached(sections, found.section)

    def _bytes(self, section: _Section) -> bytes:
        return self.code[section.offset : section.offset + section.size]

    def _name(self, symbol: _Symbol) -> str:
        start = self._names + symbol.name
        return self.code[start : self.code.index(b"\0", start)].decode()

    def _reached(self, sections: list[_Section], first: int) -> dict[int, _Section]:
        """The sections by their numbers, each with the places that have to be filled in."""
        relocations: dict[int, list[_Section]] = {}
        for section in sections:
            if section.kind == _RELOCATIONS:
                relocations.setdefault(section.info, []).append(section)
        reached: dict[int, _Section] = {}
        waiting = [first]
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached[number] = section = sections[number]
            for table in relocations.get(number, ()):
                for offset, info, addend in struct.iter_unpack("<QQq", self._bytes(table)):
                    symbol, kind = self._symbols[info >> 32], info & 0xFFFFFFFF
                    if symbol.section == 0 or symbol.section >= _FIRST_RESERVED:
                        raise Unsupported(f"calls {self._name(symbol)!r}, which it does not have")
                    if kind not in (_R_64, _R_PC32, _R_PLT32):
                        raise Unsupported(f"relocation {kind}")
                    section.places.append(_Place(offset, kind, symbol.section, symbol.value + addend))
                    waiting.append(symbol.section)
        return dict(sorted(reached.items()))


def link(code: bytes, entry: str) -> bytes:
    """Make a shared library that exports a function of an object file as IREE's loader expects it.

    Args:
        code: an ELF object for x86-64, compiled for any address.
        entry: the function that is exported as `EXPORT`.

    Returns:
        The library, an ELF file.

    Raises:
        Unsupported: the object has what this linker does not know.
    """
    found = _Object(code, entry)
    sections = found.sections.values()
    readable = [s for s in sections if not s.flags & (_WRITE | _EXECUTE)]
    executable = [s for s in sections if s.flags & _EXECUTE]
    writable = [s for s in sections if s.flags & _WRITE]
    absolute = [(s, place) for s in sections for place in s.places if place.kind == _R_64]
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
            out[section.address : section.address + section.size] = found._bytes(section)
        for place in section.places:
            here, there = section.address + place.offset, found.sections[place.section].address + place.value
            if place.kind != _R_64:
                struct.pack_into("<i", out, here, there - here)
    for k, (section, place) in enumerate(absolute):
        there = found.sections[place.section].address + place.value
        struct.pack_into("<QQq", out, relocations + _RELOCATION * k, section.address + place.offset, _R_RELATIVE, there)
    exported = found.sections[found.entry.section].address + found.entry.value
    struct.pack_into("<IBBHQQ", out, symbols + _SYMBOL, 1, 0x12, 0, 1, exported, found.entry.size)
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


def _placed(sections: list[_Section], address: int) -> int:
    """Give sections their addresses, from one on; returns where the last one ends."""
    for section in sections:
        section.address = _aligned(address, section.alignment)
        address = section.address + section.size
    return address
