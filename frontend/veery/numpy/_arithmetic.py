"""Elementwise arithmetic: sums, products, quotients, powers, extrema, rounding and the parts of numbers."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.avals import aval_of
from veery._core.trace import Tracer
from veery.numpy._elementwise import elementwise, jitted, named
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    check_no_out,
    ensure_arraylike,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_inexact,
    promote_shapes,
    to_dtype,
)
from veery.numpy._ufunc import binary_ufunc, unary_ufunc

# Names of Python's own functions that this module replaces.
_pow = pow


def _dtype(x: ArrayLike) -> Any:
    return aval_of(x).dtype


def is_kind(x: ArrayLike, kind: type) -> bool:
    """Whether the elements of x are of a kind such as np.integer."""
    return dtypes.issubdtype(_dtype(x), kind)


def choose(condition: Array, x: ArrayLike, y: ArrayLike) -> Array:
    """x where the condition holds, else y: operands of one dtype, of the condition's shape or of rank 0."""
    like = x if np.ndim(x) or not np.ndim(y) else y
    aval = aval_of(like if not dtypes.is_python_scalar(like) else (y if dtypes.is_python_scalar(x) else x))
    shape = lax.broadcast_shapes(np.shape(condition), np.shape(x), np.shape(y))
    cases = [to_dtype(v, aval.dtype, aval.weak_type) if dtypes.is_python_scalar(v) else v for v in (x, y)]  # type: ignore[attr-defined]
    wide = [v if np.shape(v) == shape else lax.broadcast_in_dim(v, shape, _trailing(v, shape)) for v in cases]
    if np.ndim(condition) and np.shape(condition) != shape:
        condition = lax.broadcast_in_dim(condition, shape, _trailing(condition, shape))
    return lax.select_n(condition, wide[1], wide[0])


def _trailing(x: ArrayLike, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(len(shape) - np.ndim(x), len(shape)))


# Sums, products, quotients.


@binary_ufunc(identity=0)
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x + y; the logical or of bools.

    >>> add(np.arange(3), 1)
    Array([1, 2, 3], dtype=int32)
    """
    x, y = promote_args("add", x, y)
    return lax.bitwise_or(x, y) if _dtype(x) == np.bool_ else lax.add(x, y)


@binary_ufunc(identity=None)
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y.

    >>> subtract(np.arange(3), 1)
    Array([-1,  0,  1], dtype=int32)
    """
    return lax.sub(*promote_args("subtract", x, y))


@binary_ufunc(identity=1)
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x * y; the logical and of bools.

    >>> multiply(np.arange(3), 2.5)
    Array([0. , 2.5, 5. ], dtype=float32, weak_type=True)
    """
    x, y = promote_args("multiply", x, y)
    return lax.bitwise_and(x, y) if _dtype(x) == np.bool_ else lax.mul(x, y)


@unary_ufunc
def negative(x: ArrayLike, /) -> Array:
    """-x.

    >>> negative(np.arange(3))
    Array([ 0, -1, -2], dtype=int32)
    """
    return lax.neg(*promote_args("negative", x))


@elementwise
def positive(x: ArrayLike, /) -> Array:
    """x itself.

    >>> positive(np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    return as_array(*promote_args("positive", x))


def as_array(x: ArrayLike) -> Array:
    """x as an array of its own dtype and weak type: an operation only where it is none yet."""
    return lax._convert.convert(x, _dtype(x), aval_of(x).weak_type)


@elementwise
def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2, of integers as floats.

    >>> true_divide(np.arange(3), 2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.div(*promote_args_inexact("true_divide", x1, x2))


@elementwise
def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2, of integers as floats.

    >>> divide(np.arange(3), 2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.div(*promote_args_inexact("divide", x1, x2))


@elementwise
def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x, of integers as floats.

    >>> reciprocal(np.array([1, 2, 4]))
    Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    (x,) = promote_args_inexact("reciprocal", x)
    return lax.integer_pow(x, -1)


@jitted
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The greatest integer that is at most x1 / x2.

    >>> floor_divide(np.array([-3, 3]), 2)
    Array([-2,  1], dtype=int32)
    """
    x1, x2 = promote_args_numeric("floor_divide", x1, x2)
    if is_kind(x1, np.complexfloating):
        raise TypeError("floor_divide does not support complex-valued inputs")
    if is_kind(x1, np.floating):
        return _float_divmod(x1, x2)[0]
    quotient = lax.div(x1, x2)
    if is_kind(x1, np.unsignedinteger):
        return quotient
    # Division truncates: one too many where the signs differ and there is a remainder.
    inexact = lax.bitwise_and(lax.ne(lax.sign(x1), lax.sign(x2)), lax.ne(lax.rem(x1, x2), 0))
    return choose(inexact, lax.sub(quotient, 1), quotient)


@jitted
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of floor division: it has the sign of x2. Integers modulo 0 give 0.

    >>> remainder(np.array([-3, 3]), 2)
    Array([1, 1], dtype=int32)
    """
    x1, x2 = promote_args_numeric("remainder", x1, x2)
    return _remainder(x1, x2)


def _remainder(x1: Array, x2: Array) -> Array:
    if is_kind(x1, np.integer):
        x2 = choose(lax.eq(x2, 0), 1, x2)
    rest = lax.rem(x1, x2)
    nonzero = lax.ne(rest, 0)
    if is_kind(x1, np.unsignedinteger):
        return rest
    wrong_sign = lax.bitwise_and(lax.ne(lax.lt(rest, 0), lax.lt(x2, 0)), nonzero)
    return choose(wrong_sign, lax.add(rest, x2), rest)


def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of floor division: another name of `remainder`."""
    return remainder(x1, x2)


@jitted
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of division that truncates: it has the sign of x1.

    >>> fmod(np.array([-3.0, 3.0]), 2)
    Array([-1.,  1.], dtype=float32)
    """
    x1, x2 = promote_args_numeric("fmod", x1, x2)
    if is_kind(x1, np.integer):
        x2 = choose(lax.eq(x2, 0), 1, x2)
    return lax.rem(x1, x2)


@jitted
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Floor division and its remainder.

    >>> divmod(np.array([-3, 3]), 2)
    (Array([-2,  1], dtype=int32), Array([1, 1], dtype=int32))
    """
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if is_kind(x1, np.integer):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def _float_divmod(x1: Array, x2: Array) -> tuple[Array, Array]:
    """Quotient and remainder of floats, exact as Python's: the quotient is computed from the exact remainder."""
    rest = lax.rem(x1, x2)
    quotient = lax.div(choose(lax.eq(x2, 0), x1, lax.sub(x1, rest)), x2)
    one_more = lax.bitwise_and(lax.ne(rest, 0), lax.ne(lax.sign(x2), lax.sign(rest)))
    rest = choose(one_more, lax.add(rest, x2), rest)
    quotient = choose(one_more, lax.sub(quotient, 1), quotient)
    return lax.round(quotient), rest


# Powers.


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2. A concrete integer as exponent multiplies, without logarithms, and leaves x1's dtype.

    Raises:
        TypeError: integers are raised to a negative integer.

    >>> power(np.array([1, 2, 3]), 3)
    Array([ 1,  8, 27], dtype=int32)
    """
    x1, x2 = ensure_arraylike("power", x1, x2)
    exponent = _concrete_exponent(x2)
    return _power(x1, x2) if exponent is None else _integer_power(exponent)(x1)


def _concrete_exponent(x: Any) -> int | None:
    """The exponent where it is an integer whose value is known."""
    if isinstance(x, Tracer):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


@functools.lru_cache(maxsize=256)
def _integer_power(y: int) -> Any:
    """The function x -> x**y, kept so that eager calls find their program again."""

    def integer_pow(x: ArrayLike) -> Array:
        (x,) = promote_args_numeric("power", x)
        if y < 0 and not is_kind(x, np.inexact):
            aval = aval_of(x)
            name = f"{'~' if aval.weak_type else ''}{aval.str_short(short_dtypes=False)}"  # type: ignore[attr-defined]
            raise TypeError(f"Integers cannot be raised to negative powers, got integer_pow({name}, {y})")
        return lax.integer_pow(x, y)

    return elementwise(integer_pow)


@elementwise
def _power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    if is_kind(x1, np.inexact) and is_kind(x2, np.integer):
        # The exponent stays an integer, so that the derivative at x1 = 0 is right.
        base, exponent = dtypes.lattice_result_type(x1, x2), dtypes.lattice_result_type(x2)
        x1, x2 = promote_shapes("power", to_dtype(x1, *base), to_dtype(x2, *exponent))
        return lax.pow(x1, x2)
    x1, x2 = promote_args_numeric("power", x1, x2)
    return lax.pow(x1, x2) if is_kind(x1, np.inexact) else integer_power(x1, x2)


def integer_power(x: Array, y: Array) -> Array:
    """x**y of integers of one dtype by repeated squaring, wrapping around; as in JAX it is never weak."""
    shape = lax.broadcast_shapes(np.shape(x), np.shape(y))
    x, y = (v if np.shape(v) == shape else lax.broadcast_in_dim(v, shape, _trailing(v, shape)) for v in (x, y))
    is_odd = lambda v: lax.ne(lax.bitwise_and(v, 1), 0)
    result = choose(is_odd(y), x, 1)
    for _ in range(dtypes.itemsize_bits(_dtype(y)) - 1):
        x = lax.mul(x, x)
        y = lax.shift_right_logical(y, lax.full_like(y, 1))
        result = choose(is_odd(y), lax.mul(result, x), result)
    return to_dtype(result, _dtype(result))


pow = named("pow", power)


@elementwise
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y, computed in floats.

    >>> float_power(np.array([1, 2]), -1)
    Array([1. , 0.5], dtype=float32)
    """
    return lax.pow(*promote_args_inexact("float_power", x, y))


@elementwise
def square(x: ArrayLike, /) -> Array:
    """x * x.

    >>> square(np.array([1, -2]))
    Array([1, 4], dtype=int32)
    """
    x = ensure_arraylike("square", x)
    (x,) = promote_args_numeric("square", x)
    return lax.square(x)


@elementwise
def sqrt(x: ArrayLike, /) -> Array:
    """The nonnegative square root; NaN for negative floats.

    >>> sqrt(np.array([1, 4]))
    Array([1., 2.], dtype=float32)
    """
    return lax.sqrt(*promote_args_inexact("sqrt", x))


@elementwise
def cbrt(x: ArrayLike, /) -> Array:
    """The real cube root.

    >>> cbrt(np.array([-8.0, 27.0]))
    Array([-2.,  3.], dtype=float32)
    """
    return lax.cbrt(*promote_args_inexact("cbrt", x))


# Extrema.


@binary_ufunc(identity=None)
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The larger of x and y; NaN where one of them is NaN.

    >>> maximum(np.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """
    return lax.max(*promote_args("maximum", x, y))


@binary_ufunc(identity=None)
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The smaller of x and y; NaN where one of them is NaN.

    >>> minimum(np.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """
    return lax.min(*promote_args("minimum", x, y))


@jitted
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger of x1 and x2; where one of them is NaN, the other.

    >>> fmax(np.array([1.0, np.nan]), 0.0)
    Array([1., 0.], dtype=float32)
    """
    x1, x2 = promote_args("fmax", x1, x2)
    return choose(lax.bitwise_or(ordered(lax.lt, x2, x1), _isnan(x2)), x1, x2)


@jitted
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller of x1 and x2; where one of them is NaN, the other.

    >>> fmin(np.array([1.0, np.nan]), 0.0)
    Array([0., 0.], dtype=float32)
    """
    x1, x2 = promote_args("fmin", x1, x2)
    return choose(lax.bitwise_or(ordered(lax.lt, x1, x2), _isnan(x2)), x1, x2)


def _isnan(x: Array) -> Array:
    return lax.ne(x, x)


def ordered(compare: Callable[..., Array], x: Array, y: Array) -> Array:
    """A comparison, of complex numbers by their real parts and then by their imaginary ones."""
    if not is_kind(x, np.complexfloating):
        return compare(x, y)
    re_x, re_y = lax.real(x), lax.real(y)
    return choose(lax.eq(re_x, re_y), compare(lax.imag(x), lax.imag(y)), compare(re_x, re_y))


def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """The array with what lies below `min` raised to it and what lies above `max` lowered to it.

    Args:
        arr: an array of real numbers.
        min: lower bounds; None for none.
        max: upper bounds; None for none.

    Raises:
        ValueError: there is no array, or one of the arguments is complex.

    >>> clip(np.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    arr = ensure_arraylike("clip", arr)
    if any(is_kind(v, np.complexfloating) for v in (arr, min, max) if v is not None):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. Complex values have no "
            "ordering and cannot be clipped. Please convert to a real value or array by taking the real or imaginary "
            "components via jax.numpy.real/imag respectively."
        )
    return _clip(arr, min, max)


@jit
def _clip(arr: ArrayLike, min: ArrayLike | None, max: ArrayLike | None) -> Array:
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return as_array(arr)


_clip._name = "clip"


# Signs, magnitudes, parts.


@elementwise
def absolute(x: ArrayLike, /) -> Array:
    """|x|: of complex numbers the modulus.

    >>> absolute(np.array([-1, 2]))
    Array([1, 2], dtype=int32)
    """
    x = ensure_arraylike("absolute", x)
    if _dtype(x) == np.bool_ or is_kind(x, np.unsignedinteger):
        return as_array(x)
    return lax.abs(*promote_args("absolute", x))


abs = named("abs", absolute)


@elementwise
def fabs(x: ArrayLike, /) -> Array:
    """|x| of real numbers, as a float.

    >>> fabs(np.array([-1, 2]))
    Array([1., 2.], dtype=float32)
    """
    x = ensure_arraylike("fabs", x)
    if is_kind(x, np.complexfloating):
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return lax.abs(*promote_args_inexact("fabs", x))


@elementwise
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1; of complex numbers x / |x|.

    >>> sign(np.array([-3, 0, 2]))
    Array([-1,  0,  1], dtype=int32)
    """
    return lax.sign(*promote_args("sign", x))


@elementwise
def real(val: ArrayLike, /) -> Array:
    """The real part.

    >>> real(np.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    val = ensure_arraylike("real", val)
    return lax.real(val) if is_kind(val, np.complexfloating) else as_array(val)


@elementwise
def imag(val: ArrayLike, /) -> Array:
    """The imaginary part.

    >>> imag(np.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    val = ensure_arraylike("imag", val)
    return lax.imag(val) if is_kind(val, np.complexfloating) else lax.full_like(val, 0)


@elementwise
def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate.

    >>> conjugate(np.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    x = ensure_arraylike("conjugate", x)
    return lax.conj(x) if is_kind(x, np.complexfloating) else as_array(x)


conj = named("conj", conjugate)


@jitted
def _angle(z: ArrayLike) -> Array:
    if is_kind(z, np.complexfloating):
        return lax.atan2(lax.imag(z), lax.real(z))
    (re,) = promote_dtypes_inexact(z if is_kind(z, np.inexact) else to_dtype(z, dtypes.default_float_dtype()))
    if not (np.ndim(z) and is_kind(z, np.floating)):  # the weak types are JAX's
        re = to_dtype(re, _dtype(re))
    return lax.atan2(lax.full_like(re, 0), re)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of complex numbers.

    Args:
        z: numbers.
        deg: whether the result is in degrees instead of radians.

    >>> angle(np.array([1j]), deg=True)
    Array([90.], dtype=float32)
    """
    z = ensure_arraylike("angle", z)
    result = _angle(z)
    return multiply(result, 180 / np.pi) if deg else result


# Rounding.


@elementwise
def floor(x: ArrayLike, /) -> Array:
    """The greatest integer that is at most x; integers keep their dtype.

    >>> floor(np.array([-0.5, 1.5]))
    Array([-1.,  1.], dtype=float32)
    """
    x = ensure_arraylike("floor", x)
    if _dtype(x) == np.bool_ or is_kind(x, np.integer):
        return as_array(x)
    return lax.floor(*promote_args_inexact("floor", x))


@elementwise
def ceil(x: ArrayLike, /) -> Array:
    """The least integer that is at least x; integers keep their dtype.

    >>> ceil(np.array([0.5, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    x = ensure_arraylike("ceil", x)
    if _dtype(x) == np.bool_ or is_kind(x, np.integer):
        return as_array(x)
    return lax.ceil(*promote_args_inexact("ceil", x))


@jitted
def trunc(x: ArrayLike) -> Array:
    """x without its fraction; integers keep their dtype.

    >>> trunc(np.array([-1.5, 1.5]))
    Array([-1.,  1.], dtype=float32)
    """
    x = ensure_arraylike("trunc", x)
    if _dtype(x) == np.bool_ or is_kind(x, np.integer):
        return as_array(x)
    return choose(lax.lt(x, 0), lax.ceil(x), lax.floor(x))


fix = named("fix", trunc)


@jitted
def rint(x: ArrayLike, /) -> Array:
    """The nearest integer as a float, even where two are equally near.

    >>> rint(np.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    x = ensure_arraylike("rint", x)
    if _dtype(x) == np.bool_ or is_kind(x, np.integer):
        return to_dtype(x, dtypes.default_float_dtype())
    return _round_half_even(x)


def _round_half_even(x: Array) -> Array:
    if is_kind(x, np.complexfloating):
        return lax.complex(_round_half_even(lax.real(x)), _round_half_even(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Numbers rounded to `decimals` decimals, half to even; integers keep their dtype.

    Args:
        a: numbers.
        decimals: number of decimals; negative for tens, hundreds... (of floats only).
        out: must be None.

    Raises:
        NotImplementedError: out is given, or integers are to be rounded to tens.

    >>> round(np.array([1.25, 2.75]), 1)
    Array([1.2, 2.8], dtype=float32)
    """
    a = ensure_arraylike("round", a)
    check_no_out("round", out)
    return _round(a, decimals=operator.index(decimals))


@jit(static_argnames=("decimals",))
def _round(a: ArrayLike, decimals: int) -> Array:
    if is_kind(a, np.integer) or _dtype(a) == np.bool_:
        if decimals < 0:
            raise NotImplementedError("integer np.round not implemented for decimals < 0")
        return as_array(a)
    if decimals == 0:
        return _round_half_even(a)
    if is_kind(a, np.complexfloating):
        return lax.complex(_round(lax.real(a), decimals), _round(lax.imag(a), decimals))
    wide = to_dtype(a, np.dtype("float32")) if dtypes.itemsize_bits(_dtype(a)) < 32 else a
    dtype = _dtype(wide)
    if decimals > math.log10(dtypes.finfo(dtype).max):
        return as_array(a)
    factor = to_dtype(_pow(10.0, decimals), dtype)
    scaled = lax.mul(wide, factor)
    rounded = lax.div(_round_half_even(scaled), factor)
    if decimals > 0:  # what is too large then has no such digits
        rounded = lax.select(lax.is_finite(scaled), rounded, as_array(wide))
    return to_dtype(rounded, _dtype(a), aval_of(a).weak_type and not aval_of(a).shape)


_round._name = "round"


def around(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Another name of `round`."""
    return round(a, decimals, out)
