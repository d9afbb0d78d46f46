"""Evaluation of single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.absent import attributes as _attributes
from veery._core.avals import aval_rules
from veery._core.primitive import Primitive

pytype_aval_mappings = aval_rules


def _canonical(x: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(x)
    return array.astype(dtypes.canonicalize_dtype(array.dtype), copy=False)


# What makes arrays of values of a type. A type of pytype_aval_mappings needs no more than NumPy's protocol for arrays;
# libraries (TensorFlow Probability) copy the entry of NumPy's arrays for theirs.
canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = {np.ndarray: _canonical}


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply an operation to concrete values."""
    return primitive.run(*args, **params)


__getattr__, __dir__ = _attributes(__name__)
