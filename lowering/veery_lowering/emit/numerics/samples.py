"""Elementary functions of random samples, rounded as in JAX.

Most samples are exponentials, logarithms and powers of uniform and normal ones, so that their last bits are those of
these functions. XLA's CPU compiler has Cephes' exponentials and logarithms (S. L. Moshier), here in its order of
operations, down to which product is added to which term, since compilers turn such pairs into fused multiply-adds. For
powers and tangents of float32 it calls the C library, glibc 2.36 for these: powers from a table of reciprocals, in
float64, tangents by fdlibm's formula, with each product rounded. Of 1 / sqrt(x) it makes a step of Newton's method from
the processor's estimate, which is not the same on all of them; it is most often what is nearest to the exact value.

Of 20 million float32 of all sizes, and 4 million powers, none differs but where results are subnormal. General code
has `real` and `power`: they round less, up to 0.8 ulp where these have 4, and cost the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from veery_lowering.emit.numerics import power
from veery_lowering.emit.numerics._expr import (
    Expr,
    clip,
    flip_sign,
    floor,
    leading_bits,
    minimum,
    sign_bit,
    sqrt,
    where,
)
from veery_lowering.emit.numerics.real import (
    EXP_MOST,
    log as real_log,
    overflowing,
    scale_by_power_of_two,
    split_exponent,
)
from veery_lowering.emit.numerics.trigonometry import take, tan as real_tan

_INF = math.inf
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
# of float64: e**g = 1 + 2 p / (q - p) with p / g and q in g**2
_EXP_P = (1.26177193074810590878e-4, 3.02994407707441961300e-2, 1.0)
_EXP_Q = (3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1, 2.0)
_LN2_PARTS = {4: (0.693359375, -2.12194440e-4), 8: (6.93145751953125e-1, 1.42860682030941723212e-6)}
_LOG = (
    (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1),
    (-1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1),
    (2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_LOG1P_NUMERATOR = (
    *(4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969e0),
    *(2.9911919328553073277375e1, 6.0949667980987787057556e1, 5.7112963590585538103336e1, 2.0039553499201281259648e1),
)
_LOG1P_DENOMINATOR = (
    *(1.5062909083469192043167e1, 8.3047565967967209469434e1, 2.2176239823732856465394e2),
    *(3.0909872225312059774938e2, 2.1642788614495947685003e2, 6.0118660497603843919306e1),
)
_LOG1P_LIMIT = math.sqrt(2) - 1  # below it the rational approximation

# Powers: 1 / c for c in the middle of the sixteenths of [0.7, 1.4); log2(1 + r) for |r| < 1/32; 2**r for |r| < 1/64.
_INVERSES = tuple(
    float.fromhex(x)
    for x in (
        "0x1.661ec79f8f3bep+0 0x1.571ed4aaf883dp+0 0x1.49539f0f010bp+0 0x1.3c995b0b80385p+0 0x1.30d190c8864a5p+0"
        " 0x1.25e227b0b8eap+0 0x1.1bb4a4a1a343fp+0 0x1.12358f08ae5bap+0 0x1.0953f419900a7p+0 0x1p+0"
        " 0x1.e608cfd9a47acp-1 0x1.ca4b31f026aap-1 0x1.b2036576afce6p-1 0x1.9c2d163a1aa2dp-1 0x1.886e6037841edp-1"
        " 0x1.767dcf5534862p-1"
    ).split()
)
_LOG2 = (0.288457581109214, -0.36092606229713164, 0.480898481472577, -0.7213474675006291, 1.4426950408774342)
_EXP2 = (0.05550361559341535, 0.2402284522445722, 0.6931471806916203)
_FIRST = 0x3F330000  # the bits of the beginning of those sixteenths
_PARTS = 32
# (tan(x) - x) / x**3 in x**2 for |x| < 0.6744, and pi / 4 and pi / 2 in two and three parts
_TAN = (
    *(3.3333334327e-01, 1.3333334029e-01, 5.3968254477e-02, 2.1869488060e-02, 8.8632395491e-03, 3.5920790397e-03),
    *(1.4562094584e-03, 5.8804126456e-04, 2.4646313977e-04, 7.8179444245e-05, 7.1407252108e-05, -1.8558637748e-05),
    2.5907305826e-05,
)
_TAN_LIMIT = float(np.uint32(0x3F2CA140).view(np.float32))
_NEVER = 0x7FA5A5A5  # the bits of a NaN that no operation makes
_PI_4, _PI_4_LOW = 7.8539812565e-01, 3.7748947079e-08
_PI_2, _PI_2_TAIL = 1.5707855225e00, 1.0804334124e-05
_PI_2_MIDDLE, _PI_2_LOW = 1.0804273188e-05, 6.0770999344e-11


def horner(x: Expr, first: Expr, coefficients: Sequence[float]) -> Expr:
    """first * x**n + coefficients[0] * x**(n - 1) + ... + coefficients[n - 1]."""
    for coefficient in coefficients:
        first = first * x + coefficient
    return first


def exp(x: Expr) -> Expr:
    """e**x."""
    single = x.dtype == np.float32
    overflows = x > EXP_MOST[x.dtype.itemsize]
    x = clip(x, *((-105.0, 89.5) if single else (-750.0, 709.782712893384)))
    n = floor(x * (1 / math.log(2)) + 0.5)
    n = minimum(n, 127.0) if single else n  # beyond it the remainder grows instead, as in XLA
    high, low = _LN2_PARTS[x.dtype.itemsize]
    r = (x - n * high) - n * low
    square = r * r
    if single:
        value = 1.0 + (r + horner(r, r.constant(_EXP[0]), _EXP[1:]) * square)
    else:
        p = horner(square, square.constant(_EXP_P[0]), _EXP_P[1:]) * r
        value = 1.0 + 2.0 * (p / (horner(square, square.constant(_EXP_Q[0]), _EXP_Q[1:]) - p))
    # by bits, since the conversion of a NaN is anything
    magic = x.dtype.type(1.5 * 2.0 ** np.finfo(x.dtype).nmant)
    exponent = (n + magic).bits - int(magic.view(f"i{x.dtype.itemsize}"))
    return overflowing(scale_by_power_of_two(value, exponent), overflows)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    if x.dtype == np.float64:
        return real_log(x)
    subnormal = x < float(np.finfo(np.float32).tiny)
    k = where(subnormal, x.constant(-25, np.int32), 0)
    result = _log_of_normal(where(subnormal, x * 2.0**25, x), k)
    result = where(x.equals(_INF), x, result)
    return where(x > 0.0, result, where(x.equals(0.0), -_INF, x.constant(math.nan)))


def _log_of_normal(x: Expr, exponent: Expr | int = 0) -> Expr:
    """log(x * 2**exponent) for normal x > 0."""
    if x.dtype == np.float64:
        return real_log(x)
    k, m = split_exponent(x)
    e, f = (k + exponent).convert(x.dtype), m - 1.0
    f2 = f * f
    f3 = f2 * f
    first, second, third = (horner(f, x.constant(c[0]), c[1:]) for c in _LOG)
    y = (third + (second + first * f3) * f3) * f3
    high, low = _LN2_PARTS[4]
    y = y + e * low
    return ((f - f2 * 0.5) + y) + e * high


def log1p(x: Expr) -> Expr:
    """log(1 + x)."""
    # a selection, so that no product that x may be is fused with sums
    inner = where(x > -1.0, x, 0.0)
    result = where(x.equals(0.0) | x.equals(_INF), x, log1p_inside(inner))
    return where(x > -1.0, result, where(x.equals(-1.0), -_INF, x.constant(math.nan)))


def log1p_inside(x: Expr) -> Expr:
    """log(1 + x) for finite x > -1."""
    square = x * x
    numerator = horner(x, x.constant(_LOG1P_NUMERATOR[0]), _LOG1P_NUMERATOR[1:])
    denominator = horner(x, x + _LOG1P_DENOMINATOR[0], _LOG1P_DENOMINATOR[1:])
    near_zero = abs(x) < _LOG1P_LIMIT
    # the selection keeps the cubic term a rounded product, whichever of the two the compiler fuses with the sum
    cubic = where(near_zero, x * square * (numerator / denominator), 0.0)
    return where(near_zero, x + (square * -0.5 + cubic), _log_of_normal(x + 1.0))


def pow(x: Expr, y: Expr) -> Expr:
    """x**y."""
    return power.power(x, y, _magnitude_of_power if x.dtype == np.float32 else None)


def _magnitude_of_power(a: Expr, y: Expr) -> Expr:
    """a**y for positive finite float32 a."""
    bits = a.bits - _FIRST
    index, k = (bits >> 19) & 15, bits >> 23
    m = ((bits & 0x007FFFFF) + _FIRST).bitcast(np.float32).convert(np.float64)
    r = m * take(np.array(_INVERSES), index) - 1.0
    square = r * r
    whole = take(np.array([-math.log2(x) for x in _INVERSES]), index) + k.convert(np.float64)
    tail = (_LOG2[2] * r + _LOG2[3]) * square + (_LOG2[4] * r + whole)
    logarithm = (_LOG2[0] * r + _LOG2[1]) * (square * square) + tail
    exponent = clip(y.convert(np.float64) * logarithm, -200.0, 200.0)
    magic = 1.5 * 2.0**52 / _PARTS
    shifted = exponent + magic
    parts = shifted.bits - int(np.float64(magic).view(np.int64))
    r = exponent - (shifted - magic)
    root = take(np.exp2(np.arange(_PARTS) / _PARTS), (parts & (_PARTS - 1)).convert(np.int32))
    value = (_EXP2[0] * r + _EXP2[1]) * (r * r) + (_EXP2[2] * r + 1.0)
    return scale_by_power_of_two(value * root, parts >> 5).convert(np.float32)


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x)."""
    return (1.0 / sqrt(x.convert(np.float64))).convert(x.dtype)


def tan(x: Expr) -> Expr:
    """The tangent."""
    if x.dtype == np.float64:
        return real_tan(x)
    a = abs(x)
    near = a < 2.3561945  # 3 pi / 4, as far as one multiple of pi / 2 is taken off
    known = x.bits.differs(_NEVER)
    return where(near, flip_sign(_tan_near(where(near, a, 0.0), known), sign_bit(x)), real_tan(x))


def _tan_near(x: Expr, known: Expr) -> Expr:
    """tan(x) for 0 <= x < 3 pi / 4, each product rounded before it is added to: `known` holds, and nobody knows."""

    def times(a: Expr | float, b: Expr) -> Expr:
        # of a product that is selected, and not beside a constant, compilers make no fused multiply-add
        return where(known, a * b, b)

    def at_squares(square: Expr, coefficients: Sequence[float]) -> Expr:
        result = x.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = coefficient + times(square, result)
        return result

    beyond = x > _PI_4
    at_pole = (x.bits & ~15).equals(0x3FC90FD0)
    rest = (x - _PI_2) - where(at_pole, x.constant(_PI_2_MIDDLE), 0.0)
    tail = where(at_pole, x.constant(_PI_2_LOW), _PI_2_TAIL)
    angle = where(beyond, rest - tail, x)
    low = where(beyond, (rest - angle) - tail, 0.0)

    wide = abs(angle) >= _TAN_LIMIT
    negative = angle < 0.0
    size, size_low = flip_sign(angle, negative), flip_sign(low, negative)
    u = where(wide, (_PI_4 - size) + (_PI_4_LOW - size_low), angle)
    u_low = where(wide, 0.0, low)
    z = times(u, u)
    w = times(z, z)
    r, v = at_squares(w, _TAN[1::2]), times(z, at_squares(w, _TAN[2::2]))
    s = times(z, u)
    r = u_low + times(z, times(s, r + v) + u_low)
    r = r + times(_TAN[0], s)
    w = u + r
    # from the complement of pi / 4, of the tangent or of -1 / tangent
    one = where(beyond, x.constant(-1.0), 1.0)
    folded = one - times(2.0, u - (times(w, w) / (w + one) - r))
    folded = where(abs(u) < 2.0**-13, times(one, 1.0 - times(2.0, times(one, u))), folded)
    folded = flip_sign(folded, negative)
    # -1 / (u + r) from a quotient of few bits and what it leaves
    head = leading_bits(w, 12)
    left = r - (head - u)
    quotient = -1.0 / w
    few = leading_bits(quotient, 12)
    inverse = few + times(quotient, (1.0 + times(few, head)) + times(few, left))
    inverse = where(abs(angle) < 2.0**-12, -1.0 / angle, inverse)
    direct = where(abs(angle) < 2.0**-12, angle, w)
    return where(wide, folded, where(beyond, inverse, direct))
