"""Conversions between dtypes: by value, by bits, and rounding to fewer bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import Expr, round_even, where
from veery_lowering.emit.registry import rule
from veery_lowering.stablehlo import Value
from veery_lowering.types import FLOAT4, SUB_BYTE, physical_dtype


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


# Floats of 4 bits, whose place their bits take.

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# From where on a float becomes each of these but the first: halfway, where it becomes the one with an even last bit.
_HALFWAY = ((0.25, "GT"), (0.75, "GE"), (1.25, "GT"), (1.75, "GE"), (2.5, "GT"), (3.5, "GE"), (5.0, "GT"))


def is_float4(dtype: Any) -> bool:
    """Whether a dtype is the float of 4 bits."""
    return physical_dtype(dtype).name == FLOAT4


def from_float4(bits: Value) -> Value:
    """Floats of 4 bits as float32."""
    code = hlo.and_(bits, hlo.full_like(bits, 7))
    number = hlo.full_like(bits, 0.0, np.float32)
    for i, value in enumerate(_MAGNITUDES):
        number = hlo.select(hlo.compare(code, hlo.full_like(code, i), "EQ"), hlo.full_like(number, value), number)
    negative = hlo.compare(hlo.and_(bits, hlo.full_like(bits, 8)), hlo.full_like(bits, 0), "NE")
    return hlo.select(negative, hlo.negate(number), number)


def to_float4(number: Value) -> Value:
    """float32 as floats of 4 bits: the nearest, at most 6; NaN becomes -0."""
    magnitude, code = hlo.abs(number), hlo.full_like(number, 0, np.uint8)
    for limit, direction in _HALFWAY:
        reached = hlo.compare(magnitude, hlo.full_like(magnitude, limit), direction)
        code = hlo.add(code, hlo.convert(reached, np.uint8))
    word = hlo.bitcast_convert(number, np.uint32)
    sign = hlo.convert(hlo.shift_right_logical(word, hlo.full_like(word, 31)), np.uint8)
    sign = hlo.select(hlo.compare(number, number, "EQ"), sign, hlo.full_like(sign, 1))
    return hlo.or_(code, hlo.shift_left(sign, hlo.full_like(sign, 3)))


def converted(ctx: Any, x: Value, new_dtype: Any, convert: Callable[[Value, Any], Value]) -> Value:
    """The conversion of an operand by a function that knows no floats of 4 bits."""
    (aval,) = ctx.avals_in
    if is_float4(aval.dtype):
        if is_float4(new_dtype):
            return x
        x = from_float4(x)
    if not is_float4(new_dtype):
        return convert(x, new_dtype)
    return to_float4(_rounded_to_odd(x) if hlo.dtype_of(x) == np.float64 else convert(x, np.float32))


@rule("convert_element_type", any_shape=True)
def _convert_element_type(ctx: Any, x: Value, *, new_dtype: Any, **_: Any) -> Value:
    return converted(ctx, x, new_dtype, convert_dtype)


@rule("bitcast_convert_type", any_shape=True)
def _bitcast_convert_type(ctx: Any, x: Value, *, new_dtype: Any) -> Value:
    (aval,) = ctx.avals_in
    if aval.dtype == new_dtype:  # of bools and complex numbers, too, which have no bits
        return x
    old, new = _width(aval.dtype), _width(new_dtype)
    if min(old, new) >= 8:
        return hlo.bitcast_convert(x, new_dtype)
    bits = hlo.bitcast_convert(x, np.uint8)
    if old < 8:
        bits = hlo.and_(bits, hlo.full_like(bits, (1 << old) - 1))
    if new < old:
        bits = _split(bits, min(old, 8), new)
        bits = hlo.reshape(bits, (*aval.shape, old // new))
    elif new > old:
        bits = hlo.reshape(bits, (*aval.shape[:-1], -(-new // 8), min(new, 8) // old))
        bits = _joined(bits, old)
        bits = bits if new > 8 else hlo.reshape(bits, aval.shape[:-1])
    if new == 4 and is_float4(new_dtype):
        return bits
    if new < 8 and physical_dtype(new_dtype).name.startswith("int"):
        half = hlo.full_like(bits, 1 << (new - 1))
        bits = hlo.subtract(hlo.xor(bits, half), half)
    return hlo.bitcast_convert(bits, new_dtype)


def _width(dtype: Any) -> int:
    """The number of bits of an element."""
    name = physical_dtype(dtype).name
    return 4 if name == FLOAT4 else int(name.lstrip("uint")) if name in SUB_BYTE else hlo.width_of(dtype)


def _split(bits: Value, old: int, new: int) -> Value:
    """The parts of each element, the lowest first, along a last dimension."""
    shape = (*hlo.shape_of(bits), 1)
    parts = [hlo.shift_right_logical(bits, hlo.full_like(bits, at)) for at in range(0, old, new)]
    parts = [hlo.and_(part, hlo.full_like(part, (1 << new) - 1)) for part in parts]
    return hlo.concatenate([hlo.reshape(part, shape) for part in parts], len(shape) - 1)


def _joined(parts: Value, width: int) -> Value:
    """What such parts along the last dimension make."""
    *shape, count = hlo.shape_of(parts)
    found = None
    for i in range(count):
        start = [*[0] * len(shape), i]
        part = hlo.reshape(hlo.slice(parts, start, (*shape, i + 1)), shape)
        part = hlo.shift_left(part, hlo.full_like(part, width * i))
        found = part if found is None else hlo.or_(found, part)
    assert found is not None
    return found


@rule("reduce_precision", any_shape=True)
def _reduce_precision(ctx: Any, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    return hlo.reduce_precision(x, exponent_bits, mantissa_bits)
