"""Integer functions that StableHLO lacks or IREE gets wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import Expr, where
from veery_lowering.stablehlo import Value


def power(base: Value, exponent: Value) -> Value:
    """base ** exponent, wrapping; for a negative exponent 1 and -1 to their powers, else 0.

    IREE looks at six bits of the exponent: 3 ** 68 is 81.
    """
    x, y = Expr(base), Expr(exponent)
    result, factor = x.constant(1), x
    zero = y.constant(0)
    bits = y.dtype.itemsize * 8 - (y.dtype.kind == "i")
    for bit in range(bits):
        taken = (y & (1 << bit)).differs(zero)
        result = where(taken, result * factor, result)
        factor = factor * factor if bit + 1 < bits else factor
    if y.dtype.kind == "u":
        return result.value
    inverse = where(x.equals(1), 1, x.constant(0))
    if x.dtype.kind == "i":
        inverse = where(x.equals(-1), where((y & 1).equals(0), x.constant(1), -1), inverse)
    return where(y < 0, inverse, result).value


def quotient(a: Value, b: Value) -> Value:
    """a / b truncated, of divisions of numbers that are not positive; all ones for b = 0.

    For SPIR-V. IREE 3.13 makes a division of numbers that it knows not to be negative an unsigned one, and cannot
    compile that where a vector is of one element, in arrays of 8, 16 or 64: "bitwidth emulation is not implemented yet
    on unsigned op".
    """
    x, y = Expr(a), Expr(b)
    result = _unsigned_quotient(x, y) if x.dtype.kind == "u" else _signed_quotient(x, y)
    return where(y.equals(0), ~x.constant(0), result).value


def remainder(a: Value, b: Value) -> Value:
    """The remainder with the sign of a, a itself for b = 0: SPIR-V's is wrong for the smallest integer."""
    x, y = Expr(a), Expr(b)
    # Dividing the smallest integer by -1 overflows, to itself, and then the product is right again.
    divisor = where(y.equals(0), 1, y)
    divided = _unsigned_quotient if x.dtype.kind == "u" else _signed_quotient
    return where(y.equals(0), x, x - divided(x, divisor) * divisor).value


def _signed_quotient(x: Expr, y: Expr) -> Expr:
    negative = x < 0
    result = where(negative, x, -x) / y
    return where(negative, result, -result)


def _unsigned_quotient(x: Expr, y: Expr) -> Expr:
    """After Warren, Hacker's Delight, 9-3: by a signed division of the half."""
    signed = np.dtype(f"int{8 * x.dtype.itemsize}")
    large = y.bitcast(signed) < 0
    half = -(-(x >> 1).bitcast(signed) / where(large, 1, y).bitcast(signed))
    estimate = where(large, 0, half.bitcast(x.dtype) << 1)
    return where(x - estimate * y >= y, estimate + 1, estimate)


def leading_zeros(a: Value) -> Value:
    """The zeros before the first one, by those of 32 bits: SPIR-V counts no others."""
    dtype = hlo.dtype_of(a)
    bits = 8 * dtype.itemsize
    x = Expr(a).bitcast(np.dtype(f"uint{bits}"))
    count: Callable[[Expr], Expr] = lambda part: Expr(hlo.count_leading_zeros(part.convert(np.uint32).value))
    if bits > 32:
        high, low = x >> 32, x & 0xFFFFFFFF
        return where(high.equals(0), count(low) + 32, count(high)).convert(dtype).value
    return (count(x) - (32 - bits)).convert(dtype).value


def multiply_high(a: Value, b: Value) -> Value:
    """The high half of the product of twice the width."""
    dtype = hlo.dtype_of(a)
    width = dtype.itemsize * 8
    if width < 64:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        product = Expr(a).convert(wide) * Expr(b).convert(wide)
        return (product >> width).convert(dtype).value
    x, y = Expr(a), Expr(b)
    high = high_product(x.bitcast(np.uint64), y.bitcast(np.uint64)).bitcast(dtype)
    if dtype.kind == "u":
        return high.value
    return (high - where(x < 0, y, 0) - where(y < 0, x, 0)).value


def high_product(a: Expr, b: Expr) -> Expr:
    """The high 64 bits of a product of unsigned 64-bit integers."""
    mask = 0xFFFFFFFF
    a_high, a_low, b_high, b_low = a >> 32, a & mask, b >> 32, b & mask
    cross, other = a_high * b_low, a_low * b_high
    middle = ((a_low * b_low) >> 32) + (cross & mask) + (other & mask)
    return a_high * b_high + (cross >> 32) + (other >> 32) + (middle >> 32)
