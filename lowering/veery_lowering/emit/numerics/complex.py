"""Elementary functions of complex tensors, as pairs of real ones.

Branch cuts, signed zeros and infinities follow C99 (and so NumPy). The inverse functions are Kahan's ("Branch cuts for
complex elementary functions", 1987), which lose no digits near the branch points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics import elementary, real
from veery_lowering.emit.numerics._expr import (
    Expr,
    copy_sign,
    is_nan,
    leading_bits,
    maximum,
    minimum,
    sign_bit,
    sqrt,
    where,
)
from veery_lowering.emit.numerics.elementary import sin_cos
from veery_lowering.emit.numerics.trigonometry import tan as real_tan
from veery_lowering.stablehlo import Value

# log 2 less its leading bits, of so many of them
_LOG_2_REST = {12: 3.194618494530942e-05, 26: 1.2996506893889884e-08}
# Beyond these sizes of its larger part, by the bytes of a part, a number is scaled before it is squared, and by what.
_SCALED = {4: (2.0**60, 2.0**-48, 2.0**-72), 8: (2.0**500, 2.0**-480, 2.0**-540)}
_INF = math.inf
_NAN = math.nan


class Complex(NamedTuple):
    """Real and imaginary part."""

    re: Expr
    im: Expr

    @classmethod
    def of(cls, value: Value) -> Complex:
        """The parts of a complex tensor."""
        return cls(Expr(hlo.real(value)), Expr(hlo.imag(value)))

    @property
    def value(self) -> Value:
        """The complex tensor."""
        return hlo.complex(self.re.value, self.im.value)

    def times_i(self) -> Complex:
        """i z."""
        return Complex(-self.im, self.re)

    def times_minus_i(self) -> Complex:
        """-i z."""
        return Complex(self.im, -self.re)

    def negative(self) -> Complex:
        """-z."""
        return Complex(-self.re, -self.im)


def choose(condition: Expr, on_true: Complex, on_false: Complex) -> Complex:
    """Elementwise selection."""
    return Complex(where(condition, on_true.re, on_false.re), where(condition, on_true.im, on_false.im))


def _is_infinite(z: Complex) -> Expr:
    return abs(z.re).equals(_INF) | abs(z.im).equals(_INF)


def _scaled_modulus(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """|x + iy| * scale and the scale, a power of two that keeps the squares within range.

    That of the smaller part, too, as long as it counts: of 9e-19 + 1e-19i it would be subnormal, and so 0.
    """
    most, least, step = _SCALED[x.dtype.itemsize]
    largest = maximum(abs(x), abs(y))
    scale = where(largest > most, x.constant(step), where(largest < least, x.constant(1 / step), 1.0))
    x, y = x * scale, y * scale
    return sqrt(x * x + y * y), scale


def modulus(z: Complex) -> Expr:
    """|z|, infinite if a part is, whatever the other."""
    length, scale = _scaled_modulus(*z)
    return where(_is_infinite(z), _INF, length / scale)


def sign(z: Complex) -> Complex:
    """z / |z|, and z where that is 0."""
    length, scale = _scaled_modulus(*z)
    return choose(length.equals(0.0), z, Complex(z.re * scale / length, z.im * scale / length))


def _split_square(x: Expr) -> tuple[Expr, Expr]:
    """x**2 as an exact head and a tail."""
    head = leading_bits(x, 12 if x.dtype == np.float32 else 26)
    tail = x - head
    return head * head, 2.0 * head * tail + tail * tail


def _two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b as the rounded sum and what it lost."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _log_modulus(x: Expr, y: Expr, lost: Expr | float = 0.0) -> Expr:
    """log|x + lost + iy|; near the unit circle from |z|**2 - 1, computed in twice the precision."""
    ax, ay = abs(x), abs(y)
    m, n = maximum(ax, ay), minimum(ax, ay)
    near = (m > 0.5) & (m < 2.0)
    m, n = where(near, m, 1.0), where(near, n, 0.0)
    # with d = m - 1, which is exact: |z|**2 - 1 = 2 d + d**2 + n**2
    (d_head, d_tail), (n_head, n_tail) = _split_square(m - 1.0), _split_square(n)
    total, rest = _two_sum(2.0 * (m - 1.0), n_head)
    total, more = _two_sum(total, d_head)
    close = 0.5 * real.log1p(total + (rest + more + (d_tail + n_tail + 2.0 * x * lost)))
    length, scale = _scaled_modulus(x, y)
    step = 72 if x.dtype == np.float32 else 540
    shift = where(scale > 1.0, x.constant(-step * math.log(2)), where(scale < 1.0, x.constant(step * math.log(2)), 0.0))
    far = where(ax.equals(_INF) | ay.equals(_INF), _INF, real.log(length) + shift)
    return where(near, close, far)


def log(z: Complex) -> Complex:
    """The principal logarithm."""
    return Complex(_log_modulus(*z), real.atan2(z.im, z.re))


def log1p(z: Complex) -> Complex:
    """log(1 + z), accurate near 0."""
    x, y = z
    u = 1.0 + x
    small = (abs(x) < 0.5) & (abs(y) < 0.5)
    # |1 + z|**2 - 1 = 2x + y**2 + x**2
    sx, sy = where(small, x, 0.0), where(small, y, 0.0)
    head, tail = _split_square(sy)
    total, rest = _two_sum(2.0 * sx, head)
    close = 0.5 * real.log1p(total + (rest + (tail + sx * sx)))
    return Complex(where(small, close, _log_modulus(u, y, where(abs(x) < 4.0, x - (u - 1.0), 0.0))), real.atan2(y, u))


def _times_exp(x: Expr, re: Expr, im: Expr) -> Complex:
    """(re + i im) e**x, whose parts may be finite where e**x is not."""
    large = x > 80.0
    factor = elementary.exp(where(large, 0.5 * x, x))
    second = where(large, factor, 1.0)
    return Complex(re * factor * second, im * factor * second)


def exp(z: Complex) -> Complex:
    """e**z."""
    return _turned_exp(z.re, z.im, *sin_cos(z.im))


def _turned_exp(x: Expr, y: Expr, sine: Expr, cosine: Expr) -> Complex:
    """(cosine + i sine) e**x, as it is where y, of which those are, is not finite or 0."""
    re, im = _times_exp(x, cosine, sine)
    wild = abs(y).equals(_INF) | is_nan(y)
    re, im = where(wild & x.equals(_INF), _INF, re), where(y.equals(0.0), y, im)
    gone = x.equals(-_INF) & wild
    return Complex(where(gone, 0.0, re), where(gone, 0.0, im))


def exp2(z: Complex) -> Complex:
    """2**z. z log 2 is a sum of two numbers, as one alone loses as many digits as its size has."""
    (exponent, rest), (angle, more) = _times_log_2(z.re), _times_log_2(z.im)
    (s, c), (t, d) = sin_cos(angle), sin_cos(more)
    whole = _turned_exp(exponent, z.im, s * d + c * t, c * d - s * t)
    factor = elementary.exp(where(abs(z.re) < 1e4, rest, 0.0))
    return Complex(whole.re * factor, whole.im * factor)


def _times_log_2(x: Expr) -> tuple[Expr, Expr]:
    """x log 2 as an exact product and what it lacks."""
    count = 12 if x.dtype == np.float32 else 26
    head = leading_bits(x, count)
    log = math.floor(math.log(2) * 2**count) / 2**count
    return head * log, head * _LOG_2_REST[count] + (x - head) * math.log(2)


def expm1(z: Complex) -> Complex:
    """e**z - 1."""
    x, y = z
    whole = exp(z)
    half_sine, _ = sin_cos(0.5 * y)
    _, cosine = sin_cos(y)
    # A zero is positive, as the array API wants.
    near = elementary.expm1(x) * cosine + (0.0 - 2.0 * half_sine * half_sine)
    return Complex(where(abs(x) < 2.0, near, whole.re - 1.0), whole.im)


def _hyperbolic(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(sinh x, cosh x, 1), or beyond 80 (+-e**|x/2| / 2, e**|x/2| / 2, e**|x/2|): the last is a factor to both."""
    large = abs(x) > 80.0
    inner = where(large, 0.0, x)
    half = 0.5 * elementary.exp(0.5 * abs(x))
    sinh, cosh = elementary.sinh(inner), elementary.cosh(inner)
    factor = where(large, 2.0 * half, 1.0)
    return where(large, copy_sign(half, x), sinh), where(large, half, cosh), factor


def sinh(z: Complex) -> Complex:
    """The hyperbolic sine."""
    x, y = z
    sine, cosine = sin_cos(y)
    s, c, factor = _hyperbolic(x)
    re = where(x.equals(0.0), copy_sign(x.constant(0.0), s * cosine), s * cosine * factor)
    im = where(y.equals(0.0), y, c * sine * factor)
    wild = abs(y).equals(_INF) | is_nan(y)
    re = where(wild & x.equals(0.0), x, where(wild & abs(x).equals(_INF), x, re))
    return Complex(re, im)


def cosh(z: Complex) -> Complex:
    """The hyperbolic cosine."""
    x, y = z
    sine, cosine = sin_cos(y)
    s, c, factor = _hyperbolic(x)
    im = s * sine * factor
    flat = y.equals(0.0) | x.equals(0.0)
    im = where(flat, copy_sign(x.constant(0.0), copy_sign(x.constant(1.0), x) * copy_sign(x.constant(1.0), y)), im)
    wild = abs(y).equals(_INF) | is_nan(y)
    return Complex(where(wild & abs(x).equals(_INF), _INF, c * cosine * factor), im)


def sin(z: Complex) -> Complex:
    """The sine: -i sinh(iz)."""
    return sinh(z.times_i()).times_minus_i()


def cos(z: Complex) -> Complex:
    """The cosine: cosh(iz)."""
    return cosh(z.times_i())


def tanh(z: Complex) -> Complex:
    """The hyperbolic tangent."""
    x, y = z
    large = abs(x) > 20.0
    inner = where(large, 0.0, x)
    t = real_tan(y)
    beta = 1.0 + t * t
    s = real.sinh(inner)
    denominator = 1.0 + beta * s * s
    sine, cosine = sin_cos(y)
    faint = 4.0 * sine * cosine * real.exp(-2.0 * abs(x))
    re = where(large, copy_sign(x.constant(1.0), x), beta * sqrt(1.0 + s * s) * s / denominator)
    im = where(large, where(abs(x).equals(_INF), copy_sign(x.constant(0.0), y), faint), t / denominator)
    re = where(is_nan(x) | (is_nan(t) & ~abs(x).equals(_INF)), _NAN, re)
    return Complex(where(x.equals(0.0), x, re), where(y.equals(0.0), y, im))


def tan(z: Complex) -> Complex:
    """The tangent: -i tanh(iz)."""
    return tanh(z.times_i()).times_minus_i()


def square_root(z: Complex) -> Complex:
    """The principal square root."""
    x, y = z
    most, least, step = _SCALED[x.dtype.itemsize]
    largest = maximum(abs(x), abs(y))
    large, small = largest > most, largest < least
    scale = where(large, x.constant(step), where(small, x.constant(1 / step), 1.0))
    back = where(large, x.constant(step**-0.5), where(small, x.constant(step**0.5), 1.0))
    sx, sy = x * scale, y * scale
    major = sqrt(0.5 * (sqrt(sx * sx + sy * sy) + abs(sx)))
    minor = where(major.equals(0.0), 0.0, abs(sy) / (2.0 * major))
    major, minor = major * back, minor * back
    left = sign_bit(x)
    re, im = where(left, minor, major), copy_sign(where(left, major, minor), y)
    re = where(x.equals(_INF), _INF, where(x.equals(-_INF), where(is_nan(y), _NAN, x.constant(0.0)), re))
    flat = where(is_nan(y), y, copy_sign(x.constant(0.0), y))
    im = where(x.equals(_INF), flat, where(x.equals(-_INF), copy_sign(x.constant(_INF), y), im))
    endless = abs(y).equals(_INF)
    return Complex(where(endless, _INF, re), where(endless, y, im))


def square(z: Complex) -> Complex:
    """z * z, its real part as (x - y) (x + y), which keeps its digits near |x| = |y| and is 0 there, as by XLA."""
    x, y = z
    alike = abs(x).equals(abs(y)) & (abs(x) < _INF)
    return Complex(where(alike, 0.0, (x - y) * (x + y)), 2.0 * (x * y))


def quotient(a: Complex, b: Complex) -> Complex:
    """a / b, by Smith's formula ("Algorithm 116: Complex division", 1962), as in NumPy.

    IREE squares the parts of b, so that its quotients are NaN or 0 for float32 beyond 1e19 and below 1e-19, and by 0.
    """
    most, least = (2.0**125, 2.0**-100) if a.re.dtype == np.float32 else (2.0**1021, 2.0**-950)
    size = maximum(abs(b.re), abs(b.im))
    # Both are made smaller where sums would overflow, and larger where quotients would be rounded to nothing.
    scale = where(size > most, size.constant(0.0625), where(size < least, size.constant(2.0**24), 1.0))
    steep = abs(b.re) < abs(b.im)
    c, d = (choose(steep, z.times_minus_i(), z) for z in (a, b))
    c, d = (Complex(z.re * scale, z.im * scale) for z in (c, d))
    ratio = where(size.equals(0.0), size, d.im / d.re)
    divisor = d.re + d.im * ratio
    return Complex((c.re + c.im * ratio) / divisor, (c.im - c.re * ratio) / divisor)


def reciprocal(z: Complex) -> Complex:
    """1 / z."""
    return quotient(Complex(z.re.constant(1.0), z.re.constant(0.0)), z)


def reciprocal_square_root(z: Complex) -> Complex:
    """1 / sqrt(z)."""
    return reciprocal(square_root(z))


def logistic(z: Complex) -> Complex:
    """1 / (1 + e**-z)."""
    e = exp(z.negative())
    return reciprocal(Complex(1.0 + e.re, e.im))


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    x, y = z
    return square_root(Complex(1.0 - x, -y)), square_root(Complex(1.0 + x, y))


def asin(z: Complex) -> Complex:
    """The arc sine."""
    x, y = z
    minus, plus = _roots(z)
    re = real.atan2(x, minus.re * plus.re - minus.im * plus.im)
    im = real.asinh(minus.re * plus.im - minus.im * plus.re)
    endless = Complex(real.atan2(x, abs(y)), copy_sign(x.constant(_INF), y))
    return choose(_is_infinite(z), endless, Complex(where(x.equals(0.0), x, re), im))


def acos(z: Complex) -> Complex:
    """The arc cosine."""
    x, y = z
    minus, plus = _roots(z)
    re = where(x.equals(0.0), math.pi / 2, 2.0 * real.atan2(minus.re, plus.re))
    im = real.asinh(plus.re * minus.im - plus.im * minus.re)
    endless = Complex(real.atan2(abs(y), x), -copy_sign(x.constant(_INF), y))
    return choose(_is_infinite(z), endless, Complex(re, im))


def acosh(z: Complex) -> Complex:
    """The inverse hyperbolic cosine."""
    x, y = z
    minus, plus = square_root(Complex(x - 1.0, y)), square_root(Complex(x + 1.0, y))
    re = real.asinh(minus.re * plus.re + minus.im * plus.im)
    im = 2.0 * real.atan2(minus.im, plus.re)
    endless = Complex(x.constant(_INF), real.atan2(y, x))
    return choose(_is_infinite(z), endless, Complex(re, im))


def asinh(z: Complex) -> Complex:
    """The inverse hyperbolic sine: i asin(-iz)."""
    return asin(z.times_minus_i()).times_i()


def atanh(z: Complex) -> Complex:
    """The inverse hyperbolic tangent."""
    x, y = abs(z.re), z.im
    length, scale = _scaled_modulus(1.0 - x, y)
    distance = length / scale
    re = 0.25 * real.log1p(4.0 * (x / distance) / distance)
    # From here on the angle is pi / 2 but for less than its precision, and squares might overflow.
    limit = 2.0**26 if x.dtype == np.float32 else 2.0**55
    a, b = minimum(x, limit), minimum(abs(y), limit)
    im = 0.5 * real.atan2(2.0 * y, (1.0 - a) * (1.0 + a) - b * b)
    far = (x >= limit) | (abs(y) >= limit)  # beside a NaN too
    im = where(far, copy_sign(y.constant(math.pi / 2), y), im)
    re = where(_is_infinite(z) | x.equals(0.0), 0.0, re)
    return Complex(copy_sign(re, z.re), im)


def atan(z: Complex) -> Complex:
    """The arc tangent: -i atanh(iz)."""
    return atanh(z.times_i()).times_minus_i()


def atan2(y: Complex, x: Complex) -> Complex:
    """-i log((x + i y) / sqrt(x**2 + y**2))."""
    product = Complex.of(hlo.add(hlo.multiply(x.value, x.value), hlo.multiply(y.value, y.value)))
    top = Complex(x.re - y.im, x.im + y.re)
    return log(quotient(top, square_root(product))).times_minus_i()


def power(z: Complex, w: Complex) -> Complex:
    """e**(w log z); 1 where w is 0, 0 for a zero base with a positive exponent."""
    logarithm = log(z)
    product = Complex.of(hlo.multiply(w.value, logarithm.value))
    zero = z.re.equals(0.0) & z.im.equals(0.0)
    result = exp(product)
    nothing, unit = z.re.constant(0.0), z.re.constant(1.0)
    result = choose(zero & (w.re > 0.0), Complex(nothing, nothing), result)
    return choose(w.re.equals(0.0) & w.im.equals(0.0), Complex(unit, nothing), result)


def greater(a: Complex, b: Complex) -> Complex:
    """The lexicographic maximum; NaN wins."""
    return choose(_nan_of(a) | (_after(a, b) & ~_nan_of(b)), a, b)


def smaller(a: Complex, b: Complex) -> Complex:
    """The lexicographic minimum; NaN wins."""
    return choose(_nan_of(a) | (_after(b, a) & ~_nan_of(b)), a, b)


def _nan_of(z: Complex) -> Expr:
    return is_nan(z.re) | is_nan(z.im)


def _after(a: Complex, b: Complex) -> Expr:
    return (a.re > b.re) | (a.re.equals(b.re) & (a.im > b.im))
