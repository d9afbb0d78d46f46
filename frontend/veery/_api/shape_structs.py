"""Shapes and dtypes that stand for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core import dtypes, tree
from veery._core.avals import ShapedArray, aval_of, aval_rules
from veery._core.memory import space_of
from veery._core.refs import AbstractRef


class ShapeDtypeStruct:
    """The shape and dtype of an array, without an array.

    Args:
        shape: tuple of ints, or of symbolic dimensions (see `veery.export.symbolic_shape`).
        dtype: the dtype.
        weak_type: whether the dtype gives way to others.
        sharding: how the array is laid out over devices.
        is_ref: whether it stands for a reference to such an array.

    >>> import veery
    >>> veery.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "weak_type", "sharding", "is_ref")

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False, sharding: Any = None, is_ref: bool = False
    ):
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.weak_type = weak_type
        self.sharding = sharding
        self.is_ref = is_ref

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array, a scalar or anything with a shape and a dtype."""
        aval = aval_of(x)
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=getattr(x, "sharding", None))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return ShapedArray(self.shape, self.dtype).size

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The struct with some of shape, dtype, weak_type, sharding and is_ref replaced."""
        fields = {name: getattr(self, name) for name in self.__slots__} | changes
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type, self.sharding, self.is_ref))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        place = f", sharding={self.sharding}" if self.sharding is not None else ""
        ref = ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{place}{weak}{ref})"


ShapeDtypeStruct.__module__ = "veery"  # its public place, which programs print


def _aval(struct: ShapeDtypeStruct) -> Any:
    dtype = dtypes.canonicalize_dtype(struct.dtype, allow_extended_dtype=True)
    space = space_of(getattr(struct.sharding, "memory_kind", None))
    array = ShapedArray(struct.shape, dtype, struct.weak_type, sharding=struct.sharding, memory_space=space)
    return AbstractRef(array) if struct.is_ref else array


aval_rules[ShapeDtypeStruct] = _aval


def as_struct(x: Any) -> Any:
    """A type, or anything else with a shape and a dtype, as what stands for an argument of it; the rest unchanged."""
    if type(x) is ShapedArray:
        return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type, sharding=x.divided)
    return ShapeDtypeStruct(x.shape, x.dtype) if hasattr(x, "shape") and hasattr(x, "dtype") else x


def out_struct(avals: Sequence[ShapedArray], out_tree: Any, shardings: Sequence[Any] | None = None) -> Any:
    """A pytree of ShapeDtypeStructs."""
    places = [a.divided for a in avals] if shardings is None else shardings
    structs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=s) for a, s in zip(avals, places)]
    return tree.tree_unflatten(out_tree, structs)
