"""LAPACK and BLAS, called in place for each matrix of stacks, by the addresses in SciPy's interface for Cython.

SciPy's functions for one matrix make arrays of their own, which a loop in Python puts together: 200 factorisations of
12x12 take 1000 us by them, 290 by these, of which LAPACK takes 190.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import Any

import numpy as np

from veery.lax._openblas import OF_SCIPY, Mutex
from veery.lax._scipy_extensions import extension

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}

# Matrices of more elements than this have several of OpenBLAS's threads.
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
    if count != 1:
        _call_each(name, dtype, count, arguments)
        return
    largest, given = 0, []
    for x in arguments:
        kind = type(x)
        if kind is np.ndarray:
            if x.size > largest:
                largest = x.size
            given.append(_address(x))
        else:
            given.append(_constant(x)[0] if kind is int or kind is bytes else x)
    _routine(name, dtype.char, 0, largest <= _SHORT)(*given)


def _call_each(name: str, dtype: np.dtype[Any], count: int, arguments: Sequence[Any]) -> None:
    short = max([x.size for x in arguments if type(x) is np.ndarray]) <= count * _SHORT
    routine = _routine(name, dtype.char, len(arguments), short)
    for _ in map(routine, *[_addresses(x, count) for x in arguments]):
        pass


def shared(array: Any) -> Any:
    """An array that is a routine's work space for all matrices."""
    return ctypes.byref(ctypes.c_char.from_buffer(array))


IGNORED = shared(np.zeros(1, np.int32))  # for what a routine tells of its success


@functools.cache
def one(dtype: np.dtype[Any]) -> Any:
    """The number 1."""
    return shared(np.ones(1, dtype))


_any_number = nullcontext()


def threads_for(*shape: int) -> AbstractContextManager[None]:
    """Marks a block in which LAPACK works on matrices of a size: where they are small, in this thread alone."""
    return OF_SCIPY if shape[-1] * shape[-2] <= _ALONE else _any_number


_of_array = ctypes.c_void_p.from_address
_DATA = object.__basicsize__  # where an array has the address of its elements: NumPy tells it in 1 us, this takes 0.1


def _address(x: np.ndarray) -> Any:
    """A pointer to the elements of an array, as long as that lives."""
    return _of_array(id(x) + _DATA)


if _address(probe := np.zeros(1)).value != probe.ctypes.data:  # another Python or NumPy

    def _address(x: np.ndarray) -> Any:
        return ctypes.c_void_p(x.ctypes.data)


@functools.cache  # never given back: addresses of them are in use
def _constant(x: int | bytes) -> tuple[Any, int]:
    """A pointer to a number or a letter, and its address."""
    array = np.frombuffer(x, np.uint8).copy() if isinstance(x, bytes) else np.array([x], np.int32)
    return shared(array), array.ctypes.data


def _addresses(x: Any, count: int) -> Iterable[Any]:
    """Of the parts of a stack; of what is the same for all, as often as one likes."""
    if type(x) is not np.ndarray:
        return repeat(_constant(x)[1] if type(x) in (int, bytes) else x)
    start, step = x.ctypes.data, x.nbytes // count
    return range(start, start + count * step, step)


@functools.cache
def table(places: Any) -> np.ndarray:
    """The table by which compiled programs call routines, for as long as the process lives.

    Args:
        places: the module veery_lowering.addresses, which says what is where.
    """
    made = np.zeros(places.FIRST + len(places.ROUTINES), np.int64)
    made[places.GET_THREADS], made[places.SET_THREADS] = OF_SCIPY.addresses
    made[places.FIRST :] = [_address_of_routine(name) for name in places.ROUTINES]
    mutex = Mutex(made[places.MUTEX : places.FIRST].ctypes.data)
    made[places.LOCK], made[places.UNLOCK] = mutex.addresses
    OF_SCIPY.share(mutex, made[places.BEFORE :])

    def begin() -> None:
        """Threads of the parent neither call in the child nor hold the mutex."""
        made[[places.CALLING, places.BEFORE]] = 0
        mutex.begin()

    begin()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)
    return made


_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@functools.cache
def _routine(name: str, char: str, typed: int, short: bool) -> Callable[..., None]:
    """A routine for a dtype, during which other Python threads run unless it is a short one.

    Where it is called often, the number of its arguments is given, which are addresses: 200 calls take 200 us, of which
    LAPACK has 160, and 300 with pointers without types.
    """
    real, _, complex = name.partition("/")
    name = _LETTERS[char] + (complex if complex and char in "FD" else real)
    form = ctypes.PYFUNCTYPE if short else ctypes.CFUNCTYPE
    routine: Callable[..., None] = form(None, *[ctypes.c_void_p] * typed)(_address_of_routine(name))
    return routine


def _address_of_routine(name: str) -> int:
    found = extension("scipy.linalg.cython_lapack").__pyx_capi__
    capsule = found[name] if name in found else extension("scipy.linalg.cython_blas").__pyx_capi__[name]
    return int(_address_of(capsule, _name_of(capsule)))
