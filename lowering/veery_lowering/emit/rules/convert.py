"""Conversions between dtypes: by value, by bits, and rounding to fewer bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import Expr, round_even, where
from veery_lowering.emit.registry import rule
from veery_lowering.stablehlo import Value
from veery_lowering.types import physical_dtype


def is_float(dtype: np.dtype) -> bool:
    """Whether a dtype is a real floating-point one, ml_dtypes' included."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def float_to_integer(x: Value, dtype: Any) -> Value:
    """Truncate floats to integers as XLA does: NaN to 0, what is out of range to the nearest limit.

    IREE's conversion wraps, or gives INT_MIN, out of range.
    """
    source = hlo.dtype_of(x)
    if source not in (np.float32, np.float64):
        x, source = convert_dtype(x, np.float32), np.dtype(np.float32)
    limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    lowest, highest = _within(limits.min, source), _within(limits.max, source)
    number = hlo.select(hlo.compare(x, x, "EQ"), x, hlo.full_like(x, 0))
    inside = hlo.clamp(hlo.full(lowest, (), source), number, hlo.full(highest, (), source))
    result = hlo.convert(inside, dtype)
    if int(highest) == limits.max:
        return result
    above = hlo.compare(number, hlo.full_like(x, highest), "GT")
    return hlo.select(above, hlo.full_like(result, limits.max), result)


def _within(limit: int, dtype: np.dtype) -> Any:
    """`limit` as a float, rounded towards zero."""
    value = dtype.type(limit)
    return np.nextafter(value, dtype.type(0)) if abs(int(value)) > abs(limit) else value


def convert_dtype(x: Value, dtype: Any) -> Value:
    """Convert by value with XLA's semantics, for every pair of dtypes."""
    old, new = hlo.dtype_of(x), physical_dtype(dtype)
    if old == new:
        return x
    if new == np.bool_:
        return _nonzero(x)
    if old.kind == "c" and new.kind != "c":
        return convert_dtype(hlo.real(x), new)
    if new.kind == "c" and old.kind != "c":
        real = convert_dtype(x, np.float32 if new == np.complex64 else np.float64)
        return hlo.complex(real, hlo.full_like(real, 0))
    if is_float8(old) and new != np.float32:
        return convert_dtype(convert_dtype(x, np.float32), new)
    if old == ml_dtypes.float8_e4m3fn:
        return _from_float8(x)
    if is_float(old) and not is_float(new) and new.kind != "c":
        return float_to_integer(x, new)
    if old == np.float64 and is_float(new) and new != np.float32:
        return hlo.convert(_rounded_to_odd(x), new)
    if is_float8(new):
        return _to_float8(convert_dtype(x, np.float32), new)
    return hlo.convert(x, new)


def is_float8(dtype: np.dtype) -> bool:
    """Whether a dtype is a float of 8 bits: IREE converts those to and from float32 and bfloat16 alone."""
    return is_float(dtype) and dtype.itemsize == 1


def _from_float8(x: Value) -> Value:
    """float8_e4m3fn as float32. IREE takes only one of float8_e4m3fn's two NaNs for one: the other becomes -480."""
    bits = hlo.bitcast_convert(x, np.uint8)
    payload = hlo.and_(bits, hlo.full_like(bits, 0x7F))
    number = hlo.convert(x, np.float32)
    is_nan = hlo.compare(payload, hlo.full_like(payload, 0x7F), "EQ")
    return hlo.select(is_nan, hlo.full_like(number, np.nan), number)


def _to_float8(x: Value, dtype: np.dtype) -> Value:
    """float32 as a float of 8 bits. IREE takes what is rounded up to the smallest normal number for zero."""
    if dtype == ml_dtypes.float8_e8m0fnu:
        return _to_exponent(Expr(x)).bitcast(dtype).value
    wide, limits = Expr(x), ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    step = float(limits.smallest_subnormal)
    subnormal = round_even(wide * (1 / step)) * step
    return hlo.convert(where(abs(wide) < float(limits.smallest_normal), subnormal, wide).value, dtype)


def _to_exponent(x: Expr) -> Expr:
    """The exponent of the nearest power of 2, as float8_e8m0fnu holds it; 255 for what is not positive and finite."""
    bits = x.bits
    halfway = where(bits < 0x800000, bits.constant(0x3FFFFF), 0x400000)  # above 2**-127 XLA rounds up
    return where((bits > 0) & (bits < 0x7F400000), (bits + halfway) >> 23, 255).convert(np.uint8)


def _rounded_to_odd(x: Value) -> Value:
    """float64 as float32 with an odd last bit where inexact, so that a second rounding is right: IREE rounds twice."""
    wide = Expr(x)
    narrow = wide.convert(np.float32)
    back = narrow.convert(np.float64)
    inexact = back.differs(wide) & (abs(back) < np.inf)
    bits = narrow.bits
    neighbour = where(abs(wide) > abs(back), bits + 1, bits - 1)
    return where(inexact & (bits & 1).equals(0), neighbour, bits).bitcast(np.float32).value


def _nonzero(x: Value) -> Value:
    """x != 0. IREE's conversion of complex numbers to bool looks at the real part alone."""
    if hlo.dtype_of(x).kind == "c":
        return hlo.or_(_nonzero(hlo.real(x)), _nonzero(hlo.imag(x)))
    return hlo.compare(x, hlo.full_like(x, 0), "NE")


@rule("convert_element_type", any_shape=True)
def _convert_element_type(ctx: Any, x: Value, *, new_dtype: Any, **_: Any) -> Value:
    return convert_dtype(x, new_dtype)


@rule("bitcast_convert_type", any_shape=True)
def _bitcast_convert_type(ctx: Any, x: Value, *, new_dtype: Any) -> Value:
    return hlo.bitcast_convert(x, new_dtype)


@rule("reduce_precision", any_shape=True)
def _reduce_precision(ctx: Any, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    return hlo.reduce_precision(x, exponent_bits, mantissa_bits)
