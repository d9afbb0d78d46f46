"""OpenBLAS, which NumPy and SciPy each bring: how many threads it has, and what its code is for.

Its threads wait for each other in loops: where something else has the processor, as IREE's workers do, a QR of 150x100
took 400 us in one thread and up to 500 ms in two.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from veery.lax._scipy_extensions import extension

_WITH_AVX512 = frozenset(("skylakex", "cooperlake", "sapphirerapids"))  # names of its code


class OpenBLAS:
    """The OpenBLAS that an extension is linked with; of another library it knows nothing.

    As a context it keeps to one thread while anybody is within.

    Args:
        find: gives the extension.
    """

    def __init__(self, find: Callable[[], Any]):
        self._find = find
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def __enter__(self) -> None:
        get, set = self._threads
        with self._lock:
            if not self._inside:
                self._before = get()
                if self._before != 1:
                    set(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before != 1:
                self._threads[1](self._before)

    def _after_fork(self) -> None:
        """Threads of the parent are not within."""
        if self._inside and self._before != 1:
            self._threads[1](self._before)
        self._forget()

    @functools.cached_property
    def _threads(self) -> tuple[Callable[[], int], Callable[[int], None]]:
        """What tells and sets the number of threads; of another library it tells of one."""
        get, set = (self._function(f"{verb}_num_threads") for verb in ("get", "set"))
        if get is None or set is None:
            return lambda: 1, lambda number: None
        set.restype = None
        return get, set

    @functools.cached_property
    def has_wide_vectors(self) -> bool:
        """Whether it computes with vectors as wide as the processor has.

        It takes code for AVX2 on processors that it does not know to have AVX-512, by their names or in virtual
        machines: 1024x1024 of float32 take 9.5 ms by that on two cores of a Zen 5, and 5.6 by IREE's code.
        """
        tell = self._function("get_corename")
        if tell is None or not _features().get("AVX512F"):
            return True
        tell.restype = ctypes.c_char_p
        return tell().decode().lower() in _WITH_AVX512

    def _function(self, name: str) -> Any:
        library = ctypes.PyDLL(self._find().__file__)  # looks into what it is linked with, too
        names = [f"{prefix}openblas_{name}{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]
        return next(filter(None, (getattr(library, each, None) for each in names)), None)


def _features() -> Mapping[str, bool]:
    """What NumPy found out about the processor; nothing where it does not tell."""
    found: Mapping[str, bool] = getattr(_of_numpy(), "__cpu_features__", {})
    return found


def _of_numpy() -> Any:
    return sys.modules.get("numpy._core._multiarray_umath")


OF_NUMPY = OpenBLAS(_of_numpy)
OF_SCIPY = OpenBLAS(functools.partial(extension, "scipy.linalg.cython_lapack"))
