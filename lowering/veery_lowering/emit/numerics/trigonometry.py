"""sin, cos and tan of real tensors for arguments of every magnitude.

What makes them hard is the reduction modulo pi/2: 2/pi is needed to as many bits as the argument has before its last
one plus twice the precision. IREE's expansion multiplies by a rounded constant: sin(1e10) is -6e21 in float32.
Milliseconds for 10**6 elements on one AVX-512 core, NumPy's in brackets: sin 1.5 (0.55) in float32, 3.6 (8.7) in
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics._expr import Expr, flip_sign, is_nan, polynomial, where
from veery_lowering.emit.numerics.integer import high_product

Reduction: TypeAlias = Callable[[Expr], tuple[Expr, Expr]]

# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2 on |r| <= pi / 4
_SIN = {
    4: (-0.16666664650292082, 0.008332745936380422, -0.00019587387068464455),
    8: (-0.16666666666666666, 0.008333333333333331, -0.00019841269841265017, 2.755731921930192e-06,
        -2.5052106219521895e-08, 1.6058529572267877e-10, -7.586576588171073e-13),
}  # fmt: skip
_COS = {
    4: (0.04166666464745738, -0.00138883006969039, 2.45474372101932e-05),
    8: (0.041666666666666664, -0.0013888888888888887, 2.4801587301584618e-05, -2.7557319221382114e-07,
        2.087675578389404e-09, -1.1470459749675607e-11, 4.745804889760674e-14),
}  # fmt: skip
# pi/2 in parts of 33 bits: products with integers below 2**20 are exact
_PI_2_PARTS = (float.fromhex("0x1.921fb54400000p+0"), float.fromhex("0x1.0b4611a600000p-34"),
               float.fromhex("0x1.3198a2e037073p-69"))  # fmt: skip
_WORD_BITS = 29
# from these exponents on: the power of two taken out of the argument
_WINDOWS = {31: 0, 63: 32, 95: 64}


@cache
def two_over_pi(bits: int) -> int:
    """floor(2/pi * 2**bits), with pi by Machin's formula in integers."""
    guard = bits + 64

    def arccot(n: int) -> int:
        term = total = (1 << guard) // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arccot(5) - arccot(239))
    return (2 << (guard + bits)) // pi


@cache
def _window_words(window: int, top: int) -> tuple[float, ...]:
    """What 2**window * 2/pi has below 2**top, in four words of 29 bits."""
    total = 256
    number = two_over_pi(total + window)
    number &= (1 << (total + top)) - 1
    words = []
    for i in range(1, 5):
        shift = total + top - _WORD_BITS * i
        words.append(math.ldexp(number >> shift, shift - total))
        number &= (1 << shift) - 1
    return tuple(words)


def _to_multiple(x: Expr, exponent: int) -> Expr:
    """The nearest multiple of 2**exponent, for |x| < 2**(51 + exponent).

    Float64's round_nearest_even does not vectorise: 4.9 ms where this takes 1.5 (sin of 10**6 float32).
    """
    magic = 1.5 * 2.0 ** (52 + exponent)
    return (x + magic) - magic


def _reduce_float32(x: Expr) -> tuple[Expr, Expr]:
    """|x| as a multiple of pi/2: its nearest integer (float64; modulo 4 beyond 2**31) and the rest in radians.

    In float64. |x| >= 2**31 is scaled into [2**31, 2**64), where it is a multiple of 2**8: of 2/pi, scaled inversely,
    only what is below 2**-6 matters modulo 4. Products of 24 bits with 29 are exact, and so is taking them modulo 4.
    """
    a = abs(x)
    scale, words = x.constant(1.0), [x.constant(word, np.float64) for word in _window_words(0, 0)]
    for exponent, window in _WINDOWS.items():
        beyond = a >= 2.0**exponent
        scale = where(beyond, 2.0**-window, scale)
        words = [where(beyond, new, word) for new, word in zip(_window_words(window, -6), words)]
    scaled = (a * scale).convert(np.float64)
    products = [scaled * word for word in words]
    first = products[0] - _to_multiple(products[0], 8)
    first, second = (p - _to_multiple(p, 2) for p in (first, products[1]))
    small = products[2] + products[3]
    k = _to_multiple(first + second + small, 0)
    return k, (((first - k) + second) + small) * (math.pi / 2)


def take(table: np.ndarray, index: Expr) -> Expr:
    """table[index] elementwise."""
    shape = hlo.shape_of(index.value)
    points = hlo.reshape(index.value, (*shape, 1))
    return Expr(
        hlo.gather(
            hlo.constant(table),
            points,
            offset_dims=(),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=len(shape),
            slice_sizes=(1,),
            shape=shape,
        )
    )


@cache
def _payne_hanek_table() -> np.ndarray:
    """Row i: for floats m * 2**(i - 40) with integer m: 2**(i - 40) * (2/pi) / 4 modulo 1 in three 64-bit words."""
    count = 1024 - 52 + 40
    number = two_over_pi(count + 256)
    rows = []
    for i in range(count):
        exponent = i - 40
        fraction = (number >> (count + 256 - 190 - exponent)) & ((1 << 192) - 1)
        rows.append([fraction >> 128, (fraction >> 64) & (2**64 - 1), fraction & (2**64 - 1)])
    return np.array(rows, np.uint64)


def _payne_hanek(a: Expr) -> tuple[Expr, Expr]:
    """As `_reduce_float64`, for a >= 2**20: a times 2/pi in 192-bit fixed point, modulo 4."""
    bits = a.bits
    mantissa = ((bits & ((1 << 52) - 1)) | (1 << 52)).bitcast(np.uint64)
    index = ((bits >> 52) - (1075 - 40)).convert(np.int32)
    last = len(_payne_hanek_table()) - 1
    index = Expr(hlo.clamp(hlo.full(0, (), np.int32), index.value, hlo.full(last, (), np.int32)))
    top, middle, bottom = (take(_payne_hanek_table()[:, i].copy(), index) for i in range(3))
    lower = mantissa * middle
    low = lower + high_product(mantissa, bottom)
    carry = (low < lower).convert(np.uint64)
    high = mantissa * top + high_product(mantissa, middle) + carry
    k = (high + (1 << 61)) >> 62
    rest = ((high << 2) | (low >> 62)).bitcast(np.int64).convert(np.float64) * 2.0**-64
    rest = rest + (low << 2).convert(np.float64) * 2.0**-128
    return k.convert(np.float64), rest * (math.pi / 2)


def _reduce_float64(x: Expr) -> tuple[Expr, Expr]:
    """|x| as a multiple of pi/2: its nearest integer (modulo 4 beyond 2**20) and the rest in radians."""
    a = abs(x)
    k = _to_multiple(a * (2 / math.pi), 0)
    high, middle, low = _PI_2_PARTS
    rest = ((a - k * high) - k * middle) - k * low
    far, far_rest = _payne_hanek(a)
    near = a < 2.0**20
    return where(near, k, far), where(near, rest, far_rest)


def _reduce(x: Expr) -> tuple[Expr, Expr]:
    """The quadrant of |x| (int32; only the last two bits count) and the angle in it, within pi/4."""
    k, rest = _reduce_float32(x) if x.dtype == np.float32 else _reduce_float64(x)
    finite = abs(x) < math.inf
    quadrant = where(finite, k - _to_multiple(k, 2), 0.0).convert(np.int32)
    return quadrant, where(finite, rest, math.nan).convert(x.dtype)


def sin_cos_of_angle(r: Expr) -> tuple[Expr, Expr]:
    z = r * r
    sine = r + r * z * polynomial(z, _SIN[r.dtype.itemsize])
    half = 0.5 * z
    whole = 1.0 - half
    cosine = whole + (((1.0 - whole) - half) + z * z * polynomial(z, _COS[r.dtype.itemsize]))
    return sine, cosine


def sin(x: Expr, reduce: Reduction | None = None) -> Expr:
    """The sine; `reduce` finds the quadrant of |x| and the angle in it."""
    quadrant, angle = (reduce or _reduce)(x)
    sine, cosine = sin_cos_of_angle(angle)
    result = where((quadrant & 1).equals(0), sine, cosine)
    negative = ((quadrant & 2).differs(0)) ^ (x < 0.0)
    return where(x.equals(0.0), x, flip_sign(result, negative))


def cos(x: Expr, reduce: Reduction | None = None) -> Expr:
    """The cosine; see `sin`."""
    quadrant, angle = (reduce or _reduce)(x)
    sine, cosine = sin_cos_of_angle(angle)
    result = where((quadrant & 1).equals(0), cosine, sine)
    return flip_sign(result, ((quadrant + 1) & 2).differs(0))


def sin_cos(x: Expr) -> tuple[Expr, Expr]:
    """Sine and cosine with one reduction."""
    quadrant, angle = _reduce(x)
    sine, cosine = sin_cos_of_angle(angle)
    even = (quadrant & 1).equals(0)
    first, second = where(even, sine, cosine), where(even, cosine, sine)
    first = flip_sign(first, ((quadrant & 2).differs(0)) ^ (x < 0.0))
    return where(x.equals(0.0), x, first), flip_sign(second, ((quadrant + 1) & 2).differs(0))


def tan(x: Expr, reduce: Reduction | None = None) -> Expr:
    """The tangent; see `sin`."""
    quadrant, angle = (reduce or _reduce)(x)
    sine, cosine = sin_cos_of_angle(angle)
    even = (quadrant & 1).equals(0)
    result = where(even, sine, -cosine) / where(even, cosine, sine)
    return where(x.equals(0.0) | is_nan(x), x, flip_sign(result, x < 0.0))
