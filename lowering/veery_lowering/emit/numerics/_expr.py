"""Formulas over MLIR values written with Python's operators, so that numerics read as they do in a paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.stablehlo import Value

Operand: TypeAlias = "Expr | float | int | bool | np.generic"

_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


class Expr:
    """A tensor value with arithmetic; Python scalars become constants of the tensor's shape and dtype."""

    __slots__ = ("value",)

    def __init__(self, value: Value):
        self.value = value

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return hlo.dtype_of(self.value)

    def constant(self, value: Operand, dtype: Any = None) -> Expr:
        """`value` as a tensor of this one's shape (and dtype)."""
        return value if isinstance(value, Expr) else Expr(hlo.full_like(self.value, value, dtype))

    def convert(self, dtype: Any) -> Expr:
        """Converted by value (floats to integers: only within range)."""
        return Expr(hlo.convert(self.value, dtype))

    def bitcast(self, dtype: Any) -> Expr:
        """The bits as another dtype of equal width."""
        return Expr(hlo.bitcast_convert(self.value, dtype))

    @property
    def bits(self) -> Expr:
        """The bits as a signed integer."""
        return self.bitcast(_SIGNED[self.dtype.itemsize])

    def _binary(self, builder: Any, other: Operand, swapped: bool = False) -> Expr:
        right = self.constant(other)
        return Expr(builder(right.value, self.value) if swapped else builder(self.value, right.value))

    def __add__(self, other: Operand) -> Expr:
        return self._binary(hlo.add, other)

    def __radd__(self, other: Operand) -> Expr:
        return self._binary(hlo.add, other, swapped=True)

    def __sub__(self, other: Operand) -> Expr:
        return self._binary(hlo.subtract, other)

    def __rsub__(self, other: Operand) -> Expr:
        return self._binary(hlo.subtract, other, swapped=True)

    def __mul__(self, other: Operand) -> Expr:
        return self._binary(hlo.multiply, other)

    def __rmul__(self, other: Operand) -> Expr:
        return self._binary(hlo.multiply, other, swapped=True)

    def __truediv__(self, other: Operand) -> Expr:
        return self._binary(hlo.divide, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return self._binary(hlo.divide, other, swapped=True)

    def __and__(self, other: Operand) -> Expr:
        return self._binary(hlo.and_, other)

    def __or__(self, other: Operand) -> Expr:
        return self._binary(hlo.or_, other)

    def __xor__(self, other: Operand) -> Expr:
        return self._binary(hlo.xor, other)

    def __lshift__(self, other: Operand) -> Expr:
        return self._binary(hlo.shift_left, other)

    def __rshift__(self, other: Operand) -> Expr:
        """Arithmetic for signed integers, logical for unsigned ones."""
        unsigned = self.dtype.kind == "u"
        return self._binary(hlo.shift_right_logical if unsigned else hlo.shift_right_arithmetic, other)

    def __neg__(self) -> Expr:
        return Expr(hlo.negate(self.value))

    def __abs__(self) -> Expr:
        return Expr(hlo.abs(self.value))

    def __invert__(self) -> Expr:
        return Expr(hlo.not_(self.value))

    def _compare(self, other: Operand, direction: str) -> Expr:
        return Expr(hlo.compare(self.value, self.constant(other).value, direction))

    def __lt__(self, other: Operand) -> Expr:
        return self._compare(other, "LT")

    def __le__(self, other: Operand) -> Expr:
        return self._compare(other, "LE")

    def __gt__(self, other: Operand) -> Expr:
        return self._compare(other, "GT")

    def __ge__(self, other: Operand) -> Expr:
        return self._compare(other, "GE")

    def equals(self, other: Operand) -> Expr:
        """Elementwise equality (`==` stays Python's)."""
        return self._compare(other, "EQ")

    def differs(self, other: Operand) -> Expr:
        """Elementwise inequality."""
        return self._compare(other, "NE")


def where(condition: Expr, on_true: Operand, on_false: Operand) -> Expr:
    """`on_true` where the condition holds; at least one of the two is a tensor."""
    like = on_true if isinstance(on_true, Expr) else on_false
    if not isinstance(like, Expr):
        raise TypeError("where: expected a tensor as one of the choices")
    return Expr(hlo.select(condition.value, like.constant(on_true).value, like.constant(on_false).value))


def sqrt(x: Expr) -> Expr:
    """The square root."""
    return Expr(hlo.sqrt(x.value))


def floor(x: Expr) -> Expr:
    """The largest integer not above x."""
    return Expr(hlo.floor(x.value))


def round_even(x: Expr) -> Expr:
    """The nearest integer, ties to even."""
    return Expr(hlo.round_nearest_even(x.value))


def maximum(x: Expr, y: Operand) -> Expr:
    """The greater one, NaN if either is."""
    return Expr(hlo.maximum(x.value, x.constant(y).value))


def minimum(x: Expr, y: Operand) -> Expr:
    """The smaller one, NaN if either is."""
    return Expr(hlo.minimum(x.value, x.constant(y).value))


def clip(x: Expr, low: float, high: float) -> Expr:
    """x within [low, high]; NaN stays."""
    return Expr(hlo.clamp(hlo.full(low, (), x.dtype), x.value, hlo.full(high, (), x.dtype)))


def is_nan(x: Expr) -> Expr:
    """Whether x is NaN."""
    return x.differs(x)


def sign_bit(x: Expr) -> Expr:
    """Whether the sign bit is set (of -0.0 too)."""
    return x.bits < 0


def copy_sign(magnitude: Expr, sign: Expr) -> Expr:
    """|magnitude| with the sign bit of `sign`."""
    top = np.iinfo(sign.bits.dtype).min
    return ((magnitude.bits & ~top) | (sign.bits & top)).bitcast(magnitude.dtype)


def flip_sign(x: Expr, condition: Expr) -> Expr:
    """-x where the condition holds."""
    return where(condition, -x, x)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """c[0] + c[1] x + c[2] x**2 + ... by Horner's rule."""
    result = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def leading_bits(x: Expr, count: int) -> Expr:
    """x with all but the `count` leading bits of its significand cleared, so that products of such values are exact.

    A mask, unlike Dekker's splitting, does not depend on whether the compiler contracts a * b + c.
    """
    drop = np.finfo(x.dtype).nmant + 1 - count
    return (x.bits & ~((1 << drop) - 1)).bitcast(x.dtype)
