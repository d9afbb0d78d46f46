"""Pass managers that a session keeps: what their passes need is collected once.

A pass that rewrites collects the patterns of all operations before it runs, 0.3 to 0.7 ms, and keeps them as long as
its manager lives. A compilation runs some hundred such passes, most of them on functions of a few lines; IREE makes a
manager for each run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from veery_lowering.mlir import PassManager, ctypes_dl, ir

_run = ctypes_dl._dylib.mlirPassManagerRunOnOp
_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_run.restype = ctypes.c_int8
_MANAGER = (ctypes_dl.MLIR_CAPSULE_PREFIX + "passmanager.PassManager._CAPIPtr").encode()


class Managers:
    """The pass managers of a session, which have to be gone before its context is.

    Args:
        context: the session's.
    """

    def __init__(self, context: ir.Context):
        self._context = context
        self._made: dict[tuple[str, str, bool, int], Any] = {}

    def load(self, dialects: Iterable[str]) -> None:
        """Load dialects that passes will need: whenever one is loaded, passes collect their patterns anew."""
        for name in dialects:
            self._context.get_dialect_descriptor(name)

    def run(self, module: ir.Module, passes: str, verifies: bool) -> bool:
        """Run passes, a text pipeline of a module's, and verify after each if asked; whether they went well.

        Threads of the compiler may call Python meanwhile: the lock of the interpreter, which MLIR's own binding keeps,
        is not held.
        """
        return self._run(module.operation, "builtin.module", passes, verifies, 0)

    def run_on(self, operation: Any, passes: str, thread: int) -> bool:
        """Run passes of an operation in a module, without verifying, by a thread; each thread has a number."""
        return self._run(operation, operation.name, passes, False, thread)

    def _run(self, operation: Any, anchor: str, passes: str, verifies: bool, thread: int) -> bool:
        manager = self._made.get((anchor, passes, verifies, thread))
        if manager is None:
            manager = PassManager.parse(f"{anchor}({passes})", self._context)
            manager.enable_verifier(verifies)
            self._made[anchor, passes, verifies, thread] = manager
        operation = ctypes_dl.PyCapsule_GetPointer(operation._CAPIPtr, ctypes_dl.MLIR_PYTHON_CAPSULE_OPERATION)
        return bool(_run(ctypes_dl.PyCapsule_GetPointer(manager._CAPIPtr, _MANAGER), operation))
