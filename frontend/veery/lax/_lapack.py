"""LAPACK and BLAS, called in place for each matrix of stacks, by the addresses in SciPy's interface for Cython.

SciPy's functions for one matrix make arrays of their own, which a loop in Python puts together: 200 factorisations of
12x12 take 1000 us by them, 290 by these, of which LAPACK takes 190.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import Any

import numpy as np

from veery.lax._scipy_extensions import extension

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}

# OpenBLAS's threads wait for each other in loops: where something else has the processor, as IREE's workers do, a QR of
# 150x100 took 400 us in one thread and up to 500 ms in two. Matrices of more elements than this have several threads.
_ALONE = 1 << 18

# For matrices of up to so many elements other Python threads have to wait: to let them run costs up to 5 ms a matrix.
_SHORT = 1 << 10


def call(name: str, dtype: np.dtype[Any], count: int, *arguments: Any) -> None:
    """Call a routine for each matrix of stacks.

    Args:
        name: without the letter of its dtype; where that of complex numbers has another name, "orgqr/ungqr".
        dtype: of the matrices.
        count: the number of matrices.
        arguments: in order, numbers, letters as bytes, and arrays, C-contiguous stacks of `count` parts; a work space
            for all is `shared`.
    """
    short = max([x.size for x in arguments if type(x) is np.ndarray]) <= count * _SHORT
    routine = _routine(name, dtype.char, short)
    if count == 1:
        routine(*map(_pointer, arguments))
        return
    for _ in map(routine, *[_pointers(x, count) for x in arguments]):
        pass


def shared(array: Any) -> Any:
    """An array that is a routine's work space for all matrices."""
    return ctypes.byref(ctypes.c_char.from_buffer(array))


IGNORED = shared(np.zeros(1, np.int32))  # for what a routine tells of its success


@functools.cache
def one(dtype: np.dtype[Any]) -> Any:
    """The number 1."""
    return shared(np.ones(1, dtype))


def threads_for(*shape: int) -> AbstractContextManager[None]:
    """Marks a block in which LAPACK works on matrices of a size: where they are small, in this thread alone."""
    return _alone if shape[-1] * shape[-2] <= _ALONE else nullcontext()


def _pointer(x: Any) -> Any:
    if type(x) is np.ndarray:  # which tells of its address in 1 us, to be `shared` takes 0.4
        return shared(x) if x.flags.writeable else ctypes.c_void_p(x.ctypes.data)
    return _constant(x) if type(x) in (int, bytes) else x


@functools.lru_cache(4096)
def _constant(x: int | bytes) -> Any:
    return ctypes.c_char_p(x) if isinstance(x, bytes) else ctypes.byref(ctypes.c_int(x))


def _pointers(x: Any, count: int) -> Iterator[Any]:
    if type(x) is not np.ndarray:
        return repeat(_pointer(x))
    start, step = x.ctypes.data, x.nbytes // count
    return map(ctypes.c_void_p, range(start, start + count * step, step))


_holding = ctypes.PYFUNCTYPE(None)
_releasing = ctypes.CFUNCTYPE(None)
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@functools.cache
def _routine(name: str, char: str, short: bool) -> Callable[..., None]:
    """A routine for a dtype, during which other Python threads run unless it is a short one."""
    real, _, complex = name.partition("/")
    name = _LETTERS[char] + (complex if complex and char in "FD" else real)
    found = extension("scipy.linalg.cython_lapack").__pyx_capi__
    capsule = found[name] if name in found else extension("scipy.linalg.cython_blas").__pyx_capi__[name]
    routine: Callable[..., None] = (_holding if short else _releasing)(_address_of(capsule, _name_of(capsule)))
    return routine


class _Alone:
    """Keeps OpenBLAS to one thread while anybody is within; with other libraries it does nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def __enter__(self) -> None:
        get, set = _thread_functions()
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
                _thread_functions()[1](self._before)

    def forget(self) -> None:
        """In the child after a fork: threads of the parent are not within."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 1
            self.__exit__()


_alone = _Alone()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone.forget)


@functools.cache
def _thread_functions() -> tuple[Callable[[], int], Callable[[int], None]]:
    """What tells and sets the number of OpenBLAS's threads; of another library it tells of one."""
    library = ctypes.PyDLL(extension("scipy.linalg.cython_lapack").__file__)  # looks into what it is linked with, too
    for form in ("scipy_openblas_{}_num_threads", "openblas_{}_num_threads"):
        get, set = (getattr(library, form.format(verb), None) for verb in ("get", "set"))
        if get is not None and set is not None:
            set.restype = None
            return get, set
    return lambda: 1, lambda number: None
