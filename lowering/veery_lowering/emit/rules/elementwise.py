"""Elementwise arithmetic and elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics import complex as complex_numerics, integer, power, real, trigonometry
from veery_lowering.emit.numerics._expr import Expr
from veery_lowering.emit.numerics._outline import outlined
from veery_lowering.emit.numerics.complex import Complex
from veery_lowering.emit.registry import Rule, rule
from veery_lowering.emit.rules.convert import convert_dtype, is_float4, is_float8
from veery_lowering.errors import LoweringError
from veery_lowering.stablehlo import Value

_NATIVE = (np.float32, np.float64)


def in_float32(builder: Callable[..., Value], *operands: Value) -> Value:
    """Apply a builder for float32 and float64; narrower floats go through float32 and back."""
    dtype = hlo.dtype_of(operands[0])
    if dtype in _NATIVE:
        return builder(*operands)
    result = builder(*(convert_dtype(x, np.float32) for x in operands))
    return hlo.convert(result, dtype) if hlo.dtype_of(result) == np.float32 else result


def elementwise(name: str, *, target: str | None = None, any_shape: bool = True) -> Callable[[Rule], Rule]:
    """Register the lowering of an elementwise primitive: operands reach it in the shape of its result."""

    def register(function: Rule) -> Rule:
        @rule(name, target=target, any_shape=any_shape)
        def lower(ctx: Any, *operands: Value, **params: Any) -> Value:
            shape = ctx.avals_out[0].shape
            return function(ctx, *(hlo.spread(x, shape) for x in operands), **params)

        return function

    return register


def _direct(name: str, builder: Any) -> None:
    """Lower a primitive to one operation."""
    elementwise(name)(lambda ctx, *operands, **_: builder(*operands))


def elementary(name: str, real_formula: Callable[..., Expr], complex_formula: Callable[..., Any] | None = None) -> None:
    """Lower a primitive to a call of a formula, which differs for real and for complex operands."""

    def formula(*operands: Value) -> Value:
        if hlo.dtype_of(operands[0]).kind == "c":
            if complex_formula is None:
                raise TypeError(f"{name}: not defined for complex numbers")
            return complex_formula(*map(Complex.of, operands)).value
        return in_float32(lambda *xs: real_formula(*map(Expr, xs)).value, *operands)

    elementwise(name)(lambda ctx, *operands, **_: outlined(name, formula, operands))


# What IREE computes rightly for every dtype that the primitive accepts.
for _name, _builder in {
    "neg": hlo.negate,
    "is_finite": hlo.is_finite,
    "real": hlo.real,
    "imag": hlo.imag,
    "complex": hlo.complex,
    "sub": hlo.subtract,
    "population_count": hlo.popcnt,
    "not": hlo.not_,
    "and": hlo.and_,
    "or": hlo.or_,
    "xor": hlo.xor,
    "shift_left": hlo.shift_left,
    "shift_right_logical": hlo.shift_right_logical,
    "shift_right_arithmetic": hlo.shift_right_arithmetic,
    "mulhi": integer.multiply_high,
}.items():
    _direct(_name, _builder)

for _name, _real, _complex in (
    ("exp", real.exp, complex_numerics.exp),
    ("exp2", real.exp2, complex_numerics.exp2),
    ("log", real.log, complex_numerics.log),
    ("log1p", real.log1p, complex_numerics.log1p),
    ("expm1", real.expm1, complex_numerics.expm1),
    ("sin", trigonometry.sin, complex_numerics.sin),
    ("cos", trigonometry.cos, complex_numerics.cos),
    ("tan", trigonometry.tan, complex_numerics.tan),
    ("asin", real.asin, complex_numerics.asin),
    ("acos", real.acos, complex_numerics.acos),
    ("atan", real.atan, complex_numerics.atan),
    ("sinh", real.sinh, complex_numerics.sinh),
    ("cosh", real.cosh, complex_numerics.cosh),
    ("tanh", real.tanh, complex_numerics.tanh),
    ("asinh", real.asinh, complex_numerics.asinh),
    ("acosh", real.acosh, complex_numerics.acosh),
    ("atanh", real.atanh, complex_numerics.atanh),
    ("cbrt", real.cbrt, None),
    ("logistic", real.logistic, complex_numerics.logistic),
    ("sqrt", real.sqrt, complex_numerics.square_root),
    ("rsqrt", real.rsqrt, complex_numerics.reciprocal_square_root),
):
    elementary(_name, _real, _complex)


def add(a: Value, b: Value) -> Value:
    """a + b. IREE computes bool addition as XOR; it is OR."""
    return hlo.or_(a, b) if hlo.dtype_of(a) == np.bool_ else hlo.add(a, b)


def multiply(a: Value, b: Value) -> Value:
    """a * b, of bool: AND."""
    return hlo.and_(a, b) if hlo.dtype_of(a) == np.bool_ else hlo.multiply(a, b)


def maximum(a: Value, b: Value) -> Value:
    """The greater one, lexicographically for complex numbers, of which IREE compares only the real parts."""
    if hlo.dtype_of(a).kind == "c":
        return outlined("max", lambda *z: complex_numerics.greater(*map(Complex.of, z)).value, (a, b))
    return hlo.maximum(a, b)


def minimum(a: Value, b: Value) -> Value:
    """The smaller one; see `maximum`."""
    if hlo.dtype_of(a).kind == "c":
        return outlined("min", lambda *z: complex_numerics.smaller(*map(Complex.of, z)).value, (a, b))
    return hlo.minimum(a, b)


def sign(x: Value) -> Value:
    """x / |x|, and x where that is 0: IREE loses the sign of zero, and StableHLO has no sign of unsigned integers."""
    dtype = hlo.dtype_of(x)
    zero = hlo.full_like(x, 0)
    if dtype.kind == "u":
        return hlo.convert(hlo.compare(x, zero, "NE"), dtype)
    if dtype.kind == "c":  # of large and small numbers IREE's and XLA's |x| is infinite, or 0
        return outlined("sign", lambda z: complex_numerics.sign(Complex.of(z)).value, (x,))
    return hlo.sign(x) if dtype.kind == "i" else hlo.select(hlo.compare(x, zero, "EQ"), x, hlo.sign(x))


_direct("sign", sign)
_direct("add", add)
_direct("mul", multiply)
_direct("max", maximum)
_direct("min", minimum)
_direct("floor", lambda x: in_float32(hlo.floor, x))
_direct("ceil", lambda x: in_float32(hlo.ceil, x))


@elementwise("round")
def _round(ctx: Any, x: Value, *, rounding_method: Any) -> Value:
    """rounding_method: 0 is away from zero on ties, 1 to even."""
    builder = hlo.round_nearest_even if int(rounding_method) == 1 else hlo.round_nearest_afz
    return in_float32(builder, x)


@elementwise("square")
def _square(ctx: Any, x: Value) -> Value:
    if hlo.dtype_of(x).kind == "c":
        return outlined("square", lambda z: complex_numerics.square(Complex.of(z)).value, (x,))
    return multiply(x, x)


@elementwise("abs")
def _abs(ctx: Any, x: Value) -> Value:
    dtype = hlo.dtype_of(x)
    if dtype.kind == "c":
        return outlined("abs", lambda z: complex_numerics.modulus(Complex.of(z)).value, (x,))
    if dtype.kind in "bu":
        return x
    return hlo.abs(x)


@elementwise("nextafter")
def _nextafter(ctx: Any, x: Value, y: Value) -> Value:
    if is_float4(ctx.avals_in[0].dtype):
        raise LoweringError("nextafter: takes no float4_e2m1fn, whose neighbours are those of its bits as uint4")
    result = outlined("nextafter", hlo.next_after, (x, y))
    if not is_float8(hlo.dtype_of(x)):
        return result
    a, b = (convert_dtype(v, np.float32) for v in (x, y))  # which NaNs are seen in
    return hlo.select(hlo.compare(hlo.add(a, b), hlo.add(a, b), "EQ"), result, hlo.full_like(result, np.nan))


@elementwise("conj")
def _conj(ctx: Any, x: Value, **_: Any) -> Value:
    if hlo.dtype_of(x).kind != "c":
        return hlo.complex(x, hlo.full_like(x, 0))
    return hlo.conjugate(x)


def in_complex128(formula: Callable[..., Value]) -> Callable[..., Value]:
    """A formula that computes complex64 in complex128.

    Of e**(w log z) the exponent's rounding is multiplied by its size (30 units for numbers about 1), and logarithms of
    numbers near 1 lose what makes them differ from 1 (600 units).
    """

    def wider(*operands: Value) -> Value:
        if hlo.dtype_of(operands[0]) != np.complex64:
            return formula(*operands)
        wide = [convert_dtype(x, np.dtype(np.complex128)) for x in operands]
        return convert_dtype(formula(*wide), np.dtype(np.complex64))

    return wider


def _atan2(y: Value, x: Value) -> Value:
    if hlo.dtype_of(x).kind == "c":
        return complex_numerics.atan2(Complex.of(y), Complex.of(x)).value
    return in_float32(lambda a, b: real.atan2(Expr(a), Expr(b)).value, y, x)


@elementwise("atan2")
def _lower_atan2(ctx: Any, y: Value, x: Value, **_: Any) -> Value:
    return outlined("atan2", _atan2 if ctx.target == "vulkan" else in_complex128(_atan2), (y, x))


@elementwise("clz")
def _clz(ctx: Any, x: Value) -> Value:
    if ctx.target == "vulkan" and hlo.dtype_of(x).itemsize != 4:
        return outlined("clz", integer.leading_zeros, (x,))
    return hlo.count_leading_zeros(x)


@elementwise("div")
def _div(ctx: Any, a: Value, b: Value) -> Value:
    kind = hlo.dtype_of(a).kind
    if kind == "c":
        return outlined("div", _complex_quotient, (a, b))
    if ctx.target == "vulkan" and kind in "iu":
        return outlined("div", integer.quotient, (a, b))
    return hlo.divide(a, b)


def _complex_quotient(a: Value, b: Value) -> Value:
    return complex_numerics.quotient(Complex.of(a), Complex.of(b)).value


@elementwise("rem")
def _rem(ctx: Any, a: Value, b: Value) -> Value:
    """a - b trunc(a / b), exactly."""
    dtype = hlo.dtype_of(a)
    if dtype.kind in "iu":
        if ctx.target == "cpu" or (ctx.target == "cuda" and dtype.kind == "u"):
            return hlo.remainder(a, b)
        return outlined("rem", integer.remainder, (a, b))
    exact = real.remainder if dtype == np.float64 else real.remainder_of_float32
    formula = lambda *operands: exact(*map(Expr, operands)).value
    return in_float32(lambda *operands: outlined("rem", formula, operands), a, b)


def _reciprocal(x: Value) -> Value:
    if hlo.dtype_of(x).kind == "c":
        return complex_numerics.reciprocal(Complex.of(x)).value
    return hlo.divide(hlo.full_like(x, 1), x)


def integer_power(x: Value, y: int) -> Value:
    """x ** y by squaring, exact for integers; the reciprocal of x ** -y where y < 0, as XLA has it.

    Of complex numbers it is the power of the reciprocal: where x ** -y overflows that is 0, and no NaN.
    """
    if y < 0 and hlo.dtype_of(x).kind == "c":
        return integer_power(_reciprocal(x), -y)
    result, factor, rest = None, x, abs(y)
    while rest:
        if rest & 1:
            result = factor if result is None else multiply(result, factor)
        rest >>= 1
        factor = multiply(factor, factor) if rest else factor
    if result is None:
        return hlo.full_like(x, 1)
    return _reciprocal(result) if y < 0 else result


@elementwise("integer_pow")
def _integer_pow(ctx: Any, x: Value, *, y: int, **_: Any) -> Value:
    dtype = hlo.dtype_of(x)
    if dtype.kind in "iubc" or dtype in _NATIVE:
        return integer_power(x, y)
    return in_float32(lambda operand: integer_power(operand, y), x)


@elementwise("pow")
def _pow(ctx: Any, x: Value, y: Value) -> Value:
    halves = _halves(hlo.dtype_of(x), y) if ctx.target == "cpu" else None
    if halves is not None:
        name = f"pow_{'minus_' if halves < 0 else ''}{abs(halves)}_halves"
        return outlined(name, lambda a: in_float32(lambda a: power.of_halves(Expr(a), halves).value, a), (x,))
    return outlined("pow", pow_formula if ctx.target == "vulkan" else in_complex128(pow_formula), (x, y))


# How many halves an exponent may be, computed in float64: others lose digits.
_HALVES = {**dict.fromkeys(("float16", "bfloat16", "float32"), range(-9, 10, 2)), "float64": (-1, 1, 3)}


def _halves(dtype: np.dtype, y: Value) -> int | None:
    """How many halves an exponent is that is known, and odd; None of others."""
    known = hlo.splat_of(y) if hlo.dtype_of(y).kind == "f" else None
    return None if known is None else next((n for n in _HALVES.get(dtype.name, ()) if n == 2 * known), None)


def pow_formula(x: Value, y: Value) -> Value:
    """x ** y; the exponent may be an integer."""
    dtype = hlo.dtype_of(x)
    if dtype.kind in "iu":
        return integer.power(x, y)
    y = convert_dtype(y, dtype)
    if dtype.kind == "c":
        return complex_numerics.power(Complex.of(x), Complex.of(y)).value
    return in_float32(lambda a, b: power.power(Expr(a), Expr(b)).value, x, y)
