"""The gamma function's relatives and Bessel functions, of float32 and float64 tensors."""

from __future__ import annotations

import math

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics import error_function
from veery_lowering.emit.numerics._expr import (
    Expr,
    clip,
    copy_sign,
    flip_sign,
    floor,
    leading_bits,
    maximum,
    minimum,
    polynomial,
    sqrt,
    where,
)
from veery_lowering.emit.numerics.elementary import exp, log, nearest
from veery_lowering.emit.numerics.trigonometry import sin_cos_of_angle

_INF = math.inf
_NAN = math.nan
_HALF_LOG_2PI = 0.9189385332046727
# fmt: off
# lgamma(2 + t) / t on |t| <= 1/2
_LGAMMA = {
    4: (
        0.4227843350004583, 0.3224670334689425, -0.0673522814721006, 0.020580799471518252, -0.007386174155633413,
        0.002890795321559696, -0.0011858600344983208, 0.0005065171429518161, -0.0002538170956727826,
        0.00011347281994554691,
    ),
    8: (
        0.42278433509846713, 0.3224670334241132, -0.06735230105319563, 0.02058080842778338, -0.007385551028935545,
        0.002890510330865901, -0.0011927539009983087, 0.0005096695196526673, -0.00022315497746292723,
        9.945761692157133e-05, -4.4923727564247656e-05, 2.050601970174762e-05, -9.45628851510172e-06,
        4.3828545383846665e-06, -1.9743106888421067e-06, 9.242852225162277e-07, -5.811277768921246e-07,
        2.7475390051909663e-07,
    ),
}
# e**-x I0(x) for x = 4 (u + 1) in [0, 8], by Chebyshev polynomials of u
_I0_SMALL = {
    4: (
        0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
        -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
        -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
        -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
        -1.300025009986248e-08,
    ),
    8: (
        0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
        -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
        -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
        -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
        -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
        -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
        -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17,
    ),
}
# e**-x sqrt(x) I0(x) for x = 16 / (u + 1) above 8, by Chebyshev polynomials of u
_I0_LARGE = {
    4: (
        0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
        2.0489185894690638e-07, 2.266668990498178e-08,
    ),
    8: (
        0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
        2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
        1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
        7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
        -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
        -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17,
    ),
}
# e**-x I1(x) / x for x = 4 (u + 1) in [0, 8], by Chebyshev polynomials of u
_I1_SMALL = {
    4: (
        0.25258718644363365, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
        -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
        -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
        -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    ),
    8: (
        0.25258718644363365, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
        -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
        -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
        -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
        -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
        -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
        -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    ),
}
# e**-x sqrt(x) I1(x) for x = 16 / (u + 1) above 8, by Chebyshev polynomials of u
_I1_LARGE = {
    4: (
        0.7785762350182801, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
        -2.512236237870209e-07, -2.6314688468895196e-08,
    ),
    8: (
        0.7785762350182801, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
        -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
        -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
        -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
        1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
        2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17,
    ),
}
# digamma(3/2 + t) / (3/2 + t - root) on |t| <= 1/2
_DIGAMMA = {
    4: (
        0.9510558962329134, -0.42362743473901193, 0.24053845299247192, -0.14840223752060958, 0.09511622179338902,
        -0.062007068861342586, 0.03936941933941425, -0.02604888222714401, 0.023909071438577043, -0.01590631756163065,
    ),
    8: (
        0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884, 0.09498872445494122,
        -0.061922133273064534, 0.04076083381242074, -0.02697579675613825, 0.0179072524394512, -0.011908218001568644,
        0.007926944646403797, -0.005279964873257405, 0.003519006401502276, -0.002345267632540769, 0.0015566317474486838,
        -0.0010376374098418604, 0.0007233266279287554, -0.0004821990530566789, 0.0002272331660987376,
        -0.00015148586836773365, 0.00025968482126430747, -0.00017312261802727394,
    ),
}
# (1 + 2 x) e**x**2 erfc(x) for x = 3.75 (1 + u) / (1 - u) in [0, inf), by Chebyshev polynomials of u
_ERFCX = {
4: (
    2.3551578691348034, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189, -0.026658668435305753,
    0.009074997670705265, -0.002413163540417608, 0.0004907758365258086, -6.916973302501207e-05,
    4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07, 1.076499946567091e-08,
),
8: (
    2.3551578691348034, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189, -0.026658668435305753,
    0.009074997670705265, -0.002413163540417608, 0.0004907758365258086, -6.916973302501207e-05,
    4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07, 1.076499946567091e-08,
    4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11, 2.86879501093067e-11,
    1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14, 3.3478119482868056e-14,
    -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17, 5.068148904796111e-17,
),
}
# the root of digamma, to one precision and what that leaves
_DIGAMMA_ROOT = {4: (1.4616321325302124, 1.2438149938918909e-08), 8: (1.4616321449683622, 9.549995429965697e-17)}
# fmt: on


def _terms(x: Expr, table: dict[int, tuple[float, ...]]) -> tuple[float, ...]:
    return table[x.dtype.itemsize]


def sin_pi(x: Expr) -> Expr:
    """sin(pi x) without the rounding of pi x: exactly 0 at integers."""
    limit = 1.5 * 2.0 ** (np.finfo(x.dtype).nmant - 2)
    limited = clip(x, -limit, limit)
    whole = nearest(limited)
    r = limited - whole
    a = abs(r)
    steep = a > 0.25
    sine, cosine = sin_cos_of_angle(where(steep, 0.5 - a, a) * math.pi)
    odd = (0.5 * whole).differs(nearest(0.5 * whole))
    return flip_sign(copy_sign(where(steep, cosine, sine), r), odd)


def lgamma(x: Expr) -> Expr:
    """log |gamma(x)|; exactly 0 at 1 and 2, infinite at 0, -1, -2, ..."""
    reflected = x <= -0.5
    a = where(reflected, -x, x)
    # Steps up to, or down to, [1.5, 2.5); with t = result - 2 exact.
    up_two, up_one, large = a < 0.5, a < 1.5, a >= 8.5
    shifted = where(up_one, 2.0, where(large, 2.0, a))
    product = a.constant(1.0)
    for _ in range(6):
        above = shifted >= 2.5
        shifted = where(above, shifted - 1.0, shifted)
        product = where(above, product * shifted, product)
    t = where(up_two, a, where(up_one, a - 1.0, shifted - 2.0))
    factor = where(up_two, abs(a * (a + 1.0)), where(up_one, a, where(large, a, product)))
    logarithm = log(factor)
    near = t * polynomial(t, _terms(x, _LGAMMA)) + where(up_one, -logarithm, logarithm)
    far = (a - 0.5) * (logarithm - 1.0) + (_HALF_LOG_2PI - 0.5 + _stirling(1.0 / a))
    positive = where(large, far, near)
    mirrored = log(math.pi / (a * abs(sin_pi(a)))) - positive
    result = where(reflected, mirrored, positive)
    pole = reflected & floor(a).equals(a)
    return where(abs(x).equals(_INF) | pole | x.equals(0.0), _INF, result)


def _stirling(w: Expr) -> Expr:
    """The asymptotic series of lgamma in w = 1 / x, for x >= 8."""
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
    return w * polynomial(w * w, terms[: 3 if w.dtype == np.float32 else 8])


def digamma(x: Expr) -> Expr:
    """The derivative of lgamma; NaN at 0, -1, -2, ..."""
    reflected = x < 0.5
    a = where(reflected, 1.0 - x, x)
    correction, y = a.constant(0.0), a
    for _ in range(6 if x.dtype == np.float32 else 10):
        small = y < (6.0 if x.dtype == np.float32 else 10.0)
        correction = correction + where(small, 1.0 / y, 0.0)
        y = where(small, y + 1.0, y)
    w = 1.0 / y
    terms = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    series = w * w * polynomial(w * w, terms[: 4 if x.dtype == np.float32 else 7])
    positive = (log(y) - 0.5 * w - series) - correction
    # About the root the sum would cancel.
    root, rest = _DIGAMMA_ROOT[x.dtype.itemsize]
    middle = (a > 1.0) & (a < 2.0)
    near = ((a - root) - rest) * polynomial(a - 1.5, _terms(x, _DIGAMMA))
    positive = where(middle, near, positive)
    mirrored = positive - math.pi * _cos_pi(x) / sin_pi(x)
    result = where(reflected, mirrored, positive)
    return where((x <= 0.0) & floor(x).equals(x), _NAN, result)


def _cos_pi(x: Expr) -> Expr:
    """cos(pi x)."""
    whole = nearest(x)
    # cos(pi x) = sin(pi (1/2 - |r|)) up to the sign of the whole part
    r = abs(x - whole)
    odd = (0.5 * whole).differs(nearest(0.5 * whole))
    return flip_sign(sin_pi(0.5 - r), odd)


def zeta(x: Expr, q: Expr) -> Expr:
    """Hurwitz' zeta function: the sum of (k + q)**-x for k = 0, 1, ...; for q < 0 NaN unless x is whole.

    The operation takes q + 9 for large, and powers of numbers below 0 for real. So of the terms below 0 magnitudes are
    added apart: those from the fraction 1 - f on, without those from 1 - q on.
    """
    mirrored = (q < 0.0) & floor(q).differs(q) & (x > 1.0)
    upper = -floor(-q)
    right = _zeta_of_positive(x, where(mirrored, q - floor(q), q))
    left = _zeta_of_positive(x, where(mirrored, upper - q, 1.0)) - _zeta_of_positive(x, where(mirrored, 1.0 - q, 1.0))
    odd = floor(0.5 * x).differs(0.5 * x)
    both = where(floor(x).differs(x), _NAN, right + flip_sign(left, odd))
    return where(mirrored, both, right)


def _zeta_of_positive(x: Expr, q: Expr) -> Expr:
    return Expr(hlo.zeta(x.value, q.value))


def polygamma(n: Expr, x: Expr) -> Expr:
    """The n-th derivative of digamma: (-1)**(n + 1) n! zeta(n + 1, x); n is a whole number."""
    even = floor(0.5 * n).equals(0.5 * n)
    result = flip_sign(exp(lgamma(n + 1.0)) * zeta(n + 1.0, x), even)
    result = where(n.equals(0.0), digamma(x), result)
    return where((n < 0.0) | floor(n).differs(n), _NAN, result)


def _chebyshev(u: Expr, coefficients: tuple[float, ...]) -> Expr:
    """c[0] / 2 + c[1] T1(u) + c[2] T2(u) + ... by Clenshaw's rule."""
    double = 2.0 * u
    current, before = u.constant(coefficients[-1]), u.constant(0.0)
    for coefficient in reversed(coefficients[1:-1]):
        current, before = double * current - before + coefficient, current
    return u * current - before + 0.5 * coefficients[0]


def bessel_i0e(x: Expr) -> Expr:
    """e**-|x| I0(x)."""
    a = abs(x)
    small = _chebyshev(minimum(a, 8.0) * 0.25 - 1.0, _terms(x, _I0_SMALL))
    far = maximum(a, 8.0)
    return where(a <= 8.0, small, _chebyshev(16.0 / far - 1.0, _terms(x, _I0_LARGE)) / sqrt(far))


def bessel_i1e(x: Expr) -> Expr:
    """e**-|x| I1(x)."""
    a = abs(x)
    small = a * _chebyshev(minimum(a, 8.0) * 0.25 - 1.0, _terms(x, _I1_SMALL))
    far = maximum(a, 8.0)
    large = _chebyshev(16.0 / far - 1.0, _terms(x, _I1_LARGE)) / sqrt(far)
    return copy_sign(where(a <= 8.0, small, large), x)


def erf(x: Expr) -> Expr:
    """The error function. IREE's loses the sign of zero."""
    return copy_sign(Expr(hlo.erf(x.value)), x)


def erfc(x: Expr) -> Expr:
    """1 - erf(x), to a few ulp as long as it is a normal number: IREE's loses the digits that rounding x**2 costs."""
    a = minimum(abs(x), 12.0 if x.dtype == np.float32 else 30.0)
    head = leading_bits(a, 12 if x.dtype == np.float32 else 26)
    scaled = _chebyshev((a - 3.75) / (a + 3.75), _terms(x, _ERFCX)) / (1.0 + 2.0 * a)
    tail = scaled * exp(-(head * head)) * exp((head - a) * (a + head))
    result = where(x < 0.0, 2.0 - tail, tail)
    near = error_function.erf(x) if x.dtype == np.float32 else Expr(hlo.erf(x.value))
    return where(abs(x) < 0.5, 1.0 - near, result)


def erf_inv(x: Expr) -> Expr:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    a = abs(x)
    inside = Expr(hlo.erf_inv(minimum(a, 1.0).value))
    return copy_sign(where(a > 1.0, _NAN, where(a.equals(1.0), _INF, inside)), x)
