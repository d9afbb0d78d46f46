"""Elementwise exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._core import dtypes
from veery._transforms.custom_rules import CustomJVPCall
from veery.numpy._arithmetic import _dtype, as_array, choose, is_kind
from veery.numpy._elementwise import elementwise, jitted, named
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_arrays,
    ensure_arraylike,
    promote_args_inexact,
    promote_dtypes_inexact,
    promote_shapes,
    strong_array,
    to_dtype,
)
from veery.numpy._ufunc import binary_ufunc

# Exponentials and logarithms.


@elementwise
def exp(x: ArrayLike, /) -> Array:
    """e to the power x.

    >>> exp(np.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """
    return lax.exp(*promote_args_inexact("exp", x))


@elementwise
def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x.

    >>> exp2(np.array([0, 3]))
    Array([1., 8.], dtype=float32)
    """
    return lax.exp2(*promote_args_inexact("exp2", x))


@elementwise
def expm1(x: ArrayLike, /) -> Array:
    """e to the power x, minus 1, exact for small x.

    >>> expm1(np.array([0.0, 1e-8]))
    Array([0.e+00, 1.e-08], dtype=float32)
    """
    return lax.expm1(*promote_args_inexact("expm1", x))


@elementwise
def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; NaN for negative floats.

    >>> log(np.array([1.0, 0.0]))
    Array([  0., -inf], dtype=float32)
    """
    return lax.log(*promote_args_inexact("log", x))


@elementwise
def log1p(x: ArrayLike, /) -> Array:
    """The natural logarithm of 1 + x, exact for small x.

    >>> log1p(np.array([0.0, 1e-8]))
    Array([0.e+00, 1.e-08], dtype=float32)
    """
    return lax.log1p(*promote_args_inexact("log1p", x))


@elementwise
def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    >>> log2(np.array([1, 8]))
    Array([0., 3.], dtype=float32)
    """
    (x,) = promote_args_inexact("log2", x)
    return _each_part(lambda y: lax.div(y, float(np.log(2.0))), to_dtype(lax.log(x), _dtype(x)))


@elementwise
def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10.

    >>> log10(np.array([1, 100]))
    Array([0., 2.], dtype=float32)
    """
    (x,) = promote_args_inexact("log10", x)
    return _each_part(lambda y: lax.mul(y, float(1 / np.log(10.0))), to_dtype(lax.log(x), _dtype(x)))


def _each_part(fun: Callable[[Array], Array], x: Array) -> Array:
    """A function of real numbers on the parts of complex ones: of an infinite one a product of both would be NaN."""
    return lax.complex(fun(lax.real(x)), fun(lax.imag(x))) if is_kind(x, np.complexfloating) else fun(x)


def _custom_jvp(name: str, fun: Callable[..., Array], rule: Callable[..., Array]) -> Callable[..., Array]:
    """A function of arrays with its derivative rule `(out, primals, tangents) -> tangent`."""

    def flat_rule(*args: Any) -> Sequence[Array]:
        half = len(args) // 2
        (out,) = call.bind(*args[:half])  # so that second derivatives follow the rule too
        return [out, rule(out, args[:half], args[half:])]

    call = CustomJVPCall(name, lambda *xs: [fun(*xs)], flat_rule)
    return lambda *xs: call.bind(*xs)[0]


def _log_sum(exponential: Callable[[Any], Any], scale: float) -> Callable[..., Array]:
    """max + log(1 + e^-|difference|): exact where one operand is far greater than the other, or infinite."""

    def fun(x: Array, y: Array) -> Array:
        difference = lax.sub(x, y)
        distance = lax.abs(difference)
        if is_kind(x, np.complexfloating):
            return _complex_log_sum(x, y, exponential, scale)
        tail = lax.log1p(exponential(lax.neg(distance)))
        tail = lax.mul(tail, scale) if scale != 1 else tail
        return choose(lax.ne(difference, difference), lax.add(x, y), lax.add(lax.max(x, y), tail))

    return fun


def _complex_log_sum(x: Array, y: Array, exponential: Callable[[Any], Any], scale: float) -> Array:
    greater = choose(lax.gt(lax.real(x), lax.real(y)), x, y)
    difference = choose(lax.gt(lax.real(x), lax.real(y)), lax.sub(y, x), lax.sub(x, y))
    out = lax.add(greater, lax.mul(lax.log1p(exponential(difference)), scale))
    out = lax.complex(lax.real(out), _within_turn(lax.imag(out), 2 * np.pi * scale))
    return choose(lax.ne(difference, difference), lax.add(x, y), out)


def _within_turn(angle: Array, turn: float) -> Array:
    """An angle that is at least minus half a turn and less than half of one."""
    half = turn / 2
    inside = lax.bitwise_and(lax.ge(angle, -half), lax.lt(angle, half))
    rest = lax.rem(lax.add(angle, half), turn)
    return choose(inside, angle, lax.sub(choose(lax.lt(rest, 0), lax.add(rest, turn), rest), half))


def _log_sum_jvp(exponential: Callable[[Any], Any]) -> Callable[..., Array]:
    def rule(out: Array, primals: Sequence[Array], tangents: Sequence[Any]) -> Array:
        # d log(e^x + e^y) = e^(x - out) dx + e^(y - out) dy, where inf - inf stands for 0.
        weights = [exponential(choose(lax.eq(x, out), 0, lax.sub(x, out))) for x in primals]
        x, y = (lax.mul(w, t) for w, t in zip(weights, tangents))
        return lax.add(x, y)

    return rule


_logaddexp = _custom_jvp("logaddexp", _log_sum(lambda v: lax.exp(v), 1.0), _log_sum_jvp(lambda v: lax.exp(v)))
_logaddexp2 = _custom_jvp(
    "logaddexp2", _log_sum(lambda v: lax.exp2(v), float(1 / np.log(2))), _log_sum_jvp(lambda v: lax.exp2(v))
)


@binary_ufunc(identity=-np.inf)
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log(exp(x1) + exp(x2)), without overflow.

    >>> logaddexp(np.array([0.0, 1000.0]), 1000.0).round(1)
    Array([1000. , 1000.7], dtype=float32)
    """
    return _logaddexp(*_broadcast(*promote_args_inexact("logaddexp", x1, x2)))


@binary_ufunc(identity=-np.inf)
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2), without overflow.

    >>> logaddexp2(np.array([0.0, 1000.0]), 1000.0)
    Array([1000., 1001.], dtype=float32)
    """
    return strong_array(_logaddexp2(*_broadcast(*promote_args_inexact("logaddexp2", x1, x2))))


def _broadcast(*xs: Array) -> list[Array]:
    return [as_array(x) for x in broadcast_arrays(*xs)]


# Trigonometric functions.


@elementwise
def sin(x: ArrayLike, /) -> Array:
    """The sine of angles in radians.

    >>> sin(np.array([0.0, np.pi / 2]))
    Array([0., 1.], dtype=float32)
    """
    return lax.sin(*promote_args_inexact("sin", x))


@elementwise
def cos(x: ArrayLike, /) -> Array:
    """The cosine of angles in radians.

    >>> cos(np.array([0.0]))
    Array([1.], dtype=float32)
    """
    return lax.cos(*promote_args_inexact("cos", x))


@elementwise
def tan(x: ArrayLike, /) -> Array:
    """The tangent of angles in radians.

    >>> tan(np.array([0.0]))
    Array([0.], dtype=float32)
    """
    return lax.tan(*promote_args_inexact("tan", x))


@elementwise
def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose sine is x.

    >>> arcsin(np.array([1.0]))
    Array([1.5707964], dtype=float32)
    """
    return lax.asin(*promote_args_inexact("arcsin", x))


@elementwise
def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, pi] whose cosine is x.

    >>> arccos(np.array([1.0]))
    Array([0.], dtype=float32)
    """
    return lax.acos(*promote_args_inexact("arccos", x))


@elementwise
def arctan(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> arctan(np.array([1.0]))
    Array([0.7853982], dtype=float32)
    """
    return lax.atan(*promote_args_inexact("arctan", x))


@elementwise
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle of the point (x2, x1) from the positive first axis, in [-pi, pi].

    >>> arctan2(np.array([1.0, -1.0]), -1.0)
    Array([ 2.3561945, -2.3561945], dtype=float32)
    """
    return lax.atan2(*promote_args_inexact("arctan2", x1, x2))


# Hyperbolic functions.


@elementwise
def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine.

    >>> sinh(np.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """
    return lax.sinh(*promote_args_inexact("sinh", x))


@elementwise
def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine.

    >>> cosh(np.array([0.0]))
    Array([1.], dtype=float32)
    """
    return lax.cosh(*promote_args_inexact("cosh", x))


@elementwise
def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.

    >>> tanh(np.array([0.0, 100.0]))
    Array([0., 1.], dtype=float32)
    """
    return lax.tanh(*promote_args_inexact("tanh", x))


@elementwise
def arcsinh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic sine is x.

    >>> arcsinh(np.array([0.0]))
    Array([0.], dtype=float32)
    """
    return lax.asinh(*promote_args_inexact("arcsinh", x))


@elementwise
def arccosh(x: ArrayLike, /) -> Array:
    """The nonnegative number whose hyperbolic cosine is x.

    >>> arccosh(np.array([1.0]))
    Array([0.], dtype=float32)
    """
    return lax.acosh(*promote_args_inexact("arccosh", x))


@elementwise
def arctanh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic tangent is x.

    >>> arctanh(np.array([0.0]))
    Array([0.], dtype=float32)
    """
    return lax.atanh(*promote_args_inexact("arctanh", x))


# Array API names, under which the functions appear in messages as well.

asin = named("asin", arcsin)
acos = named("acos", arccos)
atan = named("atan", arctan)
atan2 = named("atan2", arctan2)
asinh = named("asinh", arcsinh)
acosh = named("acosh", arccosh)
atanh = named("atanh", arctanh)


# Angles and lengths.


@elementwise
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians.

    >>> deg2rad(np.array([180]))
    Array([3.1415927], dtype=float32)
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return strong_array(lax.mul(x, np.pi / 180))


@elementwise
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees.

    >>> rad2deg(np.array([np.pi]))
    Array([180.], dtype=float32)
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return strong_array(lax.mul(x, 180 / np.pi))


radians = named("radians", deg2rad)
degrees = named("degrees", rad2deg)


@jitted
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """sqrt(x1**2 + x2**2), without overflow.

    Raises:
        ValueError: an argument is complex.

    >>> hypot(np.array([3.0]), 4.0)
    Array([5.], dtype=float32)
    """
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    if is_kind(x1, np.complexfloating):
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. "
            "Please convert to real values first, such as by using jnp.abs(x)"
        )
    x1, x2 = lax.abs(x1), lax.abs(x2)
    infinite = lax.bitwise_or(lax.eq(x1, np.inf), lax.eq(x2, np.inf))
    longer, shorter = lax.max(x1, x2), lax.min(x1, x2)
    is_zero = lax.eq(longer, 0)
    ratio = lax.div(shorter, choose(is_zero, 1, longer))
    length = choose(is_zero, longer, lax.mul(longer, lax.sqrt(lax.add(lax.square(ratio), 1))))
    return strong_array(choose(infinite, np.inf, length))


# The cardinal sine: sin(pi x) / (pi x), 1 at 0.


@jitted
def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0, with the right derivatives there.

    >>> sinc(np.array([0.0, 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    (x,) = promote_args_inexact("sinc", x)
    is_zero = lax.eq(x, 0)
    angle = lax.mul(x, np.pi)
    safe = choose(is_zero, 1, angle)
    return strong_array(choose(is_zero, _sinc_series(0)(angle), lax.div(lax.sin(safe), safe)))


def _sinc_series(order: int) -> Callable[[Array], Array]:
    """The derivative of this order of sin(x)/x near 0: its value at 0, (-1)^(k/2)/(k+1) for even k, else 0.

    The rule of each order is the function of the next one, so that all derivatives at 0 are right.
    """
    value = 0.0 if order % 2 else (-1.0) ** (order // 2) / (order + 1)

    def fun(x: Array) -> Array:
        return lax.add(lax.mul(x, 0), value)

    def rule(out: Array, primals: Sequence[Array], tangents: Sequence[Any]) -> Array:
        return lax.mul(_sinc_series(order + 1)(primals[0]), tangents[0])

    return _custom_jvp("_sinc_maclaurin", fun, rule)


# Mantissas and exponents.


@jitted
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Mantissas in [0.5, 1) and integer exponents, such that x = mantissa * 2**exponent.

    Returns:
        The mantissas, with the sign of x, and the exponents (int32). Zeros, infinities and NaN have exponent 0.

    Raises:
        TypeError: x is complex.

    >>> frexp(np.array([8.0, -3.0]))
    (Array([ 0.5 , -0.75], dtype=float32), Array([4, 2], dtype=int32))
    """
    (x,) = promote_args_inexact("frexp", x)
    if is_kind(x, np.complexfloating):
        raise TypeError("frexp does not support complex-valued inputs")
    return _frexp(as_array(x))


_SIGNED_OF_WIDTH = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _frexp(x: Array) -> tuple[Array, Array]:
    return _mantissa(x), _mantissa_and_exponent(lax.stop_gradient(x))[1]


def _mantissa_and_exponent(x: Array) -> tuple[Array, Array]:
    info = dtypes.finfo(_dtype(x))
    integer = np.dtype(_SIGNED_OF_WIDTH[info.bits])
    like = lambda value: lax.full(np.shape(x), value, integer)
    bits = lax.bitcast_convert_type(x, integer)
    magnitude = lax.bitwise_and(bits, like((1 << (info.bits - 1)) - 1))
    stored = lax.shift_right_logical(magnitude, like(info.nmant))
    fraction = lax.bitwise_and(magnitude, like((1 << info.nmant) - 1))
    # Subnormal numbers have no exponent of their own. They are scaled as integers, since as floats they may be zeros.
    subnormal = lax.eq(stored, like(0))
    shift = lax.sub(lax.clz(fraction), like(info.nexp))
    scaled = lax.bitwise_and(lax.shift_left(fraction, shift), like((1 << info.nmant) - 1))
    bias = (1 << (info.nexp - 1)) - 2  # of a mantissa in [0.5, 1) instead of [1, 2)
    exponent = lax.sub(choose(subnormal, lax.sub(like(1), shift), stored), like(bias))
    cleared = lax.bitwise_or(lax.bitwise_and(bits, like(-1 << (info.bits - 1))), choose(subnormal, scaled, fraction))
    mantissa = lax.bitcast_convert_type(lax.bitwise_or(cleared, like(bias << info.nmant)), _dtype(x))
    special = lax.bitwise_or(lax.eq(magnitude, like(0)), lax.eq(stored, like((1 << info.nexp) - 1)))
    exponent = lax.convert_element_type(choose(special, like(0), exponent), np.int32)
    return choose(special, x, mantissa), exponent


def _mantissa_jvp(out: Array, primals: Sequence[Array], tangents: Sequence[Any]) -> Array:
    # Within a binade the mantissa is x divided by a constant.
    exponent = lax.convert_element_type(_mantissa_and_exponent(lax.stop_gradient(primals[0]))[1], _dtype(out))
    return lax.mul(tangents[0], lax.exp2(lax.neg(exponent)))


_mantissa = _custom_jvp("frexp", lambda x: _mantissa_and_exponent(x)[0], _mantissa_jvp)


@jitted
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2.

    Args:
        x1: floats or integers.
        x2: integers.

    Raises:
        ValueError: x2 is not an array of integers, or x1 is complex.

    >>> ldexp(np.array([1.0, 3.0]), 4)
    Array([16., 48.], dtype=float32)
    """
    x1, x2 = ensure_arraylike("ldexp", x1, x2)
    if is_kind(x1, np.complexfloating) or is_kind(x2, np.inexact):
        raise ValueError(f"ldexp not supported for input types {(_dtype(x1), _dtype(x2))}")
    (x1,) = promote_dtypes_inexact(x1)
    x2 = to_dtype(x2, np.dtype("int32"))
    x1, x2 = promote_shapes("ldexp", x1, x2)
    # In four parts, each a power of two that the dtype holds, neither 0 nor infinite: these make no NaN of either.
    # Together they lead from the least number beyond the greatest, and back.
    limit = 4 * (dtypes.finfo(_dtype(x1)).maxexp - 2)
    x2 = lax.clamp(np.int32(-limit), x2, np.int32(limit))
    for parts in (4, 3, 2, 1):
        piece = lax.div(x2, np.int32(parts))
        x1 = lax.mul(x1, _power_of_two(piece, _dtype(x1)))
        x2 = lax.sub(x2, piece)
    return x1


def _power_of_two(exponent: Array, dtype: Any) -> Array:
    """2**exponent by its bits; overflows to infinity and underflows to 0."""
    info = dtypes.finfo(dtype)
    integer = np.dtype(_SIGNED_OF_WIDTH[info.bits])
    bias = info.maxexp - 1
    stored = lax.clamp(np.int32(0), lax.add(exponent, np.int32(bias)), np.int32(2 * bias + 1))
    wide = lax.convert_element_type(stored, integer)
    return lax.bitcast_convert_type(lax.shift_left(wide, lax.full_like(wide, info.nmant)), dtype)


@jitted
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, of order 0, of real numbers.

    Raises:
        ValueError: x is complex.

    >>> i0(np.array([1.0])).round(4)
    Array([1.2661], dtype=float32)
    """
    (x,) = promote_args_inexact("i0", x)
    if is_kind(x, np.complexfloating):
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {_dtype(x)}")
    return _i0(as_array(x))


def _i0_value(x: Array) -> Array:
    x = lax.abs(x)
    return lax.mul(lax.exp(x), lax.bessel_i0e(x))


def _i0_jvp(out: Array, primals: Sequence[Array], tangents: Sequence[Any]) -> Array:
    (x,), (t,) = primals, tangents
    return lax.mul(t, lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x)))


_i0 = _custom_jvp("i0", _i0_value, _i0_jvp)
