"""CUDA's driver, as far as IREE leaves something to do."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from typing import Any


class _Current(threading.local):
    context: Context | None = None


_current = _Current()


class Context:
    """The context that programs on a device share, the driver's primary one.

    IREE makes it the current one of the thread that opens the device, and of its own; what other threads allocate and
    submit fails ("invalid device context").
    """

    def __init__(self, ordinal: int) -> None:
        device = ctypes.c_int()
        self._handle = ctypes.c_void_p()
        _call("cuDeviceGet", ctypes.byref(device), ordinal)
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(self._handle), device)

    def enter(self) -> None:
        """Make it current in this thread."""
        if _current.context is not self:
            _call("cuCtxSetCurrent", self._handle)
            _current.context = self


@functools.cache
def _driver() -> Any:
    if sys.platform == "win32":
        return ctypes.WinDLL("nvcuda.dll")
    return ctypes.CDLL("libcuda.so.1")


def _call(function: str, *args: Any) -> None:
    status = getattr(_driver(), function)(*args)
    if status:
        raise RuntimeError(f"INTERNAL; CUDA's {function} failed with the status {status}")
