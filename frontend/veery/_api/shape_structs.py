"""Shapes and dtypes that stand for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core import dtypes, tree
from veery._core.avals import ShapedArray, aval_of, aval_rules


class ShapeDtypeStruct:
    """The shape and dtype of an array, without an array.

    Args:
        shape: tuple of ints, or of symbolic dimensions (see `veery.export.symbolic_shape`).
        dtype: the dtype.
        weak_type: whether the dtype gives way to others.
        sharding: accepted for compatibility.

    >>> import veery
    >>> veery.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "weak_type", "sharding")

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False, sharding: Any = None):
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.weak_type = weak_type
        self.sharding = sharding

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array, a scalar or anything with a shape and a dtype."""
        aval = aval_of(x)
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return ShapedArray(self.shape, self.dtype).size

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The struct with some of shape, dtype and weak_type replaced."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type} | changes
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return (self.shape, self.dtype, self.weak_type) == (other.shape, other.dtype, other.weak_type)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


aval_rules[ShapeDtypeStruct] = lambda s: ShapedArray(
    s.shape, dtypes.canonicalize_dtype(s.dtype, allow_extended_dtype=True), s.weak_type
)


def out_struct(avals: Sequence[ShapedArray], out_tree: Any) -> Any:
    """A pytree of ShapeDtypeStructs."""
    return tree.tree_unflatten(out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])
