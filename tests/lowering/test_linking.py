"""The linker: what it makes of an object file has the form that loaders ask for, and what it cannot link it refuses."""

from __future__ import annotations

import platform
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import objects

from veery_lowering.compiler import isolation
from veery_lowering.compiler.linking import EXPORT, PAGE, Object, Unsupported, link
from veery_lowering.mlir import bundled_linker
from veery_lowering.targets import Traits, resolve

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="objects for x86-64 alone are linked")

FLAGS = resolve("cpu").attempts(Traits(frozenset(), ()))[0]
# A sum that reads a table of constants, so that there are sections of several kinds and addresses to be filled in.
MODULE = b"""func.func @main(%x: tensor<5x3xf32>, %y: tensor<3x5xf32>) -> tensor<5x3xf32> {
  %0 = stablehlo.exponential %x : tensor<5x3xf32>
  %1 = stablehlo.dot %0, %y : (tensor<5x3xf32>, tensor<3x5xf32>) -> tensor<5x5xf32>
  %2 = stablehlo.slice %1 [0:5, 0:3] : (tensor<5x5xf32>) -> tensor<5x3xf32>
  return %2 : tensor<5x3xf32>
}"""


@pytest.fixture(scope="module")
def linked() -> tuple[bytes, str, bytes]:
    """An object file, a function in it, and what is linked of that."""
    code, entry, _ = isolation.call(objects.linked, MODULE, FLAGS)
    return code, entry, link(Object(code).function(entry))


def segments(library: bytes) -> list[tuple[int, ...]]:
    """Kind, flags, offset, address, size in the file, size in memory, alignment of each."""
    (table,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    rows = [struct.unpack_from("<IIQQQQQQ", library, table + size * k) for k in range(count)]
    return [(kind, flags, offset, address, *sizes) for kind, flags, offset, address, _, *sizes in rows]


def dynamic(library: bytes) -> dict[int, int]:
    ((offset, size),) = [(s[2], s[4]) for s in segments(library) if s[0] == 2]
    return dict(struct.iter_unpack("<QQ", library[offset : offset + size]))


def exported(library: bytes) -> int:
    """The address of the only symbol."""
    tags = dynamic(library)
    name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", library, tags[6] + 24)
    start = tags[5] + name
    assert library[start : library.index(b"\0", start)].decode() == EXPORT
    assert section
    return int(value)


def test_segments_are_apart(linked: Any) -> None:
    _, _, library = linked
    loaded = [s for s in segments(library) if s[0] == 1]
    assert [s[1] for s in loaded] == [4, 5, 6]  # read, run, written: nothing is both written and run
    pages = [(address // PAGE, -(-(address + memory) // PAGE)) for _, _, _, address, _, memory, _ in loaded]
    assert all(end <= start for (_, end), (start, _) in zip(pages, pages[1:]))
    assert all(offset == address and offset + size <= len(library) for _, _, offset, address, size, _, _ in loaded)


def test_the_entry_is_exported_as_code(linked: Any) -> None:
    _, _, library = linked
    (start, size) = next((s[3], s[4]) for s in segments(library) if s[0] == 1 and s[1] == 5)
    assert start <= exported(library) < start + size


def test_addresses_point_into_the_library(linked: Any) -> None:
    _, _, library = linked
    tags = dynamic(library)
    rows = list(struct.iter_unpack("<QQq", library[tags[7] : tags[7] + tags[8]]))
    assert rows and len(rows) == tags[0x6FFFFFF9]
    loaded = [(s[3], s[3] + s[5], s[1]) for s in segments(library) if s[0] == 1]
    for where, kind, address in rows:
        assert kind == 8  # relative to where the library is loaded
        assert any(start <= where and where + 8 <= end and flags & 2 for start, end, flags in loaded)
        assert any(start <= address <= end for start, end, _ in loaded)  # tables may be empty


def test_it_has_the_code_that_lld_links(linked: Any, tmp_path: Path) -> None:
    """The machine code is that of LLVM's linker but for the addresses in it: as many bytes, the same instructions."""
    code, entry, library = linked
    (tmp_path / "code.o").write_bytes(code)
    options = "--no-undefined --gc-sections -z now -z relro --discard-all --hash-style=sysv --build-id=none -shared"
    command = [bundled_linker(), "-flavor", "gnu", *options.split(), "-e", entry, f"--undefined={entry}"]
    subprocess.run([*command, "code.o", "-o", "code.so"], cwd=tmp_path, check=True)
    theirs = (tmp_path / "code.so").read_bytes()

    assert dynamic(library)[0x6FFFFFF9] == dynamic(theirs)[0x6FFFFFF9]  # as many addresses that loading fills in
    functions = [s for s in Object(code).function(entry).sections.values() if s.flags & 4]
    assert len(functions) > 2  # the dispatches and the entry
    for section in functions:
        assert objects.places_of(section, library) == objects.places_of(section, theirs) == 1


def test_what_it_does_not_know_is_refused(linked: Any) -> None:
    code, entry, _ = linked
    with pytest.raises(Unsupported, match="not a relocatable object"):
        Object(b"\x7fELF")
    with pytest.raises(Unsupported, match="not a relocatable object"):  # of another machine
        Object(code[:18] + struct.pack("<H", 183) + code[20:])
    with pytest.raises(Unsupported, match="no section of 'another'"):
        Object(code).function("another")


def test_calls_of_a_library_are_refused(linked: Any) -> None:
    """As those of the C library, which standard compilation has and the short one leaves out."""
    code, entry, _ = linked
    (table,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i) for i in range(count)]
    symbols = next(h for h in headers if h[1] == 2)
    relocation = next(h for h in headers if h[1] == 4 and headers[h[7]][2] & 4)  # of code
    _, info, _ = struct.unpack_from("<QQq", code, relocation[4])
    damaged = bytearray(code)
    struct.pack_into("<H", damaged, symbols[4] + 24 * (info >> 32) + 6, 0)  # its symbol is undefined now
    with pytest.raises(Unsupported, match="calls '.*', which it does not have"):
        Object(bytes(damaged)).function(entry)
    damaged = bytearray(code)
    struct.pack_into("<Q", damaged, relocation[4] + 8, info >> 32 << 32 | 26)
    with pytest.raises(Unsupported, match="relocation 26"):
        Object(bytes(damaged)).function(entry)
