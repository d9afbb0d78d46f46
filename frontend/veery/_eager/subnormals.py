"""Floating-point arithmetic as compiled programs do it: subnormal operands and results are zeros.

IREE sets the processor's flush-to-zero and denormals-are-zero modes while a kernel runs. NumPy leaves the modes as they
are, so that with the same modes its arithmetic has the same bits. Python cannot set them; the C library's `fesetenv`
does, with the control words where its `fenv_t` has them (0.3 us a call). Where that is not known, no floats are
computed here.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

_SIZE = 64  # of the buffers; the largest fenv_t is 32 bytes


def _mode_bits() -> tuple[int, int] | None:
    """Where `fenv_t` has the word with the modes, and their bits in it."""
    machine = platform.machine()
    if sys.platform == "linux":
        return {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}.get(machine)
    if sys.platform == "darwin":
        return {"x86_64": (4, 0x8040), "arm64": (8, 1 << 24)}.get(machine)
    return None


class Modes(threading.local):
    """The modes of each thread, by the addresses of two `fenv_t`: one to save them in, one with those of a kernel.

    Attributes:
        get, set: `fegetenv` and `fesetenv`, of an address.
        before, during: the addresses.
    """

    def __init__(self, get: Callable[[int], int], set: Callable[[int], int], offset: int, bits: int):
        self.get, self.set = get, set
        self._memory = ctypes.create_string_buffer(2 * _SIZE)
        self.before = ctypes.addressof(self._memory)
        self.during = self.before + _SIZE
        get(self.during)
        ctypes.c_uint32.from_address(self.during + offset).value |= bits

    def flushed(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function(*args)` with subnormal numbers flushed to zero."""
        before, during = self.before, self.during
        self.get(before)
        try:  # an interrupt may come between any two lines
            self.set(during)
            return function(*args)
        finally:
            self.set(before)


@functools.cache
def modes() -> Modes | None:
    """What sets the modes; None where that is not known."""
    where = _mode_bits()
    if where is None:
        return None
    library = ctypes.PyDLL(None)
    get, set_ = library.fegetenv, library.fesetenv
    get.argtypes = set_.argtypes = [ctypes.c_void_p]
    found = Modes(get, set_, *where)
    tiny = np.full(9, 2.0**-140, np.float32)
    zeros = found.flushed(lambda: (tiny * np.float32(2), tiny == 0, tiny.astype(np.float64)))
    works = not zeros[0].any() and zeros[1].all() and not zeros[2].any() and (tiny * np.float32(2)).all()
    return found if works else None
