"""Executables without their code, while passes change what calls them.

Passes that convert a module look at all operations in it, also at those of a dispatch's code, of which a kernel may
have thousands, although it is done with or comes later. Without it, CPU ms of IREE's passes for an expectation
maximization in a kernel, and for a step of training a network of three layers: forming dispatches 47 to 12 and 37 to
24, planning memory 73 to 16 and 53 to 33, calls of the runtime 58 to 32 and 37 to 12.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from veery_lowering.mlir import CODE, inside, ir

SOURCES = ("hal.executable.source",)  # kernels of veery's own
STREAMS = ("stream.executable",)
_MARK = "veery.mark"


@contextmanager
def emptied(module: ir.Module, kinds: Collection[str]) -> Iterator[None]:
    """A context in which executables of some kinds have no code; behind it those that are left have theirs again.

    After an error they stay without.

    Args:
        module: which has them.
        kinds: the names of their operations.
    """
    codes = {}
    for number, (executable, code) in enumerate(code_of(module, kinds)):
        codes[_name(executable)] = take_out(code, str(number))
    yield
    for executable, empty in code_of(module, kinds):
        if _name(executable) in codes:
            ir.InsertionPoint(empty).insert(codes[_name(executable)])
            empty.erase()


def drop_code(module: ir.Module) -> None:
    """Leave nothing but their interfaces of the executables of a module, whose code is elsewhere."""
    for executable in executables(module):
        for variant in inside(executable):
            if variant.name == "hal.executable.variant":
                for code in _modules(variant):
                    for function in inside(code):
                        function.erase()


def write_out(module: ir.Module) -> None:
    """Give kernels of our own the code that they have as text, which is verified.

    Raises:
        ir.MLIRError: it cannot be parsed, or is invalid.
    """
    for executable, code in code_of(module, SOURCES):
        if CODE in executable.attributes:
            parsed = ir.Module.parse(executable.attributes[CODE].value, module.context)
            del executable.attributes[CODE]
            for op in inside(parsed.operation):
                code.regions[0].blocks[0].append(op.detach_from_parent())


def code_of(module: ir.Module, kinds: Collection[str]) -> list[tuple[Any, Any]]:
    """The executables of some kinds, and the code of each, a module in it."""
    return [(executable, code) for executable in executables(module, kinds) for code in _modules(executable)]


def take_out(code: Any, mark: str) -> Any:
    """Take a module out of its executable, where an empty one takes its place that differs from others by a mark."""
    attributes, place = {_MARK: ir.StringAttr.get(mark)}, ir.InsertionPoint(code)
    empty = ir.Operation.create("builtin.module", attributes=attributes, regions=1, ip=place, loc=code.location)
    empty.regions[0].blocks.append()
    return code.detach_from_parent()


def mark_of(code: Any) -> str:
    """The mark of a module that was put in the place of another; "" of others."""
    return str(code.attributes[_MARK].value) if _MARK in code.attributes else ""


def executables(module: ir.Module, kinds: Collection[str] = ("hal.executable",)) -> list[Any]:
    """The executables of a module that are of some kinds."""
    return [op.operation for op in module.body.operations if op.operation.name in kinds]


def _modules(op: Any) -> list[Any]:
    return [inner for inner in inside(op) if inner.name == "builtin.module"]


def _name(symbol: Any) -> str:
    return str(symbol.attributes["sym_name"].value)
