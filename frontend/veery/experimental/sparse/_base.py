"""The class of all sparse formats."""

from __future__ import annotations

import abc
import math
from typing import Any

from veery._core.tree import tree_leaves

Array = Any


class JAXSparse(abc.ABC):
    """A sparse array: arrays of what is stored, and a shape. A pytree of these arrays."""

    data: Any
    shape: tuple[int, ...]
    # NumPy's arrays leave operations with these to them.
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    size = property(lambda self: math.prod(self.shape))
    ndim = property(lambda self: len(self.shape))
    T = property(lambda self: self.transpose())

    def __init__(self, args: Any, *, shape: Any):
        self.shape = tuple(map(int, shape))

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """How many elements are stored (of each element of a batch)."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """The array with its zeros."""

    @abc.abstractmethod
    def transpose(self, axes: Any = None) -> Any:
        """The array with its axes reversed, or in another order."""

    def __repr__(self) -> str:
        try:
            shape = ", ".join(map(str, self.shape))
            extra = "".join(f", {k}={v}" for k in ("n_batch", "n_dense") if (v := getattr(self, k, 0)))
            text = f"{type(self).__name__}({self.dtype.name}[{shape}], nse={self.nse}{extra})"
        except (AttributeError, IndexError):  # a pytree of something else than arrays, or of other arrays
            text = f"{type(self).__name__}(<invalid>)"
        return text

    __str__ = __repr__

    def __len__(self) -> int:
        return self.shape[0]

    def block_until_ready(self) -> Any:
        """Wait until the arrays are computed; returns self."""
        for leaf in tree_leaves(self):
            leaf.block_until_ready()
        return self
