"""Elementwise functions as operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics.elementary import inverse_hyperbolic_tangent, log_plus_one, native
from veery_lowering.emit.registry import lookup, rule
from veery_lowering.emit.rules.convert import convert_dtype, converted
from veery_lowering.emit.rules.elementwise import elementwise, in_complex128, integer_power
from veery_lowering.emit.rules.xla.constants import may_hold_constant_nan
from veery_lowering.stablehlo import Value


def _also_of_nan(operation: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """An operation with XLA's exponential of 32 bits, which is undefined for a constant NaN.

    Of `exp(where(b, nan, x))` XLA makes two loops, and of that with the NaN nothing: the result is what was in its
    memory. There NaN is chosen apart; a softmax of 1500x1000 takes 1350 us instead of 800 so.
    """

    def compute(x: Value) -> Value:
        if not _is_float(hlo.dtype_of(x)) or hlo.dtype_of(x) == np.float64 or not may_hold_constant_nan(x):
            return operation(x)
        return hlo.select(hlo.compare(x, x, "NE"), x, operation(x))

    return compute


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "exp": _also_of_nan(hlo.exponential),
    "log": hlo.log,
    "log1p": log_plus_one,
    "tan": hlo.tan,
    "asin": hlo.asin,
    "acos": hlo.acos,
    "atan": hlo.atan,
    "tanh": hlo.tanh,
    "asinh": hlo.asinh,
    "acosh": hlo.acosh,
    "atanh": inverse_hyperbolic_tangent,
    "cbrt": hlo.cbrt,
    "logistic": _also_of_nan(hlo.logistic),
    "sqrt": hlo.sqrt,
    "abs": hlo.abs,
    "floor": hlo.floor,
    "ceil": hlo.ceil,
    "clz": hlo.count_leading_zeros,
    "div": hlo.divide,
    "rem": hlo.remainder,
    "atan2": in_complex128(hlo.atan2),
    "erf": hlo.erf,
    "erfc": hlo.erfc,
    "bessel_i1e": hlo.bessel_i1e,
    "nextafter": hlo.next_after,
    "sample_exp": _also_of_nan(hlo.exponential),
    "sample_log": hlo.log,
    "sample_log1p": log_plus_one,
    "sample_pow": hlo.power,
    "sample_rsqrt": hlo.rsqrt,
    "sample_tan": hlo.tan,
}


def _direct(name: str, operation: Callable[..., Value]) -> None:
    elementwise(name, target="xla")(lambda ctx, *operands, **_: operation(*operands))


for _name, _operation in _OPERATIONS.items():
    _direct(_name, _operation)


def _ordered(name: str, strictly: str) -> None:
    """Lower a comparison that equal numbers pass.

    XLA takes `x * x >= 0`, `abs(x) >= 0` and `exp(x) >= 0` for true, also of NaN: more and equal are asked for apart.
    """

    @elementwise(name, target="xla")
    def lower(ctx: Any, a: Value, b: Value, **_: Any) -> Value:
        if not _is_float(hlo.dtype_of(a)):
            return hlo.compare(a, b, name.upper())
        return hlo.or_(hlo.compare(a, b, strictly), hlo.compare(a, b, "EQ"))


_ordered("ge", "GT")
_ordered("le", "LT")


def _by_formula(name: str) -> None:
    """Lower a primitive that is no operation to its formula, made of operations."""

    @elementwise(name, target="xla")
    def lower(ctx: Any, *operands: Value, **params: Any) -> Value:
        general = lookup(name, "any")
        assert general is not None
        with native():
            result: Value = general(ctx, *operands, **params)
        return result


for _name in (
    "igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta", "bessel_i0e",
    "lgamma", "digamma", "polygamma", "zeta", "erf_inv",
):  # fmt: skip
    _by_formula(_name)


@elementwise("exp2", target="xla")
def _exp2(ctx: Any, x: Value, **_: Any) -> Value:
    """Of complex numbers by the exponential, for XLA's power takes 0 times infinity for NaN."""
    if hlo.dtype_of(x).kind != "c":
        return hlo.power(hlo.full_like(x, 2), x)
    scaled = [hlo.multiply(part, hlo.full_like(part, np.log(2.0))) for part in (hlo.real(x), hlo.imag(x))]
    return hlo.exponential(hlo.complex(*scaled))


def _of_complex_by_formula(name: str, operation: Callable[[Value], Value]) -> None:
    """Lower a primitive of real numbers to the operation, of complex numbers to veery's formula.

    XLA's `sin` and `sinh` of small numbers lose all digits of a part (the imaginary one of `sin(2 + 1e-8i)` is 0), its
    `cosh` is infinite before its result is, and `rsqrt` errs by many units beside the real axis.
    """
    general = lookup(name, "any")
    assert general is not None

    @elementwise(name, target="xla")
    def lower(ctx: Any, x: Value, **params: Any) -> Value:
        if hlo.dtype_of(x).kind != "c":
            return operation(x)
        with native():
            result: Value = general(ctx, x, **params)
        return result


_of_complex_by_formula("sin", hlo.sine)
_of_complex_by_formula("cos", hlo.cosine)
_of_complex_by_formula("sinh", hlo.sinh)
_of_complex_by_formula("cosh", _also_of_nan(hlo.cosh))
_of_complex_by_formula("expm1", _also_of_nan(hlo.exponential_minus_one))
_of_complex_by_formula("rsqrt", hlo.rsqrt)


@elementwise("round", target="xla")
def _round(ctx: Any, x: Value, *, rounding_method: Any) -> Value:
    return hlo.round_nearest_even(x) if int(rounding_method) == 1 else hlo.round_nearest_afz(x)


@elementwise("sign", target="xla")
def _sign(ctx: Any, x: Value) -> Value:
    if hlo.dtype_of(x).kind == "u":
        return hlo.convert(hlo.compare(x, hlo.full_like(x, 0), "NE"), hlo.dtype_of(x))
    return hlo.sign(x)


@elementwise("integer_pow", target="xla")
def _integer_pow(ctx: Any, x: Value, *, y: int, **_: Any) -> Value:
    return integer_power(x, y)


@elementwise("pow", target="xla")
def _pow(ctx: Any, x: Value, y: Value) -> Value:
    """The exponent may be an integer. Integers to negative powers are what the general rule has them be."""
    dtype = hlo.dtype_of(x)
    if dtype.kind in "iu":
        general = lookup("pow", "any")
        assert general is not None
        result: Value = general(ctx, x, y)
        return result
    return in_complex128(hlo.power)(x, convert_dtype(y, dtype))


@rule("convert_element_type", target="xla")
def _convert_element_type(ctx: Any, x: Value, *, new_dtype: Any, **_: Any) -> Value:
    """Conversions between floats are operations; others have the general rule's meaning out of range.

    Of a product with a converted bool XLA makes a selection, so that `False * nan` is 0: bools select a one or a zero.
    """
    return converted(ctx, x, new_dtype, _converted)


def _converted(x: Value, new_dtype: Any) -> Value:
    old, new = hlo.dtype_of(x), np.dtype(getattr(new_dtype, "physical", new_dtype))
    if _is_float(old) and _is_float(new):
        return hlo.convert(x, new)
    if old == np.bool_ and _is_float(new):
        return hlo.select(x, hlo.full_like(x, 1, new), hlo.full_like(x, 0, new))
    return convert_dtype(x, new_dtype)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)
