"""Compiled dispatches on disk: what a new program has in common with earlier ones is not compiled again.

A dispatch is known by its text before it is translated, without its names. What is kept is its entry in the executable
(how it is called, on how many workgroups) and its machine code with all that this needs. In a program's module a known
dispatch has no code, and the linker takes what was kept. So it does with kernels of veery's own (ahead.py).

Measured on two cores: a step of training a network of three layers takes 0.96 s to compile; with another learning rate,
of whose 20 dispatches it shares 15, 0.48 s; with one layer more, whose dispatches are all known (places.py), 0.32 s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from veery_lowering.compiler import linking
from veery_lowering.compiler.emptied import executables, mark_of
from veery_lowering.mlir import COMPILER_VERSION, inside, ir
from veery_lowering.store.cache import DiskCache, Entry

FORMAT = "5"
_NAME, _EXECUTABLE, _FILE = "<name>", "<executable>", "<file>"


class Known(NamedTuple):
    """A dispatch that is compiled elsewhere.

    Attributes:
        entry: how it is called, without its name.
        function: gives its machine code, when that is there.
    """

    entry: str
    function: Callable[[], linking.Part]

    @staticmethod
    def decoded(key: str, found: Entry) -> Known:
        """One that was on disk."""
        code, entry = found
        part = linking.decode(code, key)
        return Known(entry["entry"], lambda: part)


class Others(Protocol):
    """Kernels whose code is not in a module."""

    def __contains__(self, mark: str) -> bool: ...

    def __getitem__(self, mark: str) -> Known: ...

    def is_known(self, mark: str) -> bool: ...


class Parts:
    """The dispatches of one program, and the folder in which those of others are.

    Args:
        cache: the folder; None if there is none.
        flags: of the compiler's session.
        file: a path that is in the text of all dispatches, and means nothing.
    """

    def __init__(self, cache: DiskCache | None, flags: Sequence[str], file: str):
        self._cache, self._flags, self._file = cache, flags, file
        self._elsewhere: dict[str, Known] = {}  # by the names of their functions
        self._empty: list[str] = []
        self._new: dict[str, str] = {}  # the keys of what is not on disk, by the same
        self._entries: dict[str, str] = {}  # and how it is called
        self._count = self._known = 0

    @property
    def account(self) -> str:
        """How many dispatches there are, and how many of them were known."""
        return f"{self._count}, {self._known} of them known"

    @property
    def are_new(self) -> bool:
        """Whether there is any that is in the module, with its code."""
        return len(self._elsewhere) < self._count

    def take_kernels(self, module: ir.Module, kernels: Others) -> None:
        """Take those out of a module whose code is elsewhere."""
        found = executables(module)
        self._count = len(found)
        for op in found:
            only = _only(op)
            mark = mark_of(only.code) if only else ""
            if only and mark in kernels:
                self._take(op, only, kernels[mark])
                self._known += kernels.is_known(mark)

    def take(self, module: ir.Module) -> None:
        """Take the dispatches that are on disk out of a module, before they are translated."""
        if self._cache is None:
            return
        for op in executables(module):
            only = _only(op)
            if only is None:
                continue
            key = self._key(op, only)
            found = self._cache.get_part(key)
            if found is None:
                self._new[_name(only.export)] = key
            else:
                self._take(op, only, Known.decoded(key, found))
                self._known += 1

    def _take(self, op: Any, only: _Only, known: Known) -> None:
        variant, export, _ = only
        name, target = variant.attributes["sym_name"].value, variant.attributes["target"]
        entry = known.entry.replace(_NAME, _name(export))
        empty = f"hal.executable.variant public @{name} target({target}) {{ {entry} builtin.module {{}} }}"
        self._empty.append(f"hal.executable private @{_name(op)} {{ {empty} }}")
        self._elsewhere[_name(export)] = known
        op.detach_from_parent()
        op.erase()

    def _key(self, op: Any, only: _Only) -> str:
        text = op.get_asm(enable_debug_info=False, assume_verified=True)
        plain = text.replace(_name(only.export), _NAME).replace(_name(op), _EXECUTABLE).replace(self._file, _FILE)
        digest = hashlib.sha256()
        for part in (FORMAT, COMPILER_VERSION, repr(self._flags), plain):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()

    def put_back(self, module: ir.Module) -> None:
        """Put what was taken back without its code, and note how the others are called."""
        self._entries = entries(module)
        if self._empty:
            parsed = ir.Module.parse("\n".join(self._empty))
            for op in executables(parsed):
                op.detach_from_parent()
                module.body.append(op)

    def functions(self) -> dict[str, linking.Part]:
        """The machine code of what was taken, by the names of its functions, as soon as it is there."""
        return {name: known.function() for name, known in self._elsewhere.items()}

    def keep(self, functions: Mapping[str, linking.Part]) -> None:
        """Keep on disk what was not there."""
        if self._cache is not None:
            for name, key in self._new.items():
                if name in self._entries:
                    self._cache.put_part(key, encoded(self._entries[name], functions[name]))


def encoded(entry: str, function: linking.Part) -> Entry:
    """A dispatch as it is kept on disk: how it is called, and its machine code."""
    return linking.encode(function), {"entry": entry}


class _Only(NamedTuple):
    """What an executable has that has one function.

    Attributes:
        variant: for its only target.
        export: how it is called.
        code: a module.
    """

    variant: Any
    export: Any
    code: Any


def entries(module: ir.Module) -> dict[str, str]:
    """How the dispatches of a module are called, without their names, by these."""
    found = filter(None, map(_only, executables(module)))
    return {_name(only.export): _entry(only.export) for only in found}


def _entry(export: Any) -> str:
    text: str = export.get_asm(enable_debug_info=False, assume_verified=True)
    return text.replace(_name(export), _NAME)


def _only(executable: Any) -> _Only | None:
    variants = [op for op in inside(executable) if op.name != "hal.executable_end"]
    if [op.name for op in variants] != ["hal.executable.variant"]:
        return None
    found = [op for op in inside(variants[0]) if op.name != "hal.executable.variant_end"]
    if [op.name for op in found] != ["hal.executable.export", "builtin.module"]:
        return None
    return _Only(variants[0], *found)


def _name(symbol: Any) -> str:
    return str(symbol.attributes["sym_name"].value)
