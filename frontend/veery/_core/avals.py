"""Abstract values: what a tracer knows of the value it stands for."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from veery._core import dtypes
from veery._core.config import config
from veery._core.dimensions import DimExpr
from veery._core.memory import MemorySpace
from veery._core.mesh import EMPTY_ABSTRACT_MESH, context
from veery._core.partition_spec import PartitionSpec, axes_of
from veery._core.sharding import NamedSharding

_NOTHING: frozenset[Any] = frozenset()
_DEVICE = MemorySpace.Device

Shape = tuple[int, ...]  # with a DimExpr where a size is symbolic


class AbstractValue:
    """Base of all abstract values."""

    __slots__ = ("__weakref__",)
    varying: frozenset[Any] = frozenset()
    divided: NamedSharding | None = None
    memory_space = _DEVICE
    is_high = False  # a type of the user's, which is made of others (see veery._core.hitypes)
    has_qdd = False  # such a type of values that are written to

    def lo_ty(self) -> list[Any]:
        """The types that values are made of."""
        return [self]

    def lower_val(self, value: Any) -> list[Any]:
        """What a value is made of."""
        return [value]

    def raise_val(self, *values: Any) -> Any:
        """The value that is made of these."""
        (value,) = values
        return value

    def normalize(self) -> Any:
        return self

    def to_ct_aval(self) -> Any:
        """The type of cotangents."""
        return self.to_tangent_aval()

    def str_short(self) -> str:
        raise TypeError(f"{type(self).__name__} has no short form")

    def to_tangent_aval(self) -> AbstractValue:
        raise TypeError(f"{type(self).__name__} has no tangent space")


class aval_method:
    """A method of values, which their abstract value has: a function of the value and the arguments."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun.__func__ if isinstance(fun, staticmethod) else fun

    def of(self, value: Any) -> Callable[..., Any]:
        """The method of a value."""
        return functools.partial(self.fun, value)


class aval_property:
    """A property of values, which their abstract value has: a function of the value."""

    def __init__(self, fget: Callable[[Any], Any]):
        self.fget = fget


@dataclass(frozen=True)
class ManualAxisType:
    """Along which axes of a mesh a value varies, within `shard_map`.

    Attributes:
        varying: axes along which it may differ.
        unreduced: axes along which it is still to be summed.
        reduced: axes along which it was summed.
    """

    varying: frozenset[Any] = _NOTHING
    unreduced: frozenset[Any] = _NOTHING
    reduced: frozenset[Any] = _NOTHING


class ShapedArray(AbstractValue):
    """An array of known shape, dtype and weak type.

    Instances are interned: equal avals are the same object, so comparing and hashing them (the key of each
    jitted call is a tuple of avals) costs what it costs for any Python object, not a tuple of shape and dtype.
    """

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "size", "is_numeric", "varying", "divided", "memory_space")
    shape: Shape
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    is_numeric: bool  # devices hold the very elements: not of keys, and not of dtypes that they do not have
    varying: frozenset[Any]  # within `shard_map`, the mesh axes along which the value may differ
    divided: NamedSharding | None  # by which Explicit axes of a mesh; None where by none
    memory_space: MemorySpace  # the memory that it is in

    _interned: WeakValueDictionary[tuple[Any, ...], ShapedArray] = WeakValueDictionary()

    def __new__(
        cls,
        shape: Any,
        dtype: Any,
        weak_type: bool = False,
        varying: frozenset[Any] = _NOTHING,
        divided: NamedSharding | None = None,
        memory_space: MemorySpace = _DEVICE,
        *,
        sharding: Any = None,
    ) -> ShapedArray:
        if sharding is not None:
            divided = explicit_part(sharding, len(shape))
        key = (shape, dtype, weak_type, varying, divided, memory_space)
        try:
            return cls._interned[key]
        except (KeyError, TypeError):
            return cls._make(shape, dtype, weak_type, varying, divided, memory_space)

    @classmethod
    def _make(
        cls,
        shape: Any,
        dtype: Any,
        weak_type: bool,
        varying: frozenset[Any],
        divided: NamedSharding | None,
        memory_space: MemorySpace,
    ) -> ShapedArray:
        shape = tuple(d if type(d) is DimExpr else int(d) for d in shape)
        dtype = dtypes.as_dtype(dtype)
        key = (shape, dtype, bool(weak_type), varying, divided, memory_space)
        self = cls._interned.get(key)
        if self is None:
            self = object.__new__(cls)
            set_field: Callable[[str, Any], None] = lambda name, value: object.__setattr__(self, name, value)
            set_field("shape", shape)
            set_field("dtype", dtype)
            set_field("weak_type", bool(weak_type))
            set_field("ndim", len(shape))
            set_field("size", math.prod(shape))
            set_field("is_numeric", dtypes.stored(dtype) == dtype)
            set_field("varying", varying)
            set_field("divided", divided)
            set_field("memory_space", memory_space)
            self = cls._interned.setdefault(key, self)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ShapedArray is immutable: cannot set {name!r}; use .update({name}=...)")

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.varying, self.divided, self.memory_space)

    def update(self, **changes: Any) -> ShapedArray:
        """The aval with some of its fields replaced. Of another shape it is divided by no axes, unless that is said."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "varying": self.varying,
            "memory_space": self.memory_space,
        }
        if "shape" not in changes:
            fields["divided"] = self.divided
        return ShapedArray(**(fields | changes))

    @property
    def sharding(self) -> NamedSharding:
        """How the dimensions are divided, as far as types say: over Explicit axes of a mesh."""
        return self.divided or NamedSharding(
            context().abstract or EMPTY_ABSTRACT_MESH, PartitionSpec(*[None] * self.ndim)
        )

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """Along which axes of a mesh the value varies, within `shard_map`."""
        return ManualAxisType(varying=self.varying)

    mat = manual_axis_type

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """The aval of tangents and cotangents: itself for inexact dtypes, float0 for the others."""
        if dtypes.issubdtype(self.dtype, np.inexact):
            return self
        return ShapedArray(self.shape, dtypes.float0, varying=self.varying, memory_space=self.memory_space)

    at_least_vspace = to_tangent_aval

    def str_short(self, short_dtypes: bool = True) -> str:
        full = "float0" if self.dtype == dtypes.float0 else str(self.dtype)
        name = dtypes.short_dtype_name(self.dtype) if short_dtypes else full
        axes = ",".join(sorted(map(str, self.varying)))
        varies = f"{{V:{axes if len(self.varying) == 1 else f'({axes})'}}}" if self.varying else ""
        memory = "" if self.memory_space is _DEVICE else f"<{self.memory_space.name.lower()}>"
        return f"{name}{memory}[{','.join(self._sizes())}]{varies}"

    def _sizes(self) -> list[str]:
        if self.divided is None:
            return list(map(str, self.shape))
        entries = [f"@({','.join(map(str, e))})" if isinstance(e, tuple) else f"@{e}" for e in self.divided.spec]
        return [f"{size}{'' if entry == '@None' else entry}" for size, entry in zip(self.shape, entries)]

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short(short_dtypes=False)}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short(short_dtypes=False)}{weak})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]


def explicit_part(sharding: Any, ndim: int) -> NamedSharding | None:
    """What a sharding says of Explicit axes, which the types of arrays tell; None where it is nothing."""
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit_axes:
        return None
    explicit = sharding.mesh.explicit_axes
    entries = [tuple(axis for axis in axes_of(entry) if axis in explicit) for entry in sharding.spec]
    entries += [()] * (ndim - len(entries))
    if not any(entries):
        return None
    return NamedSharding(sharding.mesh.abstract_mesh, PartitionSpec(*entries))


class AbstractToken(AbstractValue):
    """The value of an ordering token."""

    def str_short(self) -> str:
        return "Tok"


abstract_token = AbstractToken()

# type -> function from a value to its aval; arrays and tracers add themselves
aval_rules: dict[type, Callable[[Any], Any]] = {}


def aval_of(x: Any) -> ShapedArray:
    """The aval of an array, tracer, NumPy array or scalar, or Python scalar.

    Raises:
        TypeError: x is none of these.
    """
    aval = maybe_aval_of(x)
    if aval is None:
        raise TypeError(f"Value {x!r} with type {type(x)} is not a valid JAX type")
    return aval


def maybe_aval_of(x: Any) -> ShapedArray | None:
    """Like aval_of, with None for what is not an array type."""
    rule = aval_rules.get(type(x))
    if rule is None:
        rule = next((aval_rules[cls] for cls in type(x).__mro__ if cls in aval_rules), None)
    if rule is not None:
        result: ShapedArray | None = rule(x)
        return result
    if hasattr(x, "__jax_array__"):
        return aval_of(x.__jax_array__())
    return None


def values_of(x: Any, dtype: Any) -> np.ndarray:
    """The values of what has an aval, by NumPy.

    Raises:
        TypeError: it is the type of an array.
    """
    try:
        return np.asarray(x, dtype)
    except TypeError:
        if hasattr(x, "__array__") or not hasattr(x, "shape"):
            raise
        raise TypeError(
            f"{x!r} of type {type(x)} is not a valid JAX type: it says what an array is like, and has no values. Pass "
            "an array; `jax.eval_shape(f, x)` and `jax.jit(f).lower(x)` trace a function without values."
        ) from None


def check_operand(name: str, position: int, x: Any) -> AbstractValue:
    """The aval of an operand; TypeError where it is no array."""
    aval = maybe_aval_of(x)
    if aval is None:
        raise TypeError(
            f"Error interpreting argument to {name} as a JAX value. The problematic value is of type {type(x)} "
            f"and was passed to {name} at position {position}."
        )
    return aval


def refuse_masked(x: np.ndarray | np.generic) -> None:
    """Raise ValueError for a masked array: nothing here would see its mask."""
    # Without numpy.ma, which takes time to import, there is none.
    if type(x) is not np.ndarray and isinstance(x, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise ValueError(
            "numpy masked arrays are not supported as direct inputs to JAX functions. Use arr.filled() to convert the "
            "value to a standard numpy array."
        )


def _numpy_aval(x: np.ndarray | np.generic) -> ShapedArray:
    refuse_masked(x)
    dtypes.check_valid_dtype(x.dtype)
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))


@functools.cache
def _scalar_aval(kind: type, x64: bool) -> ShapedArray:
    return ShapedArray((), dtypes.dtype_of(kind()), weak_type=kind is not bool)


def _scalar_rule(kind: type) -> Callable[[Any], ShapedArray]:
    return lambda x: _scalar_aval(kind, config.jax_enable_x64)


aval_rules[np.ndarray] = _numpy_aval
aval_rules[np.generic] = _numpy_aval
aval_rules[DimExpr] = _scalar_rule(int)
for scalar in (bool, int, float, complex):
    aval_rules[scalar] = _scalar_rule(scalar)
