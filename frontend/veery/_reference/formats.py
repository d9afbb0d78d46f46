"""How values are held, and what a dtype's numbers can be.

The rule, in one place: the reference evaluation holds real numbers of every width in float64, complex ones in
complex128, and integers, bools and random keys in their own dtypes. A number is rounded to its own dtype only where an
operation is about its digits: conversions to integers, bitcasts, `nextafter`, and conversions to other floats of what
is known exactly. So a value of a narrow format may have digits that the format has not; what compiled programs do is
within the samples' errors: they may round such a value for some of its uses and compute on with all its digits in
others (XLA's do too), so each use has a rounding error of its own (`Interpreter.used`). Numbers beyond the range of
their dtype are infinite (or NaN where the dtype has no infinity).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from veery._core import dtypes
from veery._core.array import ArrayImpl


class Format(NamedTuple):
    """What a floating dtype (that of the parts of a complex one) can hold.

    Attributes:
        dtype: the dtype of numbers or parts.
        eps: the distance from 1 to the next number.
        tiny: the smallest normal number.
        largest: the largest finite number.
        exact: a dtype; what it holds is taken for a result without rounding. For float64, in which rounding cannot be
            seen, it is float32: numbers with so few digits seldom come from rounding.
    """

    dtype: np.dtype
    eps: float
    tiny: float
    largest: float
    exact: np.dtype


@functools.cache
def format_of(dtype: Any) -> Format | None:
    """The format of a floating or complex dtype, None for others."""
    if isinstance(dtype, dtypes.ExtendedDType) or not dtypes.issubdtype(dtype, np.inexact):
        return None
    part = np.dtype(dtypes.to_floating_dtype(dtype))
    limits = ml_dtypes.finfo(part)
    exact = np.dtype(np.float32) if part == np.float64 else part
    return Format(part, float(limits.eps), float(limits.smallest_normal), float(limits.max), exact)


def physical(dtype: Any) -> Any:
    """The dtype of a dtype's elements in NumPy."""
    return getattr(dtype, "physical", dtype)


def held(x: Any, dtype: Any) -> np.ndarray:
    """A value of some dtype as the reference holds it."""
    array = x.to_numpy() if isinstance(x, ArrayImpl) else x
    with np.errstate(all="ignore"):
        array = np.asarray(array, physical(dtype))
    if format_of(dtype) is None:
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def rounded(x: np.ndarray, dtype: Any) -> np.ndarray:
    """A held value in its own dtype."""
    if x.dtype == physical(dtype):
        return x
    with np.errstate(all="ignore"):
        return x.astype(physical(dtype))


def parts(x: np.ndarray) -> np.ndarray:
    """The real numbers that an array of floats consists of: a complex array has one more axis."""
    return x if x.dtype.kind != "c" else np.ascontiguousarray(x).view(np.float64).reshape(*x.shape, 2)


def of_parts(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The inverse of `parts`."""
    return x if dtype.kind != "c" else np.ascontiguousarray(x).view(np.complex128)[..., 0]
