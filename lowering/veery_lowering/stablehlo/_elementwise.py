"""Builders of elementwise StableHLO and CHLO operations. Operands of one call have equal shapes."""

from __future__ import annotations

import re
from typing import Any

from veery_lowering.mlir import ir
from veery_lowering.stablehlo._build import (
    Value,
    dtype_of,
    inferred,
    integer,
    one,
    parse,
    shape_of,
)
from veery_lowering.types import element_type, tensor_type


def abs(x: Value) -> Value:
    """|x|; the modulus (a real number) of a complex one."""
    return inferred("stablehlo.abs", [x])


def negate(x: Value) -> Value:
    """-x; integers wrap."""
    return one("stablehlo.negate", [x], x.type)


def sign(x: Value) -> Value:
    """-1, -0, 0, 1 or NaN; x / |x| of a complex number."""
    return one("stablehlo.sign", [x], x.type)


def floor(x: Value) -> Value:
    """The largest integer that is not above x."""
    return one("stablehlo.floor", [x], x.type)


def ceil(x: Value) -> Value:
    """The smallest integer that is not below x."""
    return one("stablehlo.ceil", [x], x.type)


def round_nearest_even(x: Value) -> Value:
    """The nearest integer, ties to even."""
    return one("stablehlo.round_nearest_even", [x], x.type)


def round_nearest_afz(x: Value) -> Value:
    """The nearest integer, ties away from zero."""
    return one("stablehlo.round_nearest_afz", [x], x.type)


def is_finite(x: Value) -> Value:
    """True where x is neither infinite nor NaN."""
    return inferred("stablehlo.is_finite", [x])


def exponential(x: Value) -> Value:
    """e**x."""
    return one("stablehlo.exponential", [x], x.type)


def exponential_minus_one(x: Value) -> Value:
    """e**x - 1."""
    return one("stablehlo.exponential_minus_one", [x], x.type)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return one("stablehlo.log", [x], x.type)


def log_plus_one(x: Value) -> Value:
    """log(1 + x)."""
    return one("stablehlo.log_plus_one", [x], x.type)


def logistic(x: Value) -> Value:
    """1 / (1 + e**-x)."""
    return one("stablehlo.logistic", [x], x.type)


def sqrt(x: Value) -> Value:
    """The square root."""
    return one("stablehlo.sqrt", [x], x.type)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x)."""
    return one("stablehlo.rsqrt", [x], x.type)


def cbrt(x: Value) -> Value:
    """The cube root."""
    return one("stablehlo.cbrt", [x], x.type)


def sine(x: Value) -> Value:
    """sin(x)."""
    return one("stablehlo.sine", [x], x.type)


def cosine(x: Value) -> Value:
    """cos(x)."""
    return one("stablehlo.cosine", [x], x.type)


def tan(x: Value) -> Value:
    """tan(x)."""
    return one("stablehlo.tan", [x], x.type)


def tanh(x: Value) -> Value:
    """tanh(x)."""
    return one("stablehlo.tanh", [x], x.type)


def not_(x: Value) -> Value:
    """Bitwise (of bool: logical) complement."""
    return one("stablehlo.not", [x], x.type)


def popcnt(x: Value) -> Value:
    """The number of set bits."""
    return one("stablehlo.popcnt", [x], x.type)


def count_leading_zeros(x: Value) -> Value:
    """The number of leading zero bits."""
    return one("stablehlo.count_leading_zeros", [x], x.type)


def real(x: Value) -> Value:
    """The real part."""
    return inferred("stablehlo.real", [x])


def imag(x: Value) -> Value:
    """The imaginary part."""
    return inferred("stablehlo.imag", [x])


def complex(re: Value, im: Value) -> Value:
    """re + i im."""
    return inferred("stablehlo.complex", [re, im])


def conjugate(x: Value) -> Value:
    """The conjugate of complex numbers."""
    return complex(real(x), negate(imag(x)))


def add(a: Value, b: Value) -> Value:
    """a + b. IREE computes XOR on bool where StableHLO means OR: use `or_` there."""
    return one("stablehlo.add", [a, b], a.type)


def subtract(a: Value, b: Value) -> Value:
    """a - b."""
    return one("stablehlo.subtract", [a, b], a.type)


def multiply(a: Value, b: Value) -> Value:
    """a * b."""
    return one("stablehlo.multiply", [a, b], a.type)


def divide(a: Value, b: Value) -> Value:
    """a / b; integers truncate towards zero, division by zero gives all ones."""
    return one("stablehlo.divide", [a, b], a.type)


def remainder(a: Value, b: Value) -> Value:
    """a - b * trunc(a / b), with the sign of a."""
    return one("stablehlo.remainder", [a, b], a.type)


def maximum(a: Value, b: Value) -> Value:
    """The greater one; NaN wins."""
    return one("stablehlo.maximum", [a, b], a.type)


def minimum(a: Value, b: Value) -> Value:
    """The smaller one; NaN wins."""
    return one("stablehlo.minimum", [a, b], a.type)


def power(a: Value, b: Value) -> Value:
    """a ** b as IREE expands it: exp(b log a), hence wrong for negative a; the rule of `pow` guards it."""
    return one("stablehlo.power", [a, b], a.type)


def atan2(a: Value, b: Value) -> Value:
    """The angle of (b, a)."""
    return one("stablehlo.atan2", [a, b], a.type)


def and_(a: Value, b: Value) -> Value:
    """Bitwise and."""
    return one("stablehlo.and", [a, b], a.type)


def or_(a: Value, b: Value) -> Value:
    """Bitwise or."""
    return one("stablehlo.or", [a, b], a.type)


def xor(a: Value, b: Value) -> Value:
    """Bitwise exclusive or."""
    return one("stablehlo.xor", [a, b], a.type)


def shift_left(a: Value, b: Value) -> Value:
    """a << b."""
    return one("stablehlo.shift_left", [a, b], a.type)


def shift_right_arithmetic(a: Value, b: Value) -> Value:
    """a >> b, filled with the sign."""
    return one("stablehlo.shift_right_arithmetic", [a, b], a.type)


def shift_right_logical(a: Value, b: Value) -> Value:
    """a >> b, filled with zeros."""
    return one("stablehlo.shift_right_logical", [a, b], a.type)


def compare(a: Value, b: Value, direction: str, compare_type: str | None = None) -> Value:
    """Compare elementwise.

    Args:
        a, b: tensors of one type.
        direction: EQ, NE, LT, LE, GT or GE.
        compare_type: FLOAT, TOTALORDER, SIGNED or UNSIGNED; by default what the element type implies.
    """
    attributes = {"comparison_direction": parse(f"#stablehlo<comparison_direction {direction}>")}
    if compare_type is not None:
        attributes["compare_type"] = parse(f"#stablehlo<comparison_type {compare_type}>")
    return one("stablehlo.compare", [a, b], tensor_type(shape_of(a), bool), attributes)


def direction_of(comparison: Any) -> str:
    """The direction of a `compare`: EQ, NE, LT, LE, GT or GE."""
    found = re.search(r"\b(EQ|NE|GE|GT|LE|LT)\b", str(comparison.attributes["comparison_direction"]))
    assert found
    return found[1]


def select(predicate: Value, on_true: Value, on_false: Value) -> Value:
    """`on_true` where the predicate (bool, of their shape or rank 0) holds, else `on_false`."""
    return one("stablehlo.select", [predicate, on_true, on_false], on_true.type)


def clamp(low: Value, x: Value, high: Value) -> Value:
    """min(max(x, low), high); the bounds have x's shape or rank 0."""
    return one("stablehlo.clamp", [low, x, high], x.type)


def convert(x: Value, dtype: Any) -> Value:
    """Convert the elements; x itself if it has that dtype. Out-of-range floats do not saturate: see rules/convert."""
    result = tensor_type(shape_of(x), dtype)
    return x if result == x.type else one("stablehlo.convert", [x], result)


def bitcast_convert(x: Value, dtype: Any) -> Value:
    """Reinterpret the bits; a narrower dtype adds a last dimension, a wider one consumes it."""
    old, new = width_of(dtype_of(x)), width_of(dtype)
    shape = shape_of(x)
    if new < old:
        shape = (*shape, old // new)
    elif new > old:
        shape = shape[:-1]
    result = tensor_type(shape, dtype)
    return x if result == x.type else one("stablehlo.bitcast_convert", [x], result)


def width_of(dtype: Any) -> int:
    """How many bits an element has."""
    element = element_type(dtype)
    if isinstance(element, ir.ComplexType):
        return 2 * _bits_of_type(element.element_type)
    return _bits_of_type(element)


def _bits_of_type(element: ir.Type) -> int:
    return int(getattr(element, "width"))  # noqa: B009  each of its classes has one, and their base has none


def reduce_precision(x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """Round to a narrower float format and back."""
    attributes = {"exponent_bits": integer(exponent_bits, 32), "mantissa_bits": integer(mantissa_bits, 32)}
    return one("stablehlo.reduce_precision", [x], x.type, attributes)


def uniform_convert(x: Value, result: ir.Type) -> Value:
    """Convert elements to an element type given as an MLIR tensor type."""
    return one("stablehlo.convert", [x], result)


# CHLO: the client dialect, expanded by IREE's input pipeline.


def asin(x: Value) -> Value:
    """Arc sine."""
    return one("chlo.asin", [x], x.type)


def acos(x: Value) -> Value:
    """Arc cosine."""
    return one("chlo.acos", [x], x.type)


def atan(x: Value) -> Value:
    """Arc tangent."""
    return one("chlo.atan", [x], x.type)


def sinh(x: Value) -> Value:
    """Hyperbolic sine."""
    return one("chlo.sinh", [x], x.type)


def cosh(x: Value) -> Value:
    """Hyperbolic cosine."""
    return one("chlo.cosh", [x], x.type)


def asinh(x: Value) -> Value:
    """Inverse hyperbolic sine."""
    return one("chlo.asinh", [x], x.type)


def acosh(x: Value) -> Value:
    """Inverse hyperbolic cosine."""
    return one("chlo.acosh", [x], x.type)


def atanh(x: Value) -> Value:
    """Inverse hyperbolic tangent."""
    return one("chlo.atanh", [x], x.type)


def erf(x: Value) -> Value:
    """The error function."""
    return one("chlo.erf", [x], x.type)


def erfc(x: Value) -> Value:
    """1 - erf(x)."""
    return one("chlo.erfc", [x], x.type)


def erf_inv(x: Value) -> Value:
    """The inverse of erf."""
    return one("chlo.erf_inv", [x], x.type)


def lgamma(x: Value) -> Value:
    """log |gamma(x)|."""
    return one("chlo.lgamma", [x], x.type)


def digamma(x: Value) -> Value:
    """The derivative of lgamma."""
    return one("chlo.digamma", [x], x.type)


def polygamma(n: Value, x: Value) -> Value:
    """The n-th derivative of digamma."""
    return one("chlo.polygamma", [n, x], x.type)


def zeta(x: Value, q: Value) -> Value:
    """The Hurwitz zeta function."""
    return one("chlo.zeta", [x, q], x.type)


def bessel_i1e(x: Value) -> Value:
    """Exponentially scaled modified Bessel function of order 1."""
    return one("chlo.bessel_i1e", [x], x.type)


def next_after(a: Value, b: Value) -> Value:
    """The number next to a in the direction of b."""
    return one("chlo.next_after", [a, b], a.type)


def mulhi(a: Value, b: Value) -> Value:
    """The high half of the double-width product."""
    return one("chlo.mulhi", [a, b], a.type)
