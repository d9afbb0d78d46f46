"""Types for annotations of functions on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Union

import numpy as np

from veery._core.array import Array


class SupportsDType(Protocol):
    """An object with a dtype, such as `veery.numpy.float32`."""

    @property
    def dtype(self) -> np.dtype: ...


# What array functions accept: arrays, NumPy's arrays and scalars, Python's numbers (not lists).
ArrayLike = Union[Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]  # noqa: UP007
# What names a dtype: "float32", numpy.float32, veery.numpy.float32, float, a dtype.
DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007
Shape = Sequence[int]
