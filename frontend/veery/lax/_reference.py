"""How references are written: NumPy functions wrapped so that they round once and do not warn."""

from __future__ import annotations

import contextvars
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core import dtypes

_silent = contextvars.copy_context()
_silent.run(np.seterr, all="ignore")


def silently(function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """What a function of NumPy's gives, without its floating-point warnings: 0.2 us, of which `errstate` takes 0.8."""
    return _silent.copy().run(function, *args, **params)


def quiet(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The function without NumPy's floating-point warnings, always with an array as its result."""

    @functools.wraps(function)
    def reference(*operands: Any, **params: Any) -> np.ndarray:
        return np.asarray(silently(function, *operands, **params))

    return reference


def in_double(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The function computed in float64 or complex128 and rounded once to the dtype of its first operand.

    A complex result of real operands is not expected; a real result of complex ones has the dtype of their parts.
    """

    @functools.wraps(function)
    def reference(*operands: Any, **params: Any) -> np.ndarray:
        return silently(rounded, [np.asarray(x) for x in operands], params)

    def rounded(arrays: list[np.ndarray], params: dict[str, Any]) -> Any:
        out = np.asarray(function(*map(widen, arrays), **params))
        dtype = arrays[0].dtype
        return out.astype(dtype if out.dtype.kind == "c" else dtypes.to_floating_dtype(dtype))

    return reference


def widen(x: np.ndarray) -> np.ndarray:
    """The array in float64, or complex128."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def bit_width(dtype: Any) -> int:
    """The number of bits of an integer dtype."""
    return dtypes.iinfo(dtype).bits


def as_bits(x: np.ndarray) -> np.ndarray:
    """The bits of integers, in the low end of uint64."""
    mask = np.uint64((1 << bit_width(x.dtype)) - 1)
    return x.astype(np.uint64 if x.dtype == np.uint64 else np.int64).view(np.uint64) & mask


_ALIGNMENT = 64
_SMALL = 1 << 16


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised array, which devices take over instead of copying it (200x200 floats: 25 us) if it is large."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes <= _SMALL:
        return np.empty(shape, dtype)
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + nbytes].view(dtype).reshape(shape)


def aligned_copy(x: np.ndarray) -> np.ndarray:
    """The array in such memory of its own, its rows in sequence."""
    if x.nbytes <= _SMALL:
        return np.array(x, order="C")
    out = aligned_empty(x.shape, x.dtype)
    out[...] = x
    return out
