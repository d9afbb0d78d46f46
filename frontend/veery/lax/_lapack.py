"""LAPACK and BLAS, called in place for each matrix of stacks, by the addresses in SciPy's interface for Cython.

SciPy's functions for one matrix make arrays of their own, which a loop in Python puts together: 200 factorisations of
12x12 take 1000 us by them, 290 by these, of which LAPACK takes 190.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat
from typing import Any

import numpy as np

from veery._core.host import processors
from veery.lax._reference import aligned_empty
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


def threads_for(*shape: int) -> AbstractContextManager[None]:
    """Marks a block in which LAPACK works on matrices of a size: where they are small, in this thread alone."""
    return _alone if shape[-1] * shape[-2] <= _ALONE else _any_number


_BLOCK = 1 << 24  # terms for each thread: fewer are not worth waking another


def product(a: np.ndarray, b: np.ndarray, threads: int = 1) -> np.ndarray:
    """The product of two matrices that are not empty.

    Several threads take a block of rows or columns each, by BLAS in one thread. BLAS's own threads wait for each other
    in loops: beside one other process on two cores a product of 600x600 takes 38 ms by them, by these 3.2. Two blocks
    for each, in turn, take 1.15 of the time, there too: for each block BLAS lays the whole other matrix out anew.
    """
    (m, k), n, dtype = a.shape, b.shape[1], a.dtype
    out = aligned_empty((m, n), dtype)
    by_rows = m >= n
    length = max(m, n)
    count = min(length, threads) if m * n * k >= _BLOCK * threads else 1
    (b, letter_b, step_b), (a, letter_a, step_a) = _with_steps(b), _with_steps(a)

    # rows in sequence are columns of the transposed matrix, which is the product of the others in turn
    def multiply(block: int) -> None:
        begin, end = (i * length // count for i in (block, block + 1))
        if by_rows:
            left, right, part = a[begin:end] if letter_a == b"N" else a[:, begin:end], b, out[begin:end]
            sizes = n, end - begin
        else:
            left, right, part = a, b[:, begin:end] if letter_b == b"N" else b[begin:end], out[:, begin:end]
            sizes = end - begin, m
        numbers = one(dtype), right, step_b, left, step_a, _zero(dtype), part, n
        call("gemm", dtype, 1, letter_b, letter_a, *sizes, k, *numbers)

    with _alone:
        in_turn(multiply, count, threads)
    return out


def in_turn(function: Callable[[int], None], count: int, threads: int) -> None:
    """Call a function with each number below a count, by so many threads, of which this is one."""
    numbers = iter(range(count))

    def take() -> None:
        for i in numbers:
            function(i)

    others = [_pool().submit(take) for _ in range(min(count, threads) - 1)]
    take()
    for other in others:
        if not other.cancel():
            other.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(processors(), "veery-product")


def _with_steps(x: np.ndarray) -> tuple[np.ndarray, bytes, int]:
    """A matrix whose rows are in sequence, whether it is transposed to BLAS, and the elements from row to row."""
    if x.T.flags.c_contiguous and not x.flags.c_contiguous:
        return x.T, b"T", x.shape[0]
    return np.ascontiguousarray(x), b"N", x.shape[1]


@functools.cache
def _zero(dtype: np.dtype[Any]) -> Any:
    return shared(np.zeros(1, dtype))


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
    found = extension("scipy.linalg.cython_lapack").__pyx_capi__
    capsule = found[name] if name in found else extension("scipy.linalg.cython_blas").__pyx_capi__[name]
    form = ctypes.PYFUNCTYPE if short else ctypes.CFUNCTYPE
    routine: Callable[..., None] = form(None, *[ctypes.c_void_p] * typed)(_address_of(capsule, _name_of(capsule)))
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


_WITH_AVX512 = frozenset(("skylakex", "cooperlake", "sapphirerapids"))  # names of OpenBLAS's code

_alone = _Alone()
_any_number = nullcontext()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone.forget)
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _features() -> Mapping[str, bool]:
    """What NumPy found out about the processor; nothing where it does not tell."""
    found: Mapping[str, bool] = getattr(sys.modules.get("numpy._core._multiarray_umath"), "__cpu_features__", {})
    return found


@functools.cache
def has_wide_vectors() -> bool:
    """Whether OpenBLAS computes with vectors as wide as the processor has.

    It takes code for AVX2 on processors that it does not know to have AVX-512, by their names or in virtual machines:
    1024x1024 of float32 take 9.5 ms by that on two cores of a Zen 5, and 5.6 by IREE's code.
    """
    tell = _of_openblas("get_corename")
    if tell is None or not _features().get("AVX512F"):
        return True
    tell.restype = ctypes.c_char_p
    return tell().decode().lower() in _WITH_AVX512


@functools.cache
def _thread_functions() -> tuple[Callable[[], int], Callable[[int], None]]:
    """What tells and sets the number of OpenBLAS's threads; of another library it tells of one."""
    get, set = (_of_openblas(f"{verb}_num_threads") for verb in ("get", "set"))
    if get is None or set is None:
        return lambda: 1, lambda number: None
    set.restype = None
    return get, set


def _of_openblas(name: str) -> Any:
    """A function of the OpenBLAS that SciPy is linked with; None of another library."""
    library = ctypes.PyDLL(extension("scipy.linalg.cython_lapack").__file__)  # looks into what it is linked with, too
    return getattr(library, f"scipy_openblas_{name}", None) or getattr(library, f"openblas_{name}", None)
