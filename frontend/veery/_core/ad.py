"""The vocabulary of derivatives: symbolic zeros, undefined primals, and the forms that a jvp rule may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core import provided
from veery._core.avals import AbstractValue, ShapedArray, aval_of
from veery._core.tree_registry import register_pytree_node


class Zero:
    """A tangent or cotangent known to be zero without being computed."""

    __slots__ = ("aval",)
    aval: Any

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    @staticmethod
    def from_primal_value(x: Any) -> Zero:
        return Zero(aval_of(x).to_tangent_aval())

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class UndefinedPrimal:
    """The place of an operand in which a linear operation is being transposed."""

    __slots__ = ("aval",)
    aval: Any

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


# Without leaves: functions under vmap may be given them and return them.
register_pytree_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))
register_pytree_node(UndefinedPrimal, lambda operand: ((), operand.aval), lambda aval, _: UndefinedPrimal(aval))


def is_undefined_primal(x: Any) -> bool:
    return type(x) is UndefinedPrimal


class _JvpForm:
    """A jvp rule that follows from the operation being linear in some sense."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


LINEAR = _JvpForm("LINEAR")  # jointly linear in all operands
MULTILINEAR = _JvpForm("MULTILINEAR")  # linear in each operand separately
NONDIFFERENTIABLE = _JvpForm("NONDIFFERENTIABLE")  # the tangent of the output is zero


def zeros_like_aval(aval: ShapedArray) -> Any:
    """An array of zeros of that aval, staged into the current trace."""
    if aval.is_high:
        return aval.vspace_zero()  # type: ignore[attr-defined]
    return provided.operations.zeros(aval)


def instantiate_zeros(tangent: Any) -> Any:
    """The tangent itself, or an array of zeros for a symbolic Zero."""
    return zeros_like_aval(tangent.aval) if type(tangent) is Zero else tangent


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents or cotangents, either of which may be a symbolic Zero."""
    if type(a) is Zero:
        return b
    if type(b) is Zero:
        return a
    aval = aval_of(a)
    if aval.is_high:
        return aval.vspace_add(a, b)  # type: ignore[attr-defined]
    return provided.operations.add(a, b)


def sum_tangents(aval: AbstractValue, terms: Sequence[Any]) -> Any:
    """The sum of the terms that are not None, or Zero(aval)."""
    total: Any = Zero(aval)
    for term in terms:
        if term is not None:
            total = add_tangents(total, term)
    return total
