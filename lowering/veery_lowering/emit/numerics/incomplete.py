"""Incomplete gamma and beta functions: power series and continued fractions, iterated until all elements converge.

Derivatives with respect to the shape are those of the series, term by term, beside its value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import Expr, is_nan, maximum, sqrt, where
from veery_lowering.emit.numerics.elementary import exp, log, log1p
from veery_lowering.emit.numerics.gamma import digamma, lgamma

_INF = math.inf
_NAN = math.nan
_LIMIT = 2000
State = tuple[Expr, ...]


def _any(flags: Expr) -> hlo.Value:
    rank = len(hlo.shape_of(flags.value))
    return hlo.reduce(flags.value, hlo.full(False, (), bool), range(rank), hlo.or_)


def _iterate(start: State, active: Expr, step: Callable[[State], tuple[State, Expr]]) -> State:
    """Repeat `step`, from a state to (state, whether to go on), where it is still wanted, at most 2000 times."""

    def condition(count: hlo.Value, going: hlo.Value, *_: hlo.Value) -> hlo.Value:
        return hlo.and_(hlo.compare(count, hlo.full(_LIMIT, (), np.int32), "LT"), _any(Expr(going)))

    def body(count: hlo.Value, going: hlo.Value, *values: hlo.Value) -> Sequence[hlo.Value]:
        old = tuple(map(Expr, values))
        new, wanted = step(old)
        flags = Expr(going)
        kept = [where(flags, n, o).value for n, o in zip(new, old)]
        return [hlo.add(count, hlo.full(1, (), np.int32)), (flags & wanted).value, *kept]

    results = hlo.while_([hlo.full(0, (), np.int32), active.value, *(x.value for x in start)], condition, body)
    return tuple(map(Expr, results[2:]))


def _epsilon(x: Expr) -> float:
    return float(np.finfo(x.dtype).eps)


def _series(a: Expr, x: Expr, active: Expr, with_derivative: bool) -> tuple[Expr, Expr]:
    """sum x**n / ((a + 1) ... (a + n)) and its derivative by a."""
    zero, one = a.constant(0.0), a.constant(1.0)

    def step(state: State) -> tuple[State, Expr]:
        total, term, r, slope, slope_term = state
        r = r + 1.0
        slope_term = slope_term * (x / r) - term * x / (r * r)
        slope = slope + slope_term
        term = term * (x / r)
        total = total + term
        going = term > total * _epsilon(a)
        if with_derivative:
            going = going | (abs(slope_term) > abs(slope) * _epsilon(a))
        return (total, term, r, slope, slope_term), going

    total, _, _, slope, _ = _iterate((one, one, a, zero, zero), active, step)
    return total, slope


def _fraction(a: Expr, x: Expr, active: Expr, with_derivative: bool) -> tuple[Expr, Expr]:
    """The continued fraction of e**x x**-a gamma(a, x), gamma(a, x) the upper integral, and its derivative by a."""
    # Where the first denominators would overflow, the density by which this is multiplied is 0: any number serves.
    endless = x - a > sqrt(float(np.finfo(x.dtype).max) / x) * 2.0**-6
    a, x = where(endless, 1.0, a), where(endless, 2.0, x)
    zero, one = a.constant(0.0), a.constant(1.0)
    big = 1.0 / _epsilon(a)
    y = 1.0 - a
    z = x + y + 1.0
    p1, q1 = x + 1.0, z * x
    answer = p1 / q1
    # c, y, z; p and q two back and one back; the same four derived; answer, its derivative
    start = (zero, y, z, one, x, p1, q1, zero, zero, zero, -x, answer, answer * x / q1)

    def step(s: State) -> tuple[State, Expr]:
        c, y, z, p2, q2, p1, q1, dp2, dq2, dp1, dq1, answer, slope = s
        c, y, z = c + 1.0, y + 1.0, z + 2.0
        yc = y * c
        p, q = p1 * z - p2 * yc, q1 * z - q2 * yc
        dp, dq = dp1 * z - p1 - dp2 * yc + p2 * c, dq1 * z - q1 - dq2 * yc + q2 * c
        good = q.differs(0.0)
        divisor = where(good, q, 1.0)
        new = where(good, p / divisor, answer)
        new_slope = where(good, (dp - new * dq) / divisor, slope)
        going = abs(new - answer) > abs(new) * _epsilon(a)
        if with_derivative:
            going = going | (abs(new_slope - slope) > _epsilon(a) * maximum(abs(new_slope), 1e-30))
        shrink = where(abs(p) > big, a.constant(_epsilon(a)), 1.0)
        pairs = [v * shrink for v in (p1, q1, p, q, dp1, dq1, dp, dq)]
        return (c, y, z, *pairs, new, new_slope), going

    results = _iterate(start, active, step)
    return results[-2], results[-1]


def _gamma_setup(a: Expr, x: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """(whether arguments are ordinary, whether the fraction serves, a and x made harmless elsewhere)."""
    ordinary = (a > 0.0) & (x > 0.0) & (a < _INF) & (x < _INF)
    a, x = where(ordinary, a, 1.0), where(ordinary, x, 1.0)
    return ordinary, (x > 1.0) & (x > a), a, x


def density(a: Expr, x: Expr) -> Expr:
    """x**a e**-x / gamma(a). It errs by as many units in the last place as the terms of its logarithm are large."""
    return exp(a * log(x) - x - lgamma(a))


def beta_density(a: Expr, b: Expr, x: Expr) -> Expr:
    """x**a (1 - x)**b / beta(a, b), with errors as those of `density`."""
    return exp(a * log(x) + b * log1p(-x) + (lgamma(a + b) - lgamma(a) - lgamma(b)))


def in_float64(formula: Callable[..., Expr]) -> Callable[..., Expr]:
    """A formula of float32 values computed in float64, and rounded once."""

    def wide(*operands: Expr) -> Expr:
        if operands[0].dtype != np.float32:
            return formula(*operands)
        return formula(*[x.convert(np.float64) for x in operands]).convert(np.float32)

    return wide


Density = Callable[..., Expr]
_density, _beta_density = in_float64(density), in_float64(beta_density)


def _gamma_special(a: Expr, x: Expr, result: Expr, at_zero: float, at_infinity: float) -> Expr:
    """Values at the ends of the domain, and NaN outside."""
    result = where(x.equals(0.0) | a.equals(_INF), at_zero, where(x.equals(_INF), at_infinity, result))
    result = where(a.equals(0.0) & (x > 0.0), at_infinity, result)
    outside = (x < 0.0) | (a < 0.0) | (x.equals(0.0) & a.equals(0.0)) | (x.equals(_INF) & a.equals(_INF))
    return where(outside | is_nan(a) | is_nan(x), _NAN, result)


def igamma(a: Expr, x: Expr, density: Density = _density) -> Expr:
    """The regularised lower incomplete gamma function."""
    ordinary, far, b, y = _gamma_setup(a, x)
    weight = density(b, y)
    series, _ = _series(where(far, 1.0, b), where(far, 0.5, y), ordinary & ~far, False)
    fraction, _ = _fraction(b, where(far, y, b + 2.0), ordinary & far, False)
    return _gamma_special(a, x, where(far, 1.0 - fraction * weight, series * weight / b), 0.0, 1.0)


def igammac(a: Expr, x: Expr, density: Density = _density) -> Expr:
    """The regularised upper incomplete gamma function."""
    ordinary, far, b, y = _gamma_setup(a, x)
    weight = density(b, y)
    series, _ = _series(where(far, 1.0, b), where(far, 0.5, y), ordinary & ~far, False)
    fraction, _ = _fraction(b, where(far, y, b + 2.0), ordinary & far, False)
    return _gamma_special(a, x, where(far, fraction * weight, 1.0 - series * weight / b), 1.0, 0.0)


def _gamma_slopes(a: Expr, x: Expr, ordinary: Expr, far: Expr) -> tuple[Expr, Expr]:
    """Derivatives of igamma by a, over the density: from the series, and from the fraction."""
    low = where(far, 1.0, a), where(far, 0.5, x)
    series, series_slope = _series(*low, ordinary & ~far, True)
    high = where(far, x, a + 2.0)
    fraction, fraction_slope = _fraction(a, high, ordinary & far, True)
    # d log(x**a / gamma(a)) / da; the series has 1 / gamma(a + 1)
    common = log(x) - digamma(a)
    from_series = (series_slope + series * (common - 1.0 / a)) / a
    return from_series, -(fraction_slope + fraction * common)


def igamma_grad_a(a: Expr, x: Expr, density: Density = _density) -> Expr:
    """The derivative of igamma by its first argument."""
    ordinary, far, b, y = _gamma_setup(a, x)
    from_series, from_fraction = _gamma_slopes(b, y, ordinary, far)
    return _gamma_special(a, x, where(far, from_fraction, from_series) * density(b, y), 0.0, 0.0)


def random_gamma_grad(a: Expr, x: Expr) -> Expr:
    """The derivative by a of a gamma variate x with shape a: -(d igamma / da) / (d igamma / dx)."""
    ordinary, far, b, y = _gamma_setup(a, x)
    from_series, from_fraction = _gamma_slopes(b, y, ordinary, far)
    result = -where(far, from_fraction, from_series) * y
    return _gamma_special(a, x, result, 0.0, _NAN)


def _beta_fraction(a: Expr, b: Expr, x: Expr, active: Expr) -> Expr:
    """The continued fraction of the incomplete beta function, by Lentz's method, for x below (a + 1) / (a + b + 2)."""
    tiny = 1e-30
    one = a.constant(1.0)

    def guarded(v: Expr) -> Expr:
        return where(abs(v) < tiny, tiny, v)

    d = 1.0 / guarded(1.0 - (a + b) * x / (a + 1.0))

    def step(state: State) -> tuple[State, Expr]:
        m, c, d, h = state
        m = m + 1.0
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d, c = 1.0 / guarded(1.0 + even * d), guarded(1.0 + even / c)
        h = h * d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d, c = 1.0 / guarded(1.0 + odd * d), guarded(1.0 + odd / c)
        change = d * c
        return (m, c, d, h * change), abs(change - 1.0) > _epsilon(a)

    return _iterate((a.constant(0.0), one, d, d), active, step)[3]


def regularized_incomplete_beta(a: Expr, b: Expr, x: Expr, density: Density = _beta_density) -> Expr:
    """The regularised incomplete beta function I_x(a, b)."""
    ordinary = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (a < _INF) & (b < _INF)
    p, q, y = (where(ordinary, v, c) for v, c in ((a, 1.0), (b, 1.0), (x, 0.5)))
    mirrored = y > (p + 1.0) / (p + q + 2.0)
    p1, q1, y1 = where(mirrored, q, p), where(mirrored, p, q), where(mirrored, 1.0 - y, y)
    value = density(p, q, y) * _beta_fraction(p1, q1, y1, ordinary) / p1
    result = where(mirrored, 1.0 - value, value)
    # Degenerate shapes put all the weight at 0 or at 1.
    at_zero = a.equals(0.0) | b.equals(_INF)
    result = where(ordinary, result, where(at_zero, 1.0, a.constant(0.0)))
    result = where(x.equals(0.0), 0.0, where(x.equals(1.0), 1.0, result))
    outside = (a < 0.0) | (b < 0.0) | (x < 0.0) | (x > 1.0)
    vague = (a.equals(0.0) & b.equals(0.0)) | (a.equals(_INF) & b.equals(_INF))
    return where(outside | vague | is_nan(a) | is_nan(b) | is_nan(x), _NAN, result)
