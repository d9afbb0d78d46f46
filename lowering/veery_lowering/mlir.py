"""The one door to IREE's compiler and its MLIR bindings.

Everything else in the lowering imports `ir` and the names below from here, so that a change of the bindings is a change
of this file.
"""

from __future__ import annotations

import io
import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import iree.compiler
from iree.compiler import ir as ir
from iree.compiler.api import Invocation, Output, Session, ctypes_dl
from iree.compiler.passmanager import PassManager
from iree.compiler.version import VERSION as COMPILER_VERSION

__all__ = [
    "COMPILER_VERSION",
    "Invocation",
    "Output",
    "PassManager",
    "Session",
    "base_name",
    "bundled_linker",
    "bytecode",
    "context",
    "ctypes_dl",
    "ir",
    "maker",
    "operations",
    "pass_manager",
    "sizes",
    "terminator",
]

# Of each dialect whose operations the bindings hand out they import Python classes, which nothing here needs: 5 to 70
# ms each in a process. Where there are none they look for them each time, 80 us, four fifths of the time that lowering
# takes. So they are told that these dialects have classes, which are empty; who imports those of the compiler's package
# himself has them nevertheless.
_DIALECTS = (
    ("builtin", "stablehlo", "chlo", "func", "arith", "math", "complex", "tensor", "linalg", "memref", "vector", "scf")
    + ("cf", "affine", "util", "flow", "stream", "hal", "vm", "llvm", "iree_codegen", "iree_cpu", "iree_linalg_ext")
    + ("iree_tensor_ext",)
)


def _leave_out_classes() -> None:
    loaded = iree.compiler._mlir_libs._mlir.globals._check_dialect_module_loaded
    for dialect in _DIALECTS:
        name = f"iree.compiler.dialects.{dialect}"
        if name not in sys.modules:
            sys.modules[name] = ModuleType(name)
            try:
                loaded(dialect)
            finally:
                del sys.modules[name]


_leave_out_classes()

# On a kernel's executable: its code, which is parsed where it is compiled; a digest of it and of how it is called.
# And which of the memory that it reads and writes may be the same.
CODE, WRITTEN_AS, IN_PLACE = "veery.code", "veery.written_as", "veery.in_place"

# Bytes of donated arguments from which on results take their places: what is smaller costs no time to allocate.
LEAST_REUSED = 1 << 16

# A context keeps every type and attribute (so every constant) that was ever made in it: start a new one now and then.
_BUILDS_PER_CONTEXT = 256

_local = threading.local()


@contextmanager
def context() -> Iterator[ir.Context]:
    """Enter an MLIR context of this thread; modules made in it must be serialised or dropped soon."""
    depth = getattr(_local, "depth", 0)
    if depth == 0 and next(_local.__dict__.setdefault("builds", itertools.count())) % _BUILDS_PER_CONTEXT == 0:
        _local.context = ir.Context()
        _local.context.enable_multithreading(False)  # forked processes can go on with it
    _local.depth = depth + 1
    try:
        with _local.context as current, ir.Location.unknown():
            yield current
    finally:
        _local.depth = depth


def pass_manager(context: ir.Context, passes: str) -> PassManager:
    """A pass manager, which this thread keeps as long as it is asked for those of the context.

    Passes that rewrite collect the patterns of all operations when their manager is first run: 1 ms for `x + 1`.
    """
    kept: tuple[ir.Context | None, dict[str, PassManager]] = getattr(_local, "managers", (None, {}))
    if kept[0] is not context:
        kept = _local.managers = context, {}
    managers = kept[1]
    if passes not in managers:
        managers[passes] = PassManager.parse(passes, context)
    return managers[passes]


def bytecode(module: ir.Module) -> bytes:
    """MLIR bytecode of a module, locations included."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def operations(root: Any) -> list[Any]:
    """An operation and all in it; of a module those in it, but for the thousands that its kernels may have."""
    found: list[Any] = []
    whole = root.operation
    if whole.name != "builtin.module":
        _collect(whole, found)
        return found
    for op in inside(whole):
        if op.name == "hal.executable.source":
            found.append(op)
        else:
            _collect(op, found)
    return found


def _collect(op: Any, found: list[Any]) -> None:
    """Add all in an operation, and then itself, to those that are found: in 0.6 of the time of MLIR's own walk."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _collect(inner.operation, found)
    found.append(op)


def inside(op: Any) -> list[Any]:
    """The operations of an operation's only block."""
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def terminator(block: Any) -> Any:
    """The operation that ends a block."""
    return block.operations[len(block.operations) - 1].operation


def base_name(name: str) -> str:
    """The name of an operation without StableHLO's prefix."""
    return name.removeprefix("stablehlo.")


def sizes(value: Any) -> list[int | None]:
    """The sizes of a tensor value, None where they are unknown; empty for what is no tensor."""
    if not isinstance(value.type, ir.RankedTensorType):
        return []
    return [None if value.type.is_dynamic_dim(axis) else n for axis, n in enumerate(value.type.shape)]


def maker(value: Any) -> str:
    """The name of the operation that a value is a result of; empty for what a block is given."""
    return "" if isinstance(value.owner, ir.Block) else str(value.owner.name)


def bundled_linker() -> str:
    """Path of the LLD that ships with the compiler."""
    return str(Path(iree.compiler.__file__).parent / "_mlir_libs" / "iree-lld")
