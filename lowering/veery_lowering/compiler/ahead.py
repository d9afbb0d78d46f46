"""Kernels of veery's own, compiled while IREE decides what else is computed together.

They say which memory they read and write, and nothing that is decided later changes them. So their code is taken out
of the module before its first pass, and is known by the text that it was written as: what is on disk is not looked at
again, and of the others another thread makes machine code meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from veery_lowering.compiler import linking
from veery_lowering.compiler.emptied import SOURCES, code_of, take_out
from veery_lowering.compiler.parts import FORMAT, Known, encoded
from veery_lowering.mlir import CODE, COMPILER_VERSION, WRITTEN_AS, bytecode, inside, ir
from veery_lowering.store.cache import DiskCache


class Translated(NamedTuple):
    """Kernels in LLVM's dialect.

    Attributes:
        code: a module that has them in one executable, as bytecode.
        file: the object file that IREE writes.
        entries: how they are called, by the names of their functions.
    """

    code: bytes
    file: Path
    entries: Mapping[str, str]


class Kernels:
    """The kernels of a module.

    Args:
        module: their code is taken out of it; marks stay in its places.
        cache: the folder of dispatches; None if there is none.
        flags: of the compiler's session.
        device: what is compiled for, as an attribute.

    Attributes:
        code: those that are not on disk, as bytecode of a module, with their code as text where they had it so.
        count: how many that is.
    """

    def __init__(self, module: ir.Module, cache: DiskCache | None, flags: Sequence[str], device: str):
        self._cache = cache
        self._found: dict[str, Known] = {}  # by their marks
        self._new: dict[str, str] = {}  # the names of the others' functions
        alone = ir.Module.create()
        for executable, code in code_of(module, SOURCES):
            mark = _digest(FORMAT, COMPILER_VERSION, repr(flags), device, executable.attributes[WRITTEN_AS].value)
            if mark not in self._found and mark not in self._new:
                found = cache.get_part(mark) if cache else None
                if found is not None:
                    self._found[mark] = Known.decoded(mark, found)
                else:
                    alone.body.append(_public(executable))
                    self._new[mark] = inside(executable)[0].attributes["sym_name"].value
            take_out(code, mark)
            if CODE in executable.attributes:
                del executable.attributes[CODE]
        self.count = len(self._new)
        self.code = bytecode(alone)

    def are_made_by(
        self, translated: Callable[[], Translated], functions: Callable[[], Mapping[str, linking.Part]]
    ) -> None:
        """Say what waits for the kernels of `code`; it raises what their compilation does.

        Args:
            translated: gives them in LLVM's dialect.
            functions: gives their machine code, by the names of their functions.
        """
        self._translated, self._functions = translated, functions

    def wait(self) -> None:
        """Wait until none is being translated."""
        if self.count:
            self._translated()

    def __contains__(self, mark: str) -> bool:
        return mark in self._found or mark in self._new

    def is_known(self, mark: str) -> bool:
        """Whether a kernel is on disk."""
        return mark in self._found

    def __getitem__(self, mark: str) -> Known:
        if mark in self._found:
            return self._found[mark]
        name = self._new[mark]
        return Known(self._translated().entries[name], lambda: self._functions()[name])

    def keep(self, translated: Translated, functions: Mapping[str, linking.Part]) -> None:
        """Keep on disk what was compiled."""
        if self._cache is not None:
            for mark, name in self._new.items():
                self._cache.put_part(mark, encoded(translated.entries[name], functions[name]))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _public(executable: Any) -> Any:
    """A copy of an executable that is not left out although nothing calls it."""
    copy = executable.clone()
    copy.attributes["sym_visibility"] = ir.StringAttr.get("public")
    return copy
