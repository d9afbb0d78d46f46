"""Executables without their code, while passes change what calls them.

Passes that convert a module look at all operations in it, also at those of a dispatch's code, of which a kernel may
have thousands, although it is done with or comes later. Without it, CPU ms of IREE's passes for an expectation
maximization in a kernel, and for a step of training a network of three layers: forming dispatches 47 to 12 and 37 to
24, planning memory 73 to 16 and 53 to 33, calls of the runtime 58 to 32 and 37 to 12.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from veery_lowering.mlir import inside, ir

SOURCES = ("hal.executable.source",)  # kernels of veery's own
STREAMS = ("stream.executable",)


@contextmanager
def emptied(module: ir.Module, kinds: Collection[str], merged: bool = False) -> Iterator[None]:
    """A context in which executables of some kinds have no code; behind it those that are left have theirs again.

    After an error they stay without.

    Args:
        module: which has them.
        kinds: the names of their operations.
        merged: whether IREE makes one of those that are equal but for their names meanwhile; each takes a ms to read.
    """
    code = {}
    for number, (executable, its) in enumerate(_code_of(module, kinds)):
        code[_name(executable)] = _emptied(its, _digest(its) if merged else str(number))
    yield
    for executable, empty in _code_of(module, kinds):
        if _name(executable) in code:
            ir.InsertionPoint(empty).insert(code[_name(executable)])
            empty.erase()


def drop_code(module: ir.Module) -> None:
    """Leave nothing but their interfaces of the executables of a module, whose code is elsewhere."""
    for executable in _of(module, ("hal.executable",)):
        for variant in inside(executable):
            if variant.name == "hal.executable.variant":
                for code in _modules(variant):
                    for function in inside(code):
                        function.erase()


def _emptied(code: Any, mark: str) -> Any:
    """Take a module out of its executable, where an empty one takes its place that differs from others by a mark."""
    attributes, place = {"veery.code": ir.StringAttr.get(mark)}, ir.InsertionPoint(code)
    empty = ir.Operation.create("builtin.module", attributes=attributes, regions=1, ip=place, loc=code.location)
    empty.regions[0].blocks.append()
    return code.detach_from_parent()


def _digest(code: Any) -> str:
    text = code.get_asm(enable_debug_info=False, assume_verified=True)
    for function in inside(code):
        text = text.replace(f"@{_name(function)}", "@")
    return hashlib.sha256(text.encode()).hexdigest()


def _code_of(module: ir.Module, kinds: Collection[str]) -> list[tuple[Any, Any]]:
    return [(executable, code) for executable in _of(module, kinds) for code in _modules(executable)]


def _of(module: ir.Module, kinds: Collection[str]) -> list[Any]:
    return [op.operation for op in module.body.operations if op.operation.name in kinds]


def _modules(op: Any) -> list[Any]:
    return [inner for inner in inside(op) if inner.name == "builtin.module"]


def _name(symbol: Any) -> str:
    return str(symbol.attributes["sym_name"].value)
