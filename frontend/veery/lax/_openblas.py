"""OpenBLAS, which NumPy and SciPy each bring: how many threads it has, and what its code is for.

Its threads wait for each other in loops: where something else has the processor, as IREE's workers do, a QR of 150x100
took 400 us in one thread and up to 500 ms in two. Only in products with vectors none of them waits for another before
the end: of 3000x3000 they take 0.6 ms in two threads and 1.4 in one, beside another process 1.6 and 1.4 in the mean.

After a call its threads look for the next one for 20 ms, without rest. They fall asleep after 0.1 ms instead, unless
the environment says how long: a sum of rows takes 55 us in two threads while they are awake, 85 otherwise, and 105 in
one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from veery.lax._scipy_extensions import extension

_AWAKE = "OPENBLAS_THREAD_TIMEOUT"  # the logarithm of the cycles that its threads look for work
_CYCLES = 18
_SHARE = 1 << 17  # elements of a matrix that is multiplied by a vector, for each thread

_WITH_AVX512 = frozenset(("skylakex", "cooperlake", "sapphirerapids"))  # names of its code


class Mutex:
    """A mutex that compiled programs can lock, too: of POSIX.

    Args:
        address: of 64 bytes of memory, as long as the process lives; `begin` makes a mutex of them.
    """

    def __init__(self, address: int) -> None:
        library, self._memory = ctypes.CDLL(None), ctypes.c_void_p(address)
        names = ("lock", "unlock", "init")
        self._lock, self._unlock, self._init = (getattr(library, f"pthread_mutex_{name}") for name in names)

    @property
    def addresses(self) -> tuple[int, int]:
        """Those of the functions that lock and unlock it."""
        lock, unlock = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (self._lock, self._unlock))
        return lock, unlock

    def begin(self) -> None:
        """Have it be unlocked."""
        self._init(self._memory, None)

    def __enter__(self) -> None:
        self._lock(self._memory)

    def __exit__(self, *_: object) -> None:
        self._unlock(self._memory)


class OpenBLAS:
    """The OpenBLAS that an extension is linked with; of another library it knows nothing.

    As a context it keeps to one thread while anybody is within. Of several contexts the one that allows the fewest
    threads is followed.

    Args:
        find: gives the extension.
    """

    def __init__(self, find: Callable[[], Any]):
        self._find = find
        self._rests = False
        self._lowered: Any = (0,)
        self._mutex: AbstractContextManager[Any] = nullcontext()
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[int] = []  # how many threads those within allow
        self._before = 1

    def __enter__(self) -> None:
        self._enter(1)

    def __exit__(self, *_: object) -> None:
        self._exit(1)

    @contextmanager
    def for_vectors(self, elements: int) -> Iterator[None]:
        """Marks a block of products of a matrix and a vector: it has as many threads as pay, if they rest afterwards.

        Args:
            elements: of the matrix.
        """
        number = max(1, elements // _SHARE) if self._rests else 1
        self._enter(number)
        try:
            yield
        finally:
            self._exit(number)

    def _enter(self, number: int) -> None:
        get, set = self._threads
        with self._lock, self._mutex:
            now = get()
            if not self._inside:
                self._before = max(now, int(self._lowered[0]))
            self._inside.append(number)
            if number < now:
                set(number)

    def _exit(self, number: int) -> None:
        get, set = self._threads
        with self._lock, self._mutex:
            self._inside.remove(number)
            allowed = min((self._before, *self._inside))
            if allowed != get():
                set(allowed)

    @property
    def addresses(self) -> tuple[int, int]:
        """Those of the functions that tell and set the number of threads."""
        get, set = (self._function(f"{verb}_num_threads") or _other_library()[verb] for verb in ("get", "set"))
        return ctypes.cast(get, ctypes.c_void_p).value or 0, ctypes.cast(set, ctypes.c_void_p).value or 0

    def share(self, mutex: Mutex, before: Any) -> None:
        """Change the number of threads beside compiled programs, which do so too.

        Args:
            mutex: held by who does.
            before: its first number is how many threads there were before one of them took one thread, or 0.
        """
        self._mutex, self._lowered = mutex, before

    def _after_fork(self) -> None:
        """Threads of the parent are not within, nor do they run programs."""
        before = self._before if self._inside else int(self._lowered[0])
        if before:
            self._threads[1](before)
        self._forget()

    def let_rest(self) -> None:
        """Have its threads fall asleep soon after a call, unless the environment decides: then several are used.

        They are ended for that, and begun again by the next call that needs them. Where there are other threads in
        Python, which may be in the middle of such a call, all is left as it is.
        """
        self._rests = bool(os.environ.get(_AWAKE))
        read, end = (self._linked(name) for name in ("openblas_read_env", "blas_thread_shutdown_"))
        if self._rests or read is None or end is None or threading.active_count() > 1:
            return
        os.environ[_AWAKE] = str(_CYCLES)
        try:
            read()
        finally:
            del os.environ[_AWAKE]
        end()
        self._rests = True

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
        names = [f"{prefix}openblas_{name}{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]
        return next(filter(None, map(self._linked, names)), None)

    def _linked(self, name: str) -> Any:
        return getattr(self._library, name, None)

    @functools.cached_property
    def _library(self) -> Any:
        try:
            return ctypes.PyDLL(self._find().__file__)  # looks into what it is linked with, too
        except (AttributeError, OSError):  # another NumPy, or another system
            return None


@functools.cache  # never given back: their addresses are in use
def _other_library() -> Mapping[str, Any]:
    """What tells and sets the number of threads of a library of which nothing is known."""
    one, ignored = ctypes.CFUNCTYPE(ctypes.c_int), ctypes.CFUNCTYPE(None, ctypes.c_int)
    return {"get": one(lambda: 1), "set": ignored(lambda number: None)}


def _features() -> Mapping[str, bool]:
    """What NumPy found out about the processor; nothing where it does not tell."""
    found: Mapping[str, bool] = getattr(_of_numpy(), "__cpu_features__", {})
    return found


def _of_numpy() -> Any:
    return sys.modules.get("numpy._core._multiarray_umath")


OF_NUMPY = OpenBLAS(_of_numpy)
OF_NUMPY.let_rest()
OF_SCIPY = OpenBLAS(functools.partial(extension, "scipy.linalg.cython_lapack"))
