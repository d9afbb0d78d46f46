"""The random choices of one program: equal for equal seeds, whatever the sizes of its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

SIZES = (1, 2, 3, 5, 7, 13, 17, 33, 64, 100, 129, 257)


class Draw:
    """Choices and data from one seed.

    Choices and data come from two streams: a program drawn again with a smaller `largest` has the same structure.

    Args:
        seed: what the streams are made from.
        largest: no size is drawn above it.
        half: whether the program may compute in float16 and bfloat16.
        wide: whether it may compute in 64 bits.
    """

    def __init__(self, seed: Sequence[int], largest: int = SIZES[-1], half: bool = True, wide: bool = True):
        self._choices = np.random.default_rng([*seed, 0])
        self._data = np.random.default_rng([*seed, 1])
        self._largest = largest
        chance = self._choices.random()
        self.float = "float32"
        if wide and chance < 0.12:
            self.float = "float64"
        elif half and chance > 0.92:
            self.float = "bfloat16"
        elif half and chance > 0.84:
            self.float = "float16"

    @property
    def wide(self) -> bool:
        """Whether the program computes in 64 bits."""
        return self.float == "float64"

    @property
    def complex(self) -> str:
        """The complex type that goes with the program's floats."""
        return "complex128" if self.wide else "complex64"

    @property
    def int(self) -> str:
        """The integer type that goes with the program's floats."""
        return "int64" if self.wide else "int32"

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return options[int(self._choices.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self._choices.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self._choices.integers(low, high + 1))

    def subset(self, options: Sequence[Any]) -> list[Any]:
        """Some of the options, in their order; one at least."""
        kept = self._choices.random(len(options)) < 0.5
        kept[int(self._choices.integers(len(options)))] = True
        return [x for x, keep in zip(options, kept) if keep]

    def permutation(self, n: int) -> list[int]:
        return [int(i) for i in self._choices.permutation(n)]

    def size(self, limit: int = 64, least: int = 1) -> int:
        """An odd size between two bounds; the bound of the whole program may lower it, but not below `least`."""
        fitting = [s for s in SIZES if least <= s <= limit] or [least]
        return max(least, min(self.pick(*fitting), self._largest))

    def normal(self, *shape: int, dtype: str | None = None) -> np.ndarray:
        """Normally distributed floats or complex numbers, of the program's type unless told otherwise."""
        dtype = dtype or self.float
        x = self._data.normal(size=shape)
        if dtype.startswith("complex"):
            x = x + 1j * self._data.normal(size=shape)
        return np.asarray(x, as_dtype(dtype))

    def positive(self, *shape: int, dtype: str | None = None) -> np.ndarray:
        """Floats between 0.2 and 2.2."""
        return np.asarray(self._data.random(size=shape) * 2 + 0.2, as_dtype(dtype or self.float))

    def integers(self, low: int, high: int, *shape: int, dtype: str | None = None) -> np.ndarray:
        """Integers from low to high, the latter excluded."""
        return self._data.integers(low, high, size=shape).astype(as_dtype(dtype or self.int))

    def bits(self, *shape: int, dtype: str = "uint32") -> np.ndarray:
        """Integers of all values of a type."""
        info = np.iinfo(dtype)
        return self._data.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)

    def mask(self, *shape: int, share: float = 0.6) -> np.ndarray:
        """Truth values."""
        return np.asarray(self._data.random(size=shape) < share)

    def order(self, n: int) -> np.ndarray:
        """A permutation, as data."""
        return self._data.permutation(n).astype(self.int)

    def definite(self, n: int) -> np.ndarray:
        """A symmetric positive definite matrix, well conditioned."""
        a = self._data.normal(size=(n, n))
        return np.asarray(a @ a.T / n + np.eye(n), as_dtype(self.float))

    def direction(self, like: np.ndarray) -> np.ndarray:
        """A random array of the shape and kind of another, in double precision."""
        x = self._data.normal(size=like.shape)
        return x + 1j * self._data.normal(size=like.shape) if like.dtype.kind == "c" else x


def as_dtype(name: str) -> np.dtype:
    """The dtype of a name, bfloat16 among them."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def is_inexact(dtype: Any) -> bool:
    """Whether numbers of a type have derivatives."""
    return ml_dtypes_kind(dtype) in "fc"


def ml_dtypes_kind(dtype: Any) -> str:
    """The kind of a dtype, with bfloat16 among the floats."""
    dtype = np.dtype(dtype)
    return "f" if dtype == np.dtype(ml_dtypes.bfloat16) else dtype.kind
