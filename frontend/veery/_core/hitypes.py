"""Types of the user's: values that stand for several arrays, and may be written to.

While a function is staged they are variables of their own types. Before it is compiled each becomes the values that it
is made of, its *low* values (see `veery._transforms.high`). What a mutable value holds may change its structure, as a
dictionary gains keys: that is its quasi-dynamic data (QDD), which is known at each point of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from veery._core.avals import AbstractValue, aval_rules
from veery._core.trace import Tracer


class QuasiDynamicData:
    """What is known of a mutable value at a point of a trace."""


class MutableQuasiDynamicData:
    """The quasi-dynamic data of a variable: at first, and at the point that the trace has come to."""

    def __init__(self, val: Any):
        self.init_val = val
        self.cur_val = val

    def update(self, val: Any) -> None:
        """What holds from here on."""
        self.cur_val = val


@dataclass(frozen=True)
class AvalQDD:
    """The type of a mutable value and what it holds."""

    aval: Any
    qdd: Any
    is_high = True
    has_qdd = True


@dataclass(frozen=True)
class AvalMutableQDD:
    """The type of a mutable operand, and the quasi-dynamic data that the operation may update."""

    aval: Any
    mutable_qdd: MutableQuasiDynamicData


class HiType(AbstractValue):
    """The base of the user's types of immutable values.

    A subclass defines equality and hashing, `lo_ty` (the types of the low values), `lower_val` (the low values of a
    value) and `raise_val` (the value of low values). To be differentiated it defines `to_tangent_aval`, and of types
    that are tangents `vspace_zero` and `vspace_add`.
    """

    is_high = True

    def __hash__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} defines no __hash__")

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError(f"{type(self).__name__} defines no __eq__")

    def lo_ty(self) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no raise_val")

    def to_tangent_aval(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no to_tangent_aval")

    def vspace_zero(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no vspace_zero")

    def vspace_add(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no vspace_add")


class MutableHiType(AbstractValue):
    """The base of the user's types of values that are written to.

    A subclass defines equality and hashing, `lo_ty_qdd`, `new_from_loval`, `read_loval` and `update_from_loval`, each
    of which takes the quasi-dynamic data first.
    """

    is_high = True
    has_qdd = True

    def __hash__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} defines no __hash__")

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError(f"{type(self).__name__} defines no __eq__")

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no lo_ty_qdd")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no new_from_loval")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no read_loval")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no update_from_loval")

    def to_tangent_aval(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no to_tangent_aval")


class MappingSpec:
    """The base of what says how values of a type of the user's are mapped."""


class HiPspec:
    """The base of what says how values of a type of the user's are divided among devices."""


class AllowedEffects:
    """The types of effects that are let pass somewhere; all are, here."""

    def add_type(self, effect_type: type) -> None:
        """Let effects of a type pass."""


control_flow_allowed_effects = AllowedEffects()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Let values of a class be arguments and results of transformed functions.

    Args:
        val_cls: the class.
        typeof_fn: from a value to its type, a `HiType` or `MutableHiType`.
    """
    aval_rules[val_cls] = typeof_fn


def cur_qdd(x: Any) -> Any:
    """What a mutable value holds at this point of the trace, as its type knows it."""
    if isinstance(x, Tracer):
        return x._trace.qdd_of(x).cur_val  # type: ignore[attr-defined]
    return x.cur_qdd()


def with_qdd(aval: Any, x: Any) -> Any:
    """The type of a value with what it holds, if it may be written to."""
    return AvalQDD(aval, cur_qdd(x)) if aval.has_qdd else aval


def low_types(aval: Any, qdd: Any) -> Sequence[Any]:
    """The types of the low values of a value."""
    result: Sequence[Any] = aval.lo_ty_qdd(qdd) if aval.has_qdd else aval.lo_ty()
    return result
