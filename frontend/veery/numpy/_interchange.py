"""Arrays that other libraries offer through DLPack, without copies where their memory permits."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from veery import _dispatch
from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of
from veery.numpy._creation import asarray, place
from veery.numpy._promotion import Array


class _Tensor(ctypes.Structure):
    """The beginning of DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


_UNSIGNED, _BFLOAT = 1, 4  # DLDataTypeCode


class _Integers:
    """What a bfloat16 array exports, as integers of 16 bits: NumPy knows no bfloat16 in DLPack."""

    def __init__(self, x: Any):
        self._x = x

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._x.__dlpack__()  # without a version: it holds a DLManagedTensor, which begins with the DLTensor
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
        if (tensor.type_code, tensor.bits, tensor.lanes) != (_BFLOAT, 16, 1):
            raise TypeError(
                f"from_dlpack: arrays have no dtype for DLPack's type code {tensor.type_code} of {tensor.bits} bits; "
                "convert the array to another dtype first."
            )
        tensor.type_code = _UNSIGNED
        return capsule


def _numpy_view(x: Any) -> np.ndarray:
    try:
        return np.from_dlpack(x)
    except (RuntimeError, BufferError):  # a dtype that NumPy does not know, or memory that is not given
        return np.from_dlpack(_Integers(x)).view(dtypes.bfloat16)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array that another library offers through DLPack.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`.
        device: where to put it.
        copy: whether the memory must be copied (True) or shared (False). By default it is shared if it is contiguous
            and 64-byte aligned; the owner of shared memory must not write to it.

    Raises:
        TypeError: x does not speak DLPack.
        ValueError: with `copy=False`, the memory cannot be shared.

    >>> from_dlpack(np.arange(3, dtype="int32"))
    Array([0, 1, 2], dtype=int32)
    """
    if isinstance(x, ArrayImpl):
        return place(x, device)
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError("The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods.")
    value = _numpy_view(x)
    dtype = dtypes.dtype_of(value)
    if copy:
        return asarray(value, device=device)
    array = place(_dispatch.put(value, ShapedArray(value.shape, dtype), copy=False), device)
    if copy is False and value.size and not np.may_share_memory(value, np.asarray(array)):
        raise ValueError(
            f"from_dlpack: with copy=False the memory of {aval_of(value).str_short()} must be shared, but it is not "
            "contiguous, not aligned to 64 bytes, of another dtype than arrays may have here, or on another device. "
            "Let it be copied with copy=None."
        )
    return array
