"""Elementwise arithmetic and elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.registry import rule
from veery_lowering.stablehlo import Value


def _direct(name: str, builder: Callable[..., Value]) -> None:
    """Lower a primitive to one operation."""
    rule(name)(lambda ctx, *operands, **_: builder(*operands))


# What IREE computes rightly for every dtype that the primitive accepts.
for _name, _builder in {
    "neg": hlo.negate,
    "sign": hlo.sign,
    "floor": hlo.floor,
    "ceil": hlo.ceil,
    "is_finite": hlo.is_finite,
    "abs": hlo.abs,
    "real": hlo.real,
    "imag": hlo.imag,
    "complex": hlo.complex,
    "sub": hlo.subtract,
    "div": hlo.divide,
    "rem": hlo.remainder,
    "nextafter": hlo.next_after,
    "population_count": hlo.popcnt,
    "clz": hlo.count_leading_zeros,
    "not": hlo.not_,
    "and": hlo.and_,
    "or": hlo.or_,
    "xor": hlo.xor,
    "shift_left": hlo.shift_left,
    "shift_right_logical": hlo.shift_right_logical,
    "shift_right_arithmetic": hlo.shift_right_arithmetic,
    "mulhi": hlo.mulhi,
    "exp": hlo.exponential,
    "log": hlo.log,
    "log1p": hlo.log_plus_one,
    "expm1": hlo.exponential_minus_one,
    "sin": hlo.sine,
    "cos": hlo.cosine,
    "tan": hlo.tan,
    "asin": hlo.asin,
    "acos": hlo.acos,
    "atan": hlo.atan,
    "atan2": hlo.atan2,
    "sinh": hlo.sinh,
    "cosh": hlo.cosh,
    "tanh": hlo.tanh,
    "asinh": hlo.asinh,
    "acosh": hlo.acosh,
    "atanh": hlo.atanh,
    "sqrt": hlo.sqrt,
    "rsqrt": hlo.rsqrt,
    "cbrt": hlo.cbrt,
    "logistic": hlo.logistic,
    "max": hlo.maximum,
    "min": hlo.minimum,
}.items():
    _direct(_name, _builder)


def add(a: Value, b: Value) -> Value:
    """a + b. IREE computes bool addition as XOR; it is OR."""
    return hlo.or_(a, b) if hlo.dtype_of(a) == np.bool_ else hlo.add(a, b)


def multiply(a: Value, b: Value) -> Value:
    """a * b, of bool: AND."""
    return hlo.and_(a, b) if hlo.dtype_of(a) == np.bool_ else hlo.multiply(a, b)


_direct("add", add)
_direct("add_any", add)
_direct("mul", multiply)
_direct("square", lambda x: multiply(x, x))


@rule("round")
def _round(ctx: Any, x: Value, *, rounding_method: Any) -> Value:
    """rounding_method: 0 is away from zero on ties, 1 to even."""
    return hlo.round_nearest_even(x) if int(rounding_method) == 1 else hlo.round_nearest_afz(x)


@rule("conj")
def _conj(ctx: Any, x: Value, **_: Any) -> Value:
    if hlo.dtype_of(x).kind != "c":
        return hlo.complex(x, hlo.full_like(x, 0))
    return hlo.complex(hlo.real(x), hlo.negate(hlo.imag(x)))


def integer_power(x: Value, y: int) -> Value:
    """x ** y by squaring, exact for integers; a reciprocal at the end where y < 0."""
    result, factor, rest = None, x, abs(y)
    while rest:
        if rest & 1:
            result = factor if result is None else multiply(result, factor)
        rest >>= 1
        factor = multiply(factor, factor) if rest else factor
    if result is None:
        return hlo.full_like(x, 1)
    return hlo.divide(hlo.full_like(x, 1), result) if y < 0 else result


@rule("integer_pow")
def _integer_pow(ctx: Any, x: Value, *, y: int) -> Value:
    return integer_power(x, y)


@rule("pow")
def _pow(ctx: Any, x: Value, y: Value) -> Value:
    return hlo.power(x, hlo.convert(y, hlo.dtype_of(x)))
