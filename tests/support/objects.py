"""Object files as IREE's backend makes them, in the compiler's own process."""

from __future__ import annotations

import re
from typing import Any

from veery_lowering.compiler import device_functions, linking, sessions
from veery_lowering.mlir import ir


def linked(module: bytes, flags: tuple[str, ...]) -> tuple[bytes, str, bytes]:
    """The object file of a module's dispatches, the function in it that tells of them, and the program's library."""
    objects: list[bytes] = []
    libraries: list[bytes] = []
    link, make = linking.link, linking.Object.__init__

    def noted(entry: linking.Part) -> bytes:
        libraries.append(link(entry))
        return libraries[-1]

    def made(self: linking.Object, code: bytes, *others: Any) -> None:
        objects.append(code)
        make(self, code, *others)

    linking.link, linking.Object.__init__ = noted, made  # type: ignore[method-assign, assignment]
    try:
        program, diagnostics = sessions.run_pipeline(module, flags, shortly=True, threads=False)
    finally:
        linking.link, linking.Object.__init__ = link, make  # type: ignore[method-assign]
    assert program is not None, diagnostics
    (entry,) = {name for name in named(objects[0]) if name.endswith("_library_query")}
    return objects[0], entry, libraries[0]


def named(code: bytes) -> list[str]:
    """The functions of an object file."""
    object_ = linking.Object(code)
    names = [object_._text(object_._section_names + header.name) for header in object_._headers]
    return [name.removeprefix(".text.") for name in names if name.startswith(".text.")]


def places_of(section: linking.Section, library: bytes) -> int:
    """How often a library has the bytes of a section, whatever is in the places that linking fills in."""
    pattern, end = b"", 0
    for place in sorted(section.places):
        pattern += re.escape(section.data[end : place.offset]) + b"(?s:....)"
        end = place.offset + 4
    return len(re.findall(pattern + re.escape(section.data[end:]), library))


def hastened(module: bytes, flags: tuple[str, ...]) -> tuple[bytes | None, bytes | None, list[str]]:
    """A program, what comes of it with device functions that are left out, and those of them that it needs."""
    before, _ = sessions.run_pipeline(module, flags, shortly=True)
    sessions.hasten()
    reached, needed = linking.Object.reached, set()

    def noted(self: linking.Object, first: int) -> linking.Sections:
        found = reached(self, first)
        needed.update(name for name, part in device_functions.instead().items() if part.section in found)
        return found

    linking.Object.reached = noted  # type: ignore[method-assign]
    after, _ = sessions.run_pipeline(module, flags, shortly=True)
    return before, after, sorted(needed)


def functions(module: bytes, flags: tuple[str, ...]) -> list[str]:
    """The functions of a module's object file."""
    return named(linked(module, flags)[0])


def _compile(module: bytes, flags: tuple[str, ...], hastens: bool) -> None:
    """Compile a module, so often that the next time all is left out that is known, if that is asked for."""
    if hastens:
        sessions.hasten()
    for _ in range(1 + hastens):
        sessions.run_pipeline(module, flags, shortly=True)


def left_out(module: bytes, flags: tuple[str, ...], parts: str, hastens: bool) -> list[tuple[bool, bytes | None]]:
    """For two compilations whether device functions were left out, and the program."""
    if hastens:
        sessions.hasten()
    found = []
    for _ in range(2):
        program, _ = sessions.run_pipeline(module, flags, shortly=True, parts=parts)
        found.append((device_functions.are_left_out(), program))
    return found


def is_kept(module: bytes, flags: tuple[str, ...], hastens: bool) -> bool:
    """Whether a session serves on after as many programs as elsewhere are enough."""
    _compile(module, flags, hastens)
    (session,) = sessions._idle[sessions.of_session(flags)]
    session.uses = sessions._COMPILES_PER_SESSION
    sessions.run_pipeline(module, flags, shortly=True)
    return session in sessions._idle[sessions.of_session(flags)]


def executables(module: bytes, flags: tuple[str, ...], hastens: bool) -> int:
    """How many executables IREE's own phases make of a module's dispatches."""
    _compile(module, flags, hastens)
    text, _ = sessions.run_pipeline(module, flags, phase="hal")
    assert text is not None
    return text.count(b"hal.executable private")


def printed(module: bytes, flags: tuple[str, ...], hastens: bool) -> str:
    """How an invalid module is printed: in generic form, if it was verified before."""
    _compile(module, flags, hastens)
    (ready,) = sessions._idle[sessions.of_session(flags)]
    with ready.session.context, ir.Location.unknown():
        invalid = ir.Module.parse("util.func public @f(%x: i32) -> i32 { util.return %x : i32 }")
        (function,) = invalid.body.operations
        (returned,) = function.operation.regions[0].blocks[0].operations
        returned.operation.erase()
        return str(invalid)
