"""How many dialects a context has loaded: whenever there is one more, passes collect their patterns anew."""

from __future__ import annotations

import ctypes
from typing import Any

from veery_lowering.mlir import ctypes_dl

_NAME = (ctypes_dl.MLIR_CAPSULE_PREFIX + "ir.Context._CAPIPtr").encode()


class _Context(ctypes.Structure):
    _fields_ = (("pointer", ctypes.c_void_p),)


_count = ctypes_dl._dylib.mlirContextGetNumLoadedDialects
_count.argtypes, _count.restype = [_Context], ctypes.c_ssize_t


def loaded(context: Any) -> int:
    """The number of a context's dialects."""
    return int(_count(_Context(ctypes_dl.PyCapsule_GetPointer(context._CAPIPtr, _NAME))))
