"""Elementary functions of real float32 and float64 tensors, from arithmetic, comparisons and bits alone.

IREE's own expansions lose the sign of zero, and in float64 do not link or call a scalar library. These vectorise, need
no library and are right to 2.5 ulp on all targets. Milliseconds for 10**6 elements on one AVX-512 core, NumPy's in
brackets: exp 0.37 (0.47), log 0.44 (0.44), tanh 0.56 (0.38), atan2 0.72 (0.81) in float32; exp 0.86 (0.86), log 1.0
(0.81), tanh 1.3 (1.8) in float64, where IREE's exp takes 2.3 and log 3.9.

Polynomials interpolate at Chebyshev nodes of the reduced range, fitted at 300 bits. Nothing depends on fused
multiply-adds: compilers may contract or not.
"""

from __future__ import annotations

import math

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import (
    Expr,
    clip,
    copy_sign,
    floor,
    is_nan,
    maximum,
    minimum,
    polynomial,
    sign_bit,
    sqrt as sqrt,
    where,
)

_INF = math.inf
_NAN = math.nan
_LN2 = math.log(2)

# (e**r - 1 - r) / r**2 on |r| <= ln(2) / 2
EXP_COEFFICIENTS = {
    4: (0.500000001353873, 0.16666666681704215, 0.04166646419740569, 0.008333310844647862, 0.0013933730715792083,
        0.00019891080463998843),
    8: (0.5, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039, 0.0013888888917367081,
        0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07,
        2.5100472505694996e-08),
}  # fmt: skip
# the greatest numbers whose exponential is finite
EXP_MOST = {4: 88.72283172607422, 8: 709.782712893384}
# ((log((1 + s) / (1 - s)) - 2 s) / s**3 in z = s**2 for (1 + s) / (1 - s) in [sqrt(1/2), sqrt(2)]
LOG_COEFFICIENTS = {
    4: (0.6666666655404201, 0.4000012221181065, 0.28550778633191964, 0.23331614471843498),
    8: (0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496, 0.1818289243253687,
        0.15331611722055008, 0.14617807153417325),
}  # fmt: skip
# (atan(x) - x) / x**3 in z = x**2 on |x| <= sqrt(2) - 1
_ATAN = {
    4: (-0.3333333175381697, 0.1999953879477192, -0.14263897112598675, 0.1074309966767457, -0.06449835224591496),
    8: (-0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106705, -0.09090908751076636,
        0.0769229630497447, -0.06666423628069258, 0.058789145444006215, -0.052303478730160745, 0.04551108126325172,
        -0.034558092551413795, 0.01627194475162406),
}  # fmt: skip
# (asin(x) - x) / x**3 in z = x**2 on |x| <= 1/2
_ASIN = {
    4: (0.16666666337430908, 0.07500094543497424, 0.04459940152851218, 0.03110066273549457, 0.017149238357677253,
        0.03369084720283012),
    8: (0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247, 0.02237217294214989,
        0.017352392720869973, 0.013971212973552933, 0.011479177415184906, 0.01032281435018578, 0.005457506718640358,
        0.01740087944269402, -0.014851887071247204, 0.028757851367421566),
}  # fmt: skip
_LN2_PARTS = {4: (0.693359375, -2.12194440054690583e-4), 8: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}
_PI_2_PARTS = {4: (float(np.float32(math.pi / 2)), math.pi / 2 - float(np.float32(math.pi / 2))),
               8: (math.pi / 2, 6.123233995736766e-17)}  # fmt: skip


def _mantissa_bits(x: Expr) -> int:
    return 23 if x.dtype == np.float32 else 52


def scale_by_power_of_two(x: Expr, exponent: Expr) -> Expr:
    """x * 2**exponent for integer exponents of x's width, in two steps: neither the factors nor the way overflow."""
    return _scale(x, exponent + 2 * _bias(x))


def _bias(x: Expr) -> int:
    """What is added to exponents in the bits of x."""
    return (1 << (x.dtype.itemsize * 8 - 2 - _mantissa_bits(x))) - 1


def _scale(x: Expr, shifted: Expr) -> Expr:
    """x * 2**(shifted - 2 * bias), in two steps; the bits of `shifted` above an exponent and a sign do not count."""
    shift = _mantissa_bits(x)
    half = shifted >> 1
    return x * (half << shift).bitcast(x.dtype) * ((shifted - half) << shift).bitcast(x.dtype)


def _nearest(x: Expr, offset: int = 0) -> tuple[Expr, Expr]:
    """The nearest integer k as a float, and an integer whose low bits are those of k + offset, as `_scale` takes it."""
    # Adding 1.5 * 2**mantissa rounds to nearest and leaves k in the low bits: no conversion that NaN could upset.
    shifted = x + (_magic(x) + offset)
    return shifted - (_magic(x) + offset), shifted.bits


def _magic(x: Expr) -> float:
    return float(1.5 * 2.0 ** _mantissa_bits(x))


def _reduce_by_ln2(x: Expr, offset: int) -> tuple[Expr, Expr, Expr]:
    """x = k ln 2 + r + c with |r| <= ln(2) / 2, c below r's precision: (k + offset in the low bits, r, c)."""
    k, shifted = _nearest(x * (1 / _LN2), offset)
    high, low = _LN2_PARTS[x.dtype.itemsize]
    leading, trailing = x - k * high, k * low
    r = leading - trailing
    return shifted, r, (leading - r) - trailing


def _exp_limits(x: Expr) -> tuple[float, float]:
    return (-105.0, 90.0) if x.dtype == np.float32 else (-750.0, 711.0)


def exp(x: Expr, exponent_offset: int = 0) -> Expr:
    """e**x * 2**exponent_offset."""
    low, high = _exp_limits(x)
    bounded = clip(x, low, high) if exponent_offset else maximum(x, low)
    shifted, r, c = _reduce_by_ln2(bounded, 2 * _bias(x) + exponent_offset)
    value = 1.0 + (r + (c + r * r * polynomial(r, EXP_COEFFICIENTS[x.dtype.itemsize])))
    scaled = _scale(value, shifted)
    return scaled if exponent_offset else overflowing(scaled, x > EXP_MOST[x.dtype.itemsize])


def overflowing(product: Expr, overflows: Expr) -> Expr:
    """A product that may overflow, with its infinity said: contracted, `product - y` would have it without rounding."""
    return where(overflows, _INF, product)


def exp2(x: Expr) -> Expr:
    """2**x, exact for integers."""
    overflows = x >= float(np.finfo(x.dtype).maxexp)
    x = maximum(x, -160.0 if x.dtype == np.float32 else -1100.0)
    k, shifted = _nearest(x, 2 * _bias(x))
    r = (x - k) * _LN2
    value = 1.0 + (r + r * r * polynomial(r, EXP_COEFFICIENTS[x.dtype.itemsize]))
    return overflowing(_scale(value, shifted), overflows)


def expm1(x: Expr, exponent_offset: int = 0) -> Expr:
    """(e**x - 1) * 2**exponent_offset."""
    low = -20.0 if x.dtype == np.float32 else -40.0
    bias, shift = _bias(x), _mantissa_bits(x)
    offset = 2 * bias + exponent_offset
    shifted, r, c = _reduce_by_ln2(clip(x, low, _exp_limits(x)[1]), offset)
    # 2**-k vanishes beside 1 beyond k = 64, and would leave the exponent's range further on
    most = int(x.dtype.type(_magic(x) + offset + 64).view(f"i{x.dtype.itemsize}"))
    inverse = ((bias + offset - minimum(shifted, most)) << shift).bitcast(x.dtype)
    return copy_sign(_scale(_less_one(inverse, r, c), shifted), x)


def _less_one(inverse: Expr, r: Expr, c: Expr) -> Expr:
    """e**(r + c) - 2**-k, of the latter and what `_reduce_by_ln2` gives."""
    return (1.0 - inverse) + (r + (c + r * r * polynomial(r, EXP_COEFFICIENTS[r.dtype.itemsize])))


def _expm1_within_range(x: Expr) -> Expr:
    """e**x - 1 for 0 <= x < 64 ln 2 or NaN, where 2**k needs no second step."""
    bias, shift = _bias(x), _mantissa_bits(x)
    shifted, r, c = _reduce_by_ln2(x, bias)
    core = _less_one(((2 * bias - shifted) << shift).bitcast(x.dtype), r, c)
    return core * (shifted << shift).bitcast(x.dtype)


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """x = 2**k * m with m in [sqrt(1/2), sqrt(2)), for positive normal x: (k as an integer, m)."""
    shift = _mantissa_bits(x)
    lowest = int(x.dtype.type(math.sqrt(0.5)).view(f"i{x.dtype.itemsize}"))
    bits = x.bits - lowest
    return bits >> shift, ((bits & ((1 << shift) - 1)) + lowest).bitcast(x.dtype)


def _log_sum(f: Expr, k: Expr, correction: Expr | float) -> Expr:
    """log(1 + f) + k ln 2 + correction for 1 + f in [sqrt(1/2), sqrt(2))."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    tail = s * (half_square + z * polynomial(z, LOG_COEFFICIENTS[f.dtype.itemsize]))
    high, low = _LN2_PARTS[f.dtype.itemsize]
    return k * high - ((half_square - (tail + (k * low + correction))) - f)


def _log_special(x: Expr, result: Expr, pole: float) -> Expr:
    """Put in the values of a logarithm with its pole at `pole`, at and below the pole, at infinity and at NaN."""
    result = where(x.equals(_INF), x, result)
    return where(x > pole, result, where(x.equals(pole), -_INF, x.constant(_NAN)))


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    shift = _mantissa_bits(x)
    subnormal = x < float(np.finfo(x.dtype).tiny)
    k, m = split_exponent(where(subnormal, x * 2.0 ** (shift + 2), x))
    k = k - where(subnormal, k.constant(shift + 2), 0)
    return _log_special(x, _log_sum(m - 1.0, k.convert(x.dtype), 0.0), 0.0)


def log1p(x: Expr) -> Expr:
    """log(1 + x)."""
    u = 1.0 + x
    k, m = split_exponent(u)
    # What rounding u lost; beyond 2**precision the 1 is what was lost, and it does not count.
    lost = where(u > 2.0, 1.0 - (u - x), x - (u - 1.0)) / u
    lost = where(u < 2.0 ** (_mantissa_bits(x) + 2), lost, 0.0)
    inside = k.equals(0)
    result = _log_sum(where(inside, x, m - 1.0), k.convert(x.dtype), where(inside, 0.0, lost))
    return copy_sign_of_zero(_log_special(x, result, -1.0), x)


def copy_sign_of_zero(result: Expr, x: Expr) -> Expr:
    """`result`, but x itself where x is a zero."""
    return where(x.equals(0.0), x, result)


def sinh(x: Expr) -> Expr:
    """The hyperbolic sine."""
    a = abs(x)
    half = expm1(a, -1)
    # Beyond 1e20 the second term, at most 1/2, does not count, and its denominator would overflow.
    return copy_sign(half + where(half > 1e20, 0.0, half / (2.0 * half + 1.0)), x)


def cosh(x: Expr) -> Expr:
    """The hyperbolic cosine."""
    half = exp(abs(x), -1)
    return half + 0.25 / half


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent."""
    t = _expm1_within_range(2.0 * minimum(abs(x), 22.0))
    return copy_sign(t / (t + 2.0), x)


def logistic(x: Expr) -> Expr:
    """1 / (1 + e**-x)."""
    return 1.0 / (1.0 + exp(-x))


def _large(x: Expr) -> float:
    """Where 1 + x rounds to x, so that log1p(x) is log(x)."""
    return 2.0**26 if x.dtype == np.float32 else 2.0**55


def asinh(x: Expr) -> Expr:
    """The inverse hyperbolic sine."""
    a = abs(x)
    large = a > _large(x)
    inner = where(large, 0.0, a)
    square = inner * inner
    argument = where(large, a, a + square / (1.0 + sqrt(1.0 + square)))
    return copy_sign(log1p(argument) + where(large, x.constant(_LN2), 0.0), x)


def acosh(x: Expr) -> Expr:
    """The inverse hyperbolic cosine; NaN below 1."""
    large = x > _large(x)
    t = where(large, 0.0, x - 1.0)
    argument = where(large, x, t + sqrt(2.0 * t + t * t))
    return where(x < 1.0, _NAN, log1p(argument) + where(large, x.constant(_LN2), 0.0))


def atanh(x: Expr) -> Expr:
    """The inverse hyperbolic tangent; infinite at 1, NaN above."""
    a = abs(x)
    double = a + a
    result = 0.5 * log1p(double + double * a / (1.0 - a))
    return copy_sign(where(a > 1.0, _NAN, where(a.equals(1.0), _INF, result)), x)


def _atan_of_ratio(top: Expr, bottom: Expr) -> tuple[Expr, Expr]:
    """atan(top / bottom) for 0 <= top <= bottom, 0 < bottom, as a sum of a large and a small part."""
    middle = top > bottom * (math.sqrt(2) - 1)
    x = where(middle, top - bottom, top) / where(middle, top + bottom, bottom)
    z = x * x
    high, low = _PI_2_PARTS[x.dtype.itemsize]
    small = x * z * polynomial(z, _ATAN[x.dtype.itemsize]) + where(middle, x.constant(low / 2), 0.0)
    return where(middle, x.constant(high / 2), 0.0), small + x


def atan(x: Expr) -> Expr:
    """The arc tangent."""
    a = abs(x)
    steep = a > 1.0
    high, low = _PI_2_PARTS[x.dtype.itemsize]
    base, rest = _atan_of_ratio(where(steep, 1.0, a), where(steep, a, 1.0))
    return copy_sign(where(steep, (high - base) - (rest - low), base + rest), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), with IEEE 754's values at zeros and infinities."""
    ay, ax = abs(y), abs(x)
    # Scaled so that the sum of the two cannot overflow; infinities count as 1 beside 0, two zeros as 0 / 1.
    scale = where(maximum(ax, ay) > 1.0, x.constant(0.25), 1.0)
    endless = ax.equals(_INF) | ay.equals(_INF)
    ay = where(endless, where(ay.equals(_INF), ay.constant(1.0), 0.0), ay * scale)
    ax = where(endless, where(ax.equals(_INF), ax.constant(1.0), 0.0), ax * scale)
    steep = ay > ax
    top, bottom = where(steep, ax, ay), where(steep, ay, ax)
    bottom = where(bottom.equals(0.0), 1.0, bottom)
    high, low = _PI_2_PARTS[x.dtype.itemsize]
    base, rest = _atan_of_ratio(top, bottom)
    base, rest = where(steep, high - base, base), where(steep, low - rest, rest)
    left = sign_bit(x)
    base, rest = where(left, 2 * high - base, base), where(left, 2 * low - rest, rest)
    return where(is_nan(x) | is_nan(y), _NAN, copy_sign(base + rest, y))


def asin(x: Expr) -> Expr:
    """The arc sine; NaN outside [-1, 1]."""
    a = abs(x)
    high, low = _PI_2_PARTS[x.dtype.itemsize]
    root, tail = _asin_core(a)
    outer = high - (2.0 * root + (2.0 * tail - low))
    return where(is_nan(root), _NAN, copy_sign(where(a > 0.5, outer, root + tail), x))


def _asin_core(a: Expr) -> tuple[Expr, Expr]:
    """With w = a, or sqrt((1 - a) / 2) for a > 1/2: w and asin(w) - w."""
    outer = a > 0.5
    z = where(outer, 0.5 * (1.0 - a), a * a)
    root = where(outer, sqrt(z), a)
    return root, root * z * polynomial(z, _ASIN[a.dtype.itemsize])


def acos(x: Expr) -> Expr:
    """The arc cosine; NaN outside [-1, 1]."""
    high, low = _PI_2_PARTS[x.dtype.itemsize]
    root, tail = _asin_core(abs(x))
    signed_root, signed_tail = copy_sign(root, x), copy_sign(tail, x)
    inner = high - (signed_root - (low - signed_tail))
    right = 2.0 * (root + tail)
    left = 2.0 * (high - (root - (low - tail)))
    result = where(abs(x) > 0.5, where(x < 0.0, left, right), inner)
    return where(is_nan(root), _NAN, result)


def cbrt(x: Expr) -> Expr:
    """The cube root."""
    a = abs(x)
    # Away from the ends of the exponent's range: there a cube would overflow, or has too few bits.
    limit, step = (2.0**96, 2.0**32) if x.dtype == np.float32 else (2.0**900, 2.0**100)
    small, big = a < 1 / limit, a > limit
    scaled = a * where(small, x.constant(step**3), where(big, x.constant(step**-3), 1.0))
    shift = _mantissa_bits(x)
    bias = (1 << (x.dtype.itemsize * 8 - 2 - shift)) - 1
    # A third of the exponent and of the significand, read as one number: within 5% of the root. Signed: SPIR-V cannot
    # divide unsigned integers (`failed to legalize operation 'arith.divui'`).
    offset = int((bias - bias / 3 - 0.03306235651) * (1 << shift))
    t = (scaled.bits / 3 + offset).bitcast(x.dtype)
    for _ in range(2 if x.dtype == np.float32 else 3):  # Halley's iteration: cubic
        cube = t * t * t
        t = t - t * ((cube - scaled) / (cube + cube + scaled))
    t = t * where(small, x.constant(1 / step), where(big, x.constant(step), 1.0))
    # LLVM asks whether bits are those of zero, infinity or NaN: of subnormal numbers the root would be NaN.
    t = where(a < float(np.finfo(x.dtype).smallest_normal), 0.0, t)
    return where(a.equals(_INF) | is_nan(x), x, copy_sign(t, x))


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x)."""
    return Expr(hlo.rsqrt(x.value))


def remainder(a: Expr, b: Expr) -> Expr:
    """a - b * trunc(a / b) of float64, exact, with the sign of a.

    IREE calls fmod, which does not link, and on SPIR-V computes a - b * trunc(a / b) in floats. Here with integers
    m, n: (m * 2**d) modulo n, by squaring.
    """
    shift, mask = 52, (1 << 52) - 1
    whole = abs(b) < _INF
    bits, other = abs(a).bits, where(whole & b.differs(0.0), abs(b), 1.0).bits
    m, n = (bits & mask) | (1 << shift), (other & mask) | (1 << shift)
    distance = (bits >> shift) - (other >> shift)
    modulus = _Modulus(n)
    power = n.constant(1)
    for bit in reversed(range(11)):
        power = modulus.times(power, power)
        double = modulus.below(power + power)
        power = where((distance & (1 << bit)).differs(0), double, power)
    rest = modulus.times(power, modulus.below(m))
    result = scale_by_power_of_two(rest.convert(np.float64), (other >> shift) - 1075)
    result = where((abs(a) < abs(b)), abs(a), result)
    return where((abs(a) < _INF) & b.differs(0.0) & b.equals(b), copy_sign(result, a), _NAN)


def remainder_of_float32(a: Expr, b: Expr) -> Expr:
    """a - b * trunc(a / b) of float32, exact, with the sign of a: long division in float64.

    10**6 elements take 2.8 ms on two cores, of C's fmodf 13; and what calls that is compiled by IREE's standard
    pipeline, in three times the time.

    Each step takes 29 bits off the quotient. What is left is less than 2**29 of a divisor of 24 bits, so that it and
    the multiples of the divisor that are near it are exact.
    """
    dividend, divisor = _magnitude_in_float64(a), _magnitude_in_float64(b)
    n = where((divisor < _INF) & divisor.differs(0.0), divisor, 1.0)
    inverse, rest = 1.0 / n, dividend
    for step in reversed(range(10)):  # of at most 277 bits: the largest number by the least
        multiple = n * 2.0 ** (29 * step)
        rest = rest - floor(rest * (inverse * 2.0 ** (-29 * step))) * multiple
        # The quotient is one off at most.
        rest = where(rest < 0.0, rest + multiple, where(rest >= multiple, rest - multiple, rest))
    rest = where(dividend < divisor, dividend, rest)
    small = rest < 2.0**_LEAST
    bits = where(small, (where(small, rest, 0.0) * 2.0**-_UNIT).convert(np.int32), rest.convert(np.float32).bits)
    result = (bits | (a.bits & np.iinfo(np.int32).min)).bitcast(np.float32)
    return where((dividend < _INF) & divisor.differs(0.0) & divisor.equals(divisor), result, _NAN)


_LEAST, _UNIT = -126, -149  # exponents of the least normal and the least subnormal number of float32


def _magnitude_in_float64(x: Expr) -> Expr:
    """|x| of float32, also of subnormal numbers, which conversions take for zero."""
    bits = x.bits & np.iinfo(np.int32).max
    return where(bits < 1 << 23, bits.convert(np.float64) * 2.0**_UNIT, abs(x).convert(np.float64))


class _Modulus:
    """Arithmetic of int64 below 2**53 modulo n."""

    def __init__(self, n: Expr):
        self.n = n
        self.as_float = n.convert(np.float64)

    def below(self, x: Expr) -> Expr:
        """x modulo n, for 0 <= x < 2 n."""
        return where(x >= self.n, x - self.n, x)

    def times(self, x: Expr, y: Expr) -> Expr:
        """x * y modulo n: the quotient in floats is right but for 2, and wrapping integers tell the remainder."""
        quotient = (x.convert(np.float64) * y.convert(np.float64) / self.as_float).convert(np.int64)
        rest = x * y - quotient * self.n
        for step in (2, 1):
            multiple = self.n * step
            rest = where(rest < 0, rest + multiple, where(rest >= multiple, rest - multiple, rest))
        return where(rest < 0, rest + self.n, rest)
