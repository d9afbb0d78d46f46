"""What values that are written in a module say of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery_lowering.mlir import ir, maker
from veery_lowering.stablehlo._build import Value, dtype_of


def is_constant(value: Value) -> bool:
    """Whether a value is written in the module."""
    return maker(value) == "stablehlo.constant"


def splat_attribute(value: Value) -> Any:
    """The attribute of the element that a constant consists of; None of other values.

    None of complex ones too, whose elements the bindings cannot read.
    """
    if not is_constant(value) or dtype_of(value).kind == "c":
        return None
    attribute = ir.DenseElementsAttr(value.owner.attributes["value"])
    return attribute.get_splat_value() if attribute.is_splat else None


def splat_of(value: Value) -> np.ndarray[Any, Any] | None:
    """The element that a constant consists of, an array of rank 0; None where `splat_attribute` is."""
    attribute, dtype = splat_attribute(value), dtype_of(value)
    if attribute is None:
        return None
    element = attribute.value
    return np.array(element % 2 ** (8 * dtype.itemsize) if dtype.kind == "u" else element, dtype)


def elements_of(value: Value) -> np.ndarray[Any, Any] | None:
    """The elements of a constant of integers, or of float32 or float64; None of other values."""
    if not is_constant(value):
        return None
    dtype = dtype_of(value)
    if dtype.kind not in "iu" and dtype.name not in ("float32", "float64"):
        return None
    kind = ir.DenseFPElementsAttr if dtype.kind == "f" else ir.DenseIntElementsAttr
    return np.array(kind(value.owner.attributes["value"]), dtype)
