"""Elementwise comparisons, logical and bitwise operations, and tests of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery.lax._placement import in_memory_of
from veery.numpy._arithmetic import _dtype, absolute, as_array, choose, imag, is_kind, ordered
from veery.numpy._creation import asarray, number
from veery.numpy._elementwise import elementwise, jitted, named
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_arrays,
    ensure_arraylike,
    ensure_arraylikes,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_shapes,
    strong_array,
    to_dtype,
    unwrap,
)
from veery.numpy._ufunc import binary_ufunc

# Comparisons. Complex numbers are ordered by their real parts, then by their imaginary parts.


@elementwise
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x == y; never for NaN.

    >>> equal(np.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return lax.eq(*promote_args("equal", x, y))


@elementwise
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x != y; always for NaN.

    >>> not_equal(np.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return lax.ne(*promote_args("not_equal", x, y))


@elementwise
def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x < y.

    >>> less(np.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return ordered(lax.lt, *promote_args("less", x, y))


@elementwise
def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x <= y.

    >>> less_equal(np.array([1, 2]), 1)
    Array([ True, False], dtype=bool)
    """
    return ordered(lax.le, *promote_args("less_equal", x, y))


@elementwise
def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x > y.

    >>> greater(np.array([1, 2]), 1)
    Array([False,  True], dtype=bool)
    """
    return ordered(lax.gt, *promote_args("greater", x, y))


@elementwise
def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x >= y.

    >>> greater_equal(np.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return ordered(lax.ge, *promote_args("greater_equal", x, y))


# Logic: anything but zero is true.


def to_bool(x: ArrayLike) -> Any:
    """Whether x is not zero."""
    return to_dtype(x if _dtype(x) == np.bool_ else lax.ne(x, lax.full_like(x, 0)), np.dtype(bool))


def _bools(name: str, *args: ArrayLike) -> list[Any]:
    args = ensure_arraylikes(name, *args)
    dtype, weak = dtypes.lattice_result_type(*args)
    bools = [to_dtype(to_bool(x), np.dtype(bool), weak and dtype != np.bool_) for x in args]
    return [strong_array(x) for x in promote_shapes(name, *bools)]


@binary_ufunc(identity=True)
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether both are not zero.

    >>> logical_and(np.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """
    return lax.bitwise_and(*_bools("logical_and", x, y))


@binary_ufunc(identity=False)
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether one of them is not zero.

    >>> logical_or(np.array([0, 1, 2]), False)
    Array([False,  True,  True], dtype=bool)
    """
    return lax.bitwise_or(*_bools("logical_or", x, y))


@binary_ufunc(identity=False)
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether just one of them is not zero.

    >>> logical_xor(np.array([0, 1, 2]), True)
    Array([ True, False, False], dtype=bool)
    """
    return lax.bitwise_xor(*_bools("logical_xor", x, y))


@elementwise
def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is zero.

    >>> logical_not(np.array([0, 1, 2]))
    Array([ True, False, False], dtype=bool)
    """
    return lax.bitwise_not(*_bools("logical_not", x))


# Bits.


@binary_ufunc(identity=-1)
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in both.

    >>> bitwise_and(np.array([5, 6]), 3)
    Array([1, 2], dtype=int32)
    """
    return lax.bitwise_and(*promote_args("bitwise_and", x, y))


@binary_ufunc(identity=0)
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in one of them.

    >>> bitwise_or(np.array([5, 6]), 3)
    Array([7, 7], dtype=int32)
    """
    return lax.bitwise_or(*promote_args("bitwise_or", x, y))


@binary_ufunc(identity=0)
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in just one of them.

    >>> bitwise_xor(np.array([5, 6]), 3)
    Array([6, 5], dtype=int32)
    """
    return lax.bitwise_xor(*promote_args("bitwise_xor", x, y))


@elementwise
def invert(x: ArrayLike, /) -> Array:
    """All bits flipped; the logical not of bools.

    >>> invert(np.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return lax.bitwise_not(*promote_args("invert", x))


bitwise_not = named("bitwise_not", invert)
bitwise_invert = named("bitwise_invert", invert)


@elementwise
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x shifted by y bits to the left; 0 where y is at least the number of bits.

    >>> left_shift(np.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """
    return lax.shift_left(*promote_args_numeric("left_shift", x, y))


bitwise_left_shift = named("bitwise_left_shift", left_shift)


@elementwise
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 shifted by x2 bits to the right, keeping the sign.

    >>> right_shift(np.array([-8, 8]), 2)
    Array([-2,  2], dtype=int32)
    """
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    shift = lax.shift_right_logical if is_kind(x1, np.unsignedinteger) else lax.shift_right_arithmetic
    return shift(x1, x2)


bitwise_right_shift = named("bitwise_right_shift", right_shift)


@jitted
def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits that are set in |x|, as uint8.

    >>> bitwise_count(np.array([-3, 7]))
    Array([2, 3], dtype=uint8)
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    return lax.convert_element_type(lax.population_count(absolute(x)), np.uint8)


# Tests of numbers.


@elementwise
def isnan(x: ArrayLike, /) -> Array:
    """Whether x is NaN.

    >>> isnan(np.array([0.0, np.nan]))
    Array([False,  True], dtype=bool)
    """
    x = ensure_arraylike("isnan", x)
    return lax.ne(x, x)


@elementwise
def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither infinite nor NaN.

    >>> isfinite(np.array([0.0, np.inf]))
    Array([ True, False], dtype=bool)
    """
    x = ensure_arraylike("isfinite", x)
    if is_kind(x, np.complexfloating):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x) if is_kind(x, np.floating) else lax.full(np.shape(x), True, np.dtype(bool))


@jitted
def isinf(x: ArrayLike, /) -> Array:
    """Whether x is infinite.

    >>> isinf(np.array([0.0, -np.inf]))
    Array([False,  True], dtype=bool)
    """
    x = ensure_arraylike("isinf", x)
    if is_kind(x, np.complexfloating):
        return lax.bitwise_or(*map(isinf, (lax.real(x), lax.imag(x))))
    if not is_kind(x, np.floating):
        return lax.full(np.shape(x), False, np.dtype(bool))
    return to_dtype(lax.eq(lax.abs(x), np.inf), np.dtype(bool))


def _is_infinity(x: ArrayLike, infinity: float) -> Array:
    if is_kind(x, np.complexfloating):
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    if not is_kind(x, np.floating):
        return lax.full(np.shape(x), False, np.dtype(bool))
    return to_dtype(lax.eq(x, infinity), np.dtype(bool))


@elementwise
def _isposinf(x: ArrayLike) -> Array:
    x = ensure_arraylike("isposinf", x)
    return _is_infinity(x, np.inf)


@elementwise
def _isneginf(x: ArrayLike) -> Array:
    x = ensure_arraylike("isneginf", x)
    return _is_infinity(x, -np.inf)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether x is infinity.

    >>> isposinf(np.array([np.inf, -np.inf]))
    Array([ True, False], dtype=bool)
    """
    _no_out("isposinf", out)
    return _isposinf(x)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether x is minus infinity.

    >>> isneginf(np.array([np.inf, -np.inf]))
    Array([False,  True], dtype=bool)
    """
    _no_out("isneginf", out)
    return _isneginf(x)


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to {name} is not supported.")


@elementwise
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: x < 0, or x is -0.0 or a NaN of that sign.

    Raises:
        ValueError: x is complex.

    >>> signbit(np.array([-0.0, 0.0]))
    Array([ True, False], dtype=bool)
    """
    (x,) = promote_args("signbit", x)
    if is_kind(x, np.complexfloating):
        raise ValueError("jax.numpy.signbit is not well defined for complex inputs.")
    if _dtype(x) == np.bool_ or is_kind(x, np.unsignedinteger):
        return lax.full(np.shape(x), False, np.dtype(bool))
    if is_kind(x, np.integer):
        return to_dtype(lax.lt(x, 0), np.dtype(bool))
    integer = np.dtype(f"int{dtypes.itemsize_bits(_dtype(x))}")
    return lax.lt(lax.bitcast_convert_type(x, integer), 0)


@jitted
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """|x1| with the sign of x2.

    >>> copysign(np.array([1.0, -2.0]), -0.0)
    Array([-1., -2.], dtype=float32)
    """
    x1, x2 = promote_args_inexact("copysign", x1, x2)
    if is_kind(x1, np.complexfloating):
        raise TypeError("copysign does not support complex-valued inputs")
    magnitude = lax.abs(x1)
    return choose(signbit(x2), lax.neg(magnitude), magnitude)


@elementwise
def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The number next to x on the way to y.

    >>> nextafter(np.array([0.0]), 1)
    Array([1.e-45], dtype=float32)
    """
    return lax.nextafter(*broadcast_arrays(*promote_args_inexact("nextafter", x, y)))


@jitted
def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next number away from zero, with the sign of x; of float16, as in NumPy, to the next larger.

    >>> spacing(np.array([1.0]))
    Array([1.1920929e-07], dtype=float32)
    """
    (x,) = promote_args_inexact("spacing", x)
    if is_kind(x, np.complexfloating):
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    x = as_array(x)
    inf = np.array(np.inf).astype(_dtype(x))
    if _dtype(x) == np.float16:
        return choose(isfinite(x), lax.sub(nextafter(x, inf), x), np.nan)
    distance = lax.sub(nextafter(x, copysign(inf, x)), x)
    smallest = float(dtypes.finfo(_dtype(x)).smallest_subnormal)
    return choose(lax.eq(distance, 0), copysign(to_dtype(smallest, _dtype(x)), x), distance)


@jitted
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 where x1 < 0, 1 where x1 > 0, and x2 at 0.

    >>> heaviside(np.array([-2.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x1, x2 = promote_args_inexact("heaviside", x1, x2)
    otherwise = choose(lax.gt(x1, 0), 1, choose(lax.ne(x1, x1), x1, x2))
    result = choose(lax.lt(x1, 0), 0, otherwise)
    return strong_array(result) if np.ndim(x1) else result


@elementwise
def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part is not zero.

    >>> iscomplex(np.array([1, 1j]))
    Array([False,  True], dtype=bool)
    """
    x = ensure_arraylike("iscomplex", x)
    imaginary = imag(x)
    return strong_array(lax.ne(imaginary, lax.full_like(imaginary, 0)))


@elementwise
def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part is zero.

    >>> isreal(np.array([1, 1j]))
    Array([ True, False], dtype=bool)
    """
    x = ensure_arraylike("isreal", x)
    imaginary = imag(x)
    return strong_array(lax.eq(imaginary, lax.full_like(imaginary, 0)))


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype of x is complex.

    >>> iscomplexobj(1j)
    True
    """
    if x is None:
        return False
    x = unwrap(x)
    if isinstance(x, (list, tuple)):
        x = asarray(x)
    try:
        return dtypes.issubdtype(x.dtype, np.complexfloating)
    except AttributeError:
        return bool(np.iscomplexobj(x))


def isrealobj(x: Any) -> bool:
    """Whether the dtype of x is not complex.

    >>> isrealobj(1j)
    False
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether x is a Python or NumPy scalar, or an array or tracer of rank 0.

    >>> isscalar(1.0), isscalar(np.ones(2))
    (True, False)
    """
    element = unwrap(element)
    if np.isscalar(element):
        return True
    if isinstance(element, (str, bytes)):
        return True
    return hasattr(element, "dtype") and hasattr(element, "ndim") and element.ndim == 0


@jit(static_argnames=("equal_nan",))
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| <= atol + rtol * |b|; infinities are close to themselves.

    Args:
        a: numbers.
        b: numbers that broadcast with them.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    Random keys are close where they are equal. The arrays may be in different memories.

    >>> isclose(np.array([1.0, 1.1]), 1.000001)
    Array([ True, False], dtype=bool)
    """
    a, b = promote_args("isclose", a, b)
    if is_kind(a, dtypes.extended):  # keys and their like are close where they are equal
        return lax.eq(*broadcast_arrays(a, b))
    if not is_kind(a, np.inexact):
        a, b = (to_dtype(v, dtypes.default_float_dtype()) if _dtype(v) == np.bool_ else v for v in (a, b))
        if is_kind(a, np.integer):
            a, b = promote_dtypes_inexact(a, b)
    real_dtype = lax.real(a).dtype if is_kind(a, np.complexfloating) else _dtype(a)
    rtol, atol = (to_dtype(v, real_dtype) for v in (rtol, atol))
    a, b = broadcast_arrays(a, b)
    b = in_memory_of(b, a)
    close = lax.le(lax.abs(lax.sub(a, b)), lax.add(atol, lax.mul(rtol, lax.abs(b))))
    result = lax.bitwise_or(lax.eq(a, b), lax.bitwise_and(isfinite(b), close))
    if equal_nan:
        result = lax.bitwise_or(result, lax.bitwise_and(isnan(a), isnan(b)))
    return result


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements of a and b are close (see `isclose`).

    >>> allclose(np.array([1.0, 2.0]), np.array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    a, b = ensure_arraylike("allclose", a, b)
    return _all_close(a, b, number(rtol), number(atol), equal_nan=bool(equal_nan))


@jit(static_argnames=("equal_nan",))
def _all_close(a: ArrayLike, b: ArrayLike, rtol: ArrayLike, atol: ArrayLike, equal_nan: bool) -> Array:
    close = isclose(a, b, rtol, atol, equal_nan)
    return lax.reduce_and(close, tuple(range(close.ndim)))


_all_close._name = "allclose"


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements.

    Args:
        a1: array, or nested sequence.
        a2: array, or nested sequence.
        equal_nan: whether NaN equals NaN.

    >>> array_equal([1, 2], [1, 2])
    Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return asarray(np.bool_(False))
    return _all_equal(x, y, equal_nan=bool(equal_nan))


@jit(static_argnames=("equal_nan",))
def _all_equal(x: Array, y: Array, equal_nan: bool) -> Array:
    same = equal(x, y)
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(isnan(x), isnan(y)))
    return lax.reduce_and(same, tuple(range(same.ndim)))


_all_equal._name = "array_equal"


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays have the same elements when one is broadcast to the other's shape.

    >>> array_equiv([1, 2], [[1, 2], [1, 2]])
    Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    try:
        same = equal(x, y)
    except (TypeError, ValueError):
        return asarray(np.bool_(False))
    return lax.reduce_and(same, tuple(range(same.ndim)))


@jit(static_argnames=("copy",))
def _nan_to_num(x: ArrayLike, copy: bool, nan: ArrayLike, posinf: ArrayLike | None, neginf: ArrayLike | None) -> Array:
    (x,) = promote_args("nan_to_num", x)
    if not is_kind(x, np.inexact):
        return as_array(x)
    if is_kind(x, np.complexfloating):
        parts = (_nan_to_num(part, copy, nan, posinf, neginf) for part in (lax.real(x), lax.imag(x)))
        return lax.complex(*parts)
    limits = dtypes.finfo(_dtype(x))
    posinf = float(limits.max) if posinf is None else posinf
    neginf = float(limits.min) if neginf is None else neginf
    for condition, value in ((isnan(x), nan), (isposinf(x), posinf), (isneginf(x), neginf)):
        x = choose(condition, to_dtype(value, _dtype(x)), x)
    return x


_nan_to_num._name = "nan_to_num"


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """x with NaN and infinities replaced by finite numbers.

    Args:
        x: numbers.
        copy: accepted for compatibility.
        nan: replaces NaN.
        posinf: replaces infinity; by default the greatest finite number.
        neginf: replaces minus infinity; by default the least finite number.

    >>> nan_to_num(np.array([np.nan, 1.0]), nan=7)
    Array([7., 1.], dtype=float32)
    """
    x, nan = ensure_arraylike("nan_to_num", x, nan)
    return _nan_to_num(x, copy, number(nan), unwrap(posinf), unwrap(neginf))


# Integers.


def _gcd_loop(x: Array, y: Array) -> Array:
    def body(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = pair
        done = lax.eq(b, 0)
        rest = lax.rem(a, choose(done, 1, b))
        return choose(done, a, b), choose(done, 0, rest)

    any_left = lambda pair: lax.reduce_or_p.bind(lax.ne(pair[1], 0), axes=tuple(range(np.ndim(pair[1]))))
    return lax.while_loop(any_left, body, (x, y))[0]


def _integers(name: str, x1: ArrayLike, x2: ArrayLike) -> list[Array]:
    x1, x2 = ensure_arraylike(name, x1, x2)
    x1, x2 = promote_dtypes(x1, x2)
    if not is_kind(x1, np.integer):
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    return [as_array(v) for v in broadcast_arrays(x1, x2)]


@jitted
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers.

    Raises:
        ValueError: the arguments are no integers.

    >>> gcd(np.array([4, 6]), 6)
    Array([2, 6], dtype=int32)
    """
    x1, x2 = _integers("gcd", x1, x2)
    return strong_array(_gcd_loop(absolute(x1), absolute(x2)))


@jitted
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers; 0 where one of them is 0.

    Raises:
        ValueError: the arguments are no integers.

    >>> lcm(np.array([4, 6]), 6)
    Array([12,  6], dtype=int32)
    """
    x1, x2 = (absolute(v) for v in _integers("lcm", x1, x2))
    divisor = _gcd_loop(x1, x2)
    return strong_array(lax.mul(x1, lax.div(x2, choose(lax.eq(divisor, 0), 1, divisor))))


@jit
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fraction and the integer part of x, both with its sign.

    >>> modf(np.array([-1.5, 2.0]))
    (Array([-0.5,  0. ], dtype=float32), Array([-1.,  2.], dtype=float32))
    """
    (x,) = promote_args_inexact("modf", x)
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.modf is not supported.")
    whole = choose(lax.ge(x, 0), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole
