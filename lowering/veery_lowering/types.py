"""NumPy dtypes and avals to MLIR types, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from veery_lowering.mlir import ir
from veery_lowering.spelling import SPELLINGS, dtype_name

_DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in SPELLINGS}
# What the runtime's buffers cannot hold: `'hal.element_type' op unsupported element type` at the entry function. They
# enter and leave as their bits, a byte each.
AS_BITS = frozenset(("float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4", "float4_e2m1fn"))
# Sub-byte integers are one byte an element, as in NumPy: IREE 3.13 does not compile slices, comparisons and loops of
# those that share bytes. Where one is computed, it is wrapped to its bits (emit/narrow.py).
SUB_BYTE = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
# Floats of 4 bits are their bits, a byte each: IREE 3.13 joins wrong parts of them, and slices with strides, folds and
# loops of them do not compile.
FLOAT4 = "float4_e2m1fn"
_HELD_AS = {**SUB_BYTE, FLOAT4: "uint8"}


def physical_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of the elements: itself, or what a key dtype is made of (uint64), or bool for float0."""
    found = np.dtype(getattr(dtype, "physical", dtype))
    return found if found.itemsize else np.dtype(bool)  # float0, in which elements carry nothing


def element_type(dtype: Any) -> ir.Type:
    """The MLIR element type of a NumPy, ml_dtypes or key dtype, in the current context.

    Raises TypeError for a dtype that StableHLO does not have.
    """
    return ir.Type.parse(_spelling(physical_dtype(dtype)))


@cache  # NumPy puts the name of a dtype together each time: 3 us
def _spelling(dtype: np.dtype) -> str:
    spelling = SPELLINGS.get(_HELD_AS.get(dtype.name, dtype.name))
    if spelling is None:
        known = ", ".join(SPELLINGS)
        raise TypeError(f"element_type: dtype {dtype.name} has no StableHLO element type; known are {known}")
    return spelling


def tensor_type(shape: Sequence[int], dtype: Any) -> ir.RankedTensorType:
    """The MLIR tensor type of a shape and a dtype; sizes that are no ints are dynamic."""
    sizes = [int(n) if is_static(n) else ir.ShapedType.get_dynamic_size() for n in shape]
    return ir.RankedTensorType.get(sizes, element_type(dtype))


def is_static(size: Any) -> bool:
    """Whether an entry of a shape is an integer, rather than a size that is known at run time."""
    return isinstance(size, (int, np.integer))


def aval_type(aval: Any) -> ir.RankedTensorType:
    """The MLIR tensor type of a ShapedArray."""
    return tensor_type(aval.shape, aval.dtype)


def numpy_dtype(type_: ir.Type) -> np.dtype:
    """The NumPy dtype of an MLIR element type or tensor type."""
    return _DTYPES[dtype_name(type_)]


@cache
def entry_dtype(name: str) -> str:
    """The dtype in which an array of dtype `name` enters and leaves a program: itself, or one of 8 bits.

    Integers below a byte enter as numbers, floats that IREE's buffers do not have as bits. Raises TypeError for a dtype
    that StableHLO does not have.
    """
    if name not in SPELLINGS:
        raise TypeError(f"veery: arrays of dtype {name} cannot enter a compiled program: StableHLO does not have it")
    return "uint8" if name in AS_BITS else SUB_BYTE.get(name, name)
