"""Functions of float32 tensors from float32 and 32-bit integers alone, for devices without float64.

Desktop GPUs have float64 at a 32nd of the speed, others not at all; elsewhere sin, pow and the remainder of float32 go
through it.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import Expr, clip, copy_sign, floor, leading_bits, minimum, polynomial, where
from veery_lowering.emit.numerics.real import EXP_COEFFICIENTS, scale_by_power_of_two, split_exponent
from veery_lowering.emit.numerics.trigonometry import take, two_over_pi

_U32 = np.dtype(np.uint32)
_QUARTER = math.pi / 4
_PI_2_HEAD = float(np.float32(math.pi / 2))
_PI_2_TAIL = math.pi / 2 - _PI_2_HEAD
_LOWEST = 40  # the table begins at multiples of 2**-40

_HALF = 12  # bits: products of two such numbers are exact in float32
_RATIO = 2 / (3 * math.log(2))
_LOG_TAIL = (0.5999999999999389, 0.4285714287206692, 0.3333332743568661, 0.2727357788374675)


def _head(value: float) -> float:
    """The leading 12 bits."""
    bits = np.float32(value).view(np.uint32) & np.uint32(0xFFFFF000)
    return float(bits.view(np.float32))


# Reduction modulo pi / 2.


@cache
def _fractions() -> np.ndarray:
    """Row i: 2**(i - 40) * (2/pi) / 4 modulo 1 in three 32-bit words."""
    count = 128 - 24 + 1 + _LOWEST
    number = two_over_pi(count + 256)
    rows = []
    for i in range(count):
        fraction = (number >> (count + 256 - 94 - (i - _LOWEST))) & ((1 << 96) - 1)
        rows.append([fraction >> 64, (fraction >> 32) & 0xFFFFFFFF, fraction & 0xFFFFFFFF])
    return np.array(rows, _U32)


def _high_product(a: Expr, b: Expr) -> Expr:
    """The high 32 bits of a product of unsigned 32-bit integers."""
    mask = 0xFFFF
    a_high, a_low, b_high, b_low = a >> 16, a & mask, b >> 16, b & mask
    cross, other = a_high * b_low, a_low * b_high
    middle = ((a_low * b_low) >> 16) + (cross & mask) + (other & mask)
    return a_high * b_high + (cross >> 16) + (other >> 16) + (middle >> 16)


def reduce_by_half_pi(x: Expr) -> tuple[Expr, Expr]:
    """The quadrant of |x| (int32; only the last two bits count) and the angle in it, within pi/4, by Payne and Hanek.

    |x| is an integer of 24 bits times a power of two, whose multiple of 2/pi modulo 4 the table has to 94 bits.
    """
    a = abs(x)
    bits = a.bits
    mantissa = ((bits & ((1 << 23) - 1)) | (1 << 23)).bitcast(_U32)
    last = len(_fractions()) - 1
    index = (bits >> 23) - (150 - _LOWEST)
    index = Expr(hlo.clamp(hlo.full(0, (), np.int32), index.value, hlo.full(last, (), np.int32)))
    top, middle, bottom = (take(_fractions()[:, i].copy(), index) for i in range(3))
    lower = mantissa * middle
    low = lower + _high_product(mantissa, bottom)
    carry = (low < lower).convert(_U32)
    high = mantissa * top + _high_product(mantissa, middle) + carry
    quadrant = ((high + (1 << 29)) >> 30).bitcast(np.int32)
    rest = ((high << 2) | (low >> 30)).bitcast(np.int32)
    head = (rest >> 8).convert(np.float32) * 2.0**-24
    tail = (rest & 255).convert(np.float32) * 2.0**-32 + ((low << 2) >> 8).convert(np.float32) * 2.0**-56
    angle = head * _PI_2_HEAD + (head * _PI_2_TAIL + tail * _PI_2_HEAD)
    near = a < _QUARTER
    angle = where(a < math.inf, angle, math.nan)
    return where(near, quadrant.constant(0), quadrant), where(near, a, angle)


# Powers.


def _log2_in_two(a: Expr) -> tuple[Expr, Expr]:
    """log2(a) as a head of 12 bits and a tail, right to 2**-34 or so, as power.py does it in float64."""
    k, m = split_exponent(a)
    f = m - 1.0
    d = 2.0 + f
    s = f / d
    s_head, d_head = leading_bits(s, _HALF), leading_bits(d, _HALF)
    s_tail = ((f - s_head * d_head) - s_head * (f - (d_head - 2.0))) / d
    z = s * s
    rest = z * z * polynomial(z, _LOG_TAIL) + s_tail * (s_head + s)
    square = s_head * s_head
    t_head = leading_bits(3.0 + square + rest, _HALF)
    t_tail = rest - ((t_head - 3.0) - square)
    u, v = s_head * t_head, s_tail * t_head + t_tail * s
    p_head = leading_bits(u + v, _HALF)
    p_tail = v - (p_head - u)
    z_head = _head(_RATIO) * p_head
    z_tail = (_RATIO - _head(_RATIO)) * p_head + p_tail * _RATIO
    whole = k.convert(np.float32)
    head = leading_bits(whole + (z_head + z_tail), _HALF)
    return head, z_tail - ((head - whole) - z_head)


def magnitude_of_power(a: Expr, y: Expr) -> Expr:
    """a ** y for positive finite a."""
    log_head, log_tail = _log2_in_two(a)
    y = clip(y, -(2.0**40), 2.0**40)
    y_head = leading_bits(y, _HALF)
    head, tail = y_head * log_head, (y - y_head) * log_head + y * log_tail
    exponent = head + tail
    inside = abs(exponent) < 160.0
    head, tail = where(inside, head, 0.0), where(inside, tail, 0.0)
    n = floor((head + tail) + 0.5)
    head = head - n
    fraction = leading_bits(head + tail, _HALF)
    ln2_head = _head(math.log(2))
    u = fraction * ln2_head
    v = (tail - (fraction - head)) * math.log(2) + fraction * (math.log(2) - ln2_head)
    r = u + v
    rest = v - (r - u)
    value = 1.0 + (r + (rest + rest * r + r * r * polynomial(r, EXP_COEFFICIENTS[4])))
    result = scale_by_power_of_two(value, n.convert(np.int32))
    return where(inside, result, where(exponent > 0.0, result.constant(math.inf), 0.0))


# Remainders.


def remainder(a: Expr, b: Expr) -> Expr:
    """a - b * trunc(a / b), exact, with the sign of a: long division, seven bits at a time."""
    mask = (1 << 23) - 1
    whole = (abs(b) < math.inf) & b.differs(0.0)
    bits, other = abs(a).bits, where(whole, abs(b), 1.0).bits
    n = (other & mask) | (1 << 23)
    rest = (bits & mask) | (1 << 23)
    rest = where(rest >= n, rest - n, rest)
    inverse = 1.0 / n.convert(np.float32)
    distance = (bits >> 23) - (other >> 23)
    for _ in range(-(-254 // 7)):
        step = minimum(where(distance < 0, 0, distance), 7)
        distance = distance - step
        rest = rest << step
        # The quotient is below 2^7, and what is computed in float32 of it at most one off.
        rest = rest - (rest.convert(np.float32) * inverse).convert(np.int32) * n
        rest = where(rest < 0, rest + n, where(rest >= n, rest - n, rest))
    result = scale_by_power_of_two(rest.convert(np.float32), (other >> 23) - 150)
    result = where(abs(a) < abs(b), abs(a), result)
    return where((abs(a) < math.inf) & b.differs(0.0) & b.equals(b), copy_sign(result, a), math.nan)
