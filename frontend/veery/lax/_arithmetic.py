"""Elementwise arithmetic: sums, products, powers, rounding, extrema and the parts of complex numbers."""

from __future__ import annotations

import enum
import operator
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host
from veery._core.ad import LINEAR, MULTILINEAR, NONDIFFERENTIABLE, Zero, is_undefined_primal, zeros_like_aval
from veery._core.avals import ShapedArray, aval_of
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery.lax._compare import eq, ge, select
from veery.lax._complex_reference import sign as complex_sign
from veery.lax._convert import convert_element_type
from veery.lax._declare import (
    COMPLEX,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMERIC,
    ORDERED,
    batch_elementwise,
    binary,
    broadcast_shape,
    check_dtype,
    spread,
    unary,
)
from veery.lax._operands import Array, ArrayLike, adopt_dtype, apply, full_like
from veery.lax._reference import bit_width, in_double, quiet

_PARTS = (np.float32, np.float64)  # what complex numbers are made of
_ANY = (*NUMERIC, np.bool_)


class RoundingMethod(enum.IntEnum):
    """Where `round` takes a number halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# Public functions.


def neg(x: ArrayLike) -> Array:
    """-x, of any number; unsigned integers wrap around.

    >>> from veery import lax, numpy as jnp
    >>> lax.neg(jnp.array([1.0, -2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    return apply(neg_p, x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 (keeping the sign of zero and NaN) for real x; x / |x| for complex x, 0 at 0.

    >>> from veery import lax, numpy as jnp
    >>> lax.sign(jnp.array([-3.0, 0.0, 5.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return apply(sign_p, x)


def abs(x: ArrayLike) -> Array:
    """|x|, of signed integers, floats, and complex numbers (whose result is real).

    >>> from veery import lax, numpy as jnp
    >>> lax.abs(jnp.array([-3.0, 4.0]))
    Array([3., 4.], dtype=float32)
    """
    return apply(abs_p, x)


def floor(x: ArrayLike) -> Array:
    """The greatest integer that is at most x, as a float.

    >>> from veery import lax, numpy as jnp
    >>> lax.floor(jnp.array([-0.5, 1.5]))
    Array([-1.,  1.], dtype=float32)
    """
    return apply(floor_p, x)


def ceil(x: ArrayLike) -> Array:
    """The least integer that is at least x, as a float.

    >>> from veery import lax, numpy as jnp
    >>> lax.ceil(jnp.array([-0.5, 1.5]))
    Array([-0.,  2.], dtype=float32)
    """
    return apply(ceil_p, x)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The integer next to x, as a float.

    Args:
        x: floats.
        rounding_method: which of two integers equally near; away from zero by default.

    Raises:
        ValueError: there is no such rounding method.

    >>> from veery import lax, numpy as jnp
    >>> lax.round(jnp.array([0.5, 1.5, 2.5]))
    Array([1., 2., 3.], dtype=float32)
    """
    return apply(round_p, x, rounding_method=RoundingMethod(rounding_method))


def is_finite(x: ArrayLike) -> Array:
    """Whether x is neither infinite nor NaN.

    >>> from veery import lax, numpy as jnp
    >>> lax.is_finite(jnp.array([1.0, jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return apply(is_finite_p, x)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y, of numbers of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.add(jnp.array([1.0, 2.0]), 1.0)
    Array([2., 3.], dtype=float32)
    """
    return apply(add_p, x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y, of numbers of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.sub(jnp.array([1.0, 2.0]), 1.0)
    Array([0., 1.], dtype=float32)
    """
    return apply(sub_p, x, y)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = None) -> Array:
    """x * y, of numbers of one dtype.

    Args:
        x, y: numbers.
        out_dtype: compute the product in this dtype, to which the operands are converted first.

    >>> from veery import lax, numpy as jnp
    >>> lax.mul(jnp.array([1.0, 2.0]), 3.0)
    Array([3., 6.], dtype=float32)
    """
    if out_dtype is None:
        return apply(mul_p, x, y)

    return apply(mul_p, convert_element_type(x, out_dtype), convert_element_type(y, out_dtype))


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, of numbers of one dtype; integers are divided rounding towards zero, and by zero give -1.

    >>> from veery import lax, numpy as jnp
    >>> lax.div(jnp.array([-7, 7]), 2)
    Array([-3,  3], dtype=int32)
    """
    return apply(div_p, x, y)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """What the division of x by y towards zero leaves; it has the sign of x. Integers modulo zero are x.

    >>> from veery import lax, numpy as jnp
    >>> lax.rem(jnp.array([-7, 7]), 3)
    Array([-1,  1], dtype=int32)
    """
    return apply(rem_p, x, y)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The greater of x and y; NaN where one is NaN. Complex numbers compare by real, then imaginary part.

    >>> from veery import lax, numpy as jnp
    >>> lax.max(jnp.array([1.0, 4.0]), 2.0)
    Array([2., 4.], dtype=float32)
    """
    return apply(max_p, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The lesser of x and y; NaN where one is NaN. Complex numbers compare by real, then imaginary part.

    >>> from veery import lax, numpy as jnp
    >>> lax.min(jnp.array([1.0, 4.0]), 2.0)
    Array([1., 2.], dtype=float32)
    """
    return apply(min_p, x, y)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y.

    Args:
        x: floats or complex numbers.
        y: of x's dtype, or integers.

    >>> from veery import lax, numpy as jnp
    >>> lax.pow(jnp.array([2.0, 3.0]), 2)
    Array([4., 9.], dtype=float32)
    """
    if isinstance(y, int) and not isinstance(y, (bool, np.generic)):  # a float would have another derivative at x = 0
        return pow_p.bind(*adopt_dtype("pow", [x]), y)
    return apply(pow_p, x, y)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the power of a Python integer, which may be negative unless x is an integer.

    >>> from veery import lax, numpy as jnp
    >>> lax.integer_pow(jnp.array([2.0, 3.0]), 3)
    Array([ 8., 27.], dtype=float32)
    """
    return apply(integer_pow_p, x, y=operator.index(y))


def square(x: ArrayLike) -> Array:
    """x * x.

    >>> from veery import lax, numpy as jnp
    >>> lax.square(jnp.array([2.0, 3.0]))
    Array([4., 9.], dtype=float32)
    """
    return apply(square_p, x)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x, of floats and complex numbers.

    >>> from veery import lax, numpy as jnp
    >>> lax.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The float next to x1 in the direction of x2.

    >>> from veery import lax, numpy as jnp
    >>> lax.nextafter(jnp.array([0.0]), 1.0)
    Array([1.e-45], dtype=float32)
    """
    return apply(nextafter_p, x1, x2)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The high half of the product of two integers of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.mulhi(jnp.uint8(200), jnp.uint8(200))
    Array(156, dtype=uint8)
    """
    return apply(mulhi_p, x, y)


def real(x: ArrayLike) -> Array:
    """The real part of complex numbers.

    >>> from veery import lax, numpy as jnp
    >>> lax.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    return apply(real_p, x)


def imag(x: ArrayLike) -> Array:
    """The imaginary part of complex numbers.

    >>> from veery import lax, numpy as jnp
    >>> lax.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    return apply(imag_p, x)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + iy, of float32 or float64.

    >>> from veery import lax, numpy as jnp
    >>> lax.complex(jnp.array([1.0]), 2.0)
    Array([1.+2.j], dtype=complex64)
    """
    return apply(complex_p, x, y)


def conj(x: ArrayLike) -> Array:
    """The complex conjugate of x; of a float, x as a complex number.

    >>> from veery import lax, numpy as jnp
    >>> lax.conj(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    (operand,) = adopt_dtype("conj", [x])
    return conj_p.bind(operand, input_dtype=aval_of(operand).dtype)


# Primitives: one line of derivative each. `t` is the tangent, `out` the result.


def is_complex(x: Any) -> bool:
    """Whether an array has a complex dtype."""
    return dtypes.issubdtype(aval_of(x).dtype, np.complexfloating)


def nonzero(x: Any) -> Any:
    """x with its zeros made ones, for quotients and logarithms whose value there is decided otherwise."""
    return select(eq(x, 0), full_like(x, 1), x)


# What NumPy evaluates with the bits of compiled programs (see veery._core.host).


def _real_sign(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, x, np.sign(x))


def _divide_floats(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.divide(x, y))


def _integer_power(x: np.ndarray, *, y: int) -> np.ndarray:
    """x ** y, y not negative, with the products of the compiled program, in their order."""
    result, factor = None, x
    while y:
        if y & 1:
            result = factor if result is None else result * factor
        y >>= 1
        factor = factor * factor if y else factor
    return np.ones_like(x) if result is None else np.asarray(result)


_nonnegative_power = host.arithmetic(integers=8, floats=8, of_floats=_integer_power, product=True)


def _power_on_host(eqn: JaxprEqn, known: host.Known) -> host.Step | None:
    inverse = eqn.params["y"] < 0 and host.dtype_of(eqn.invars[0].aval) in host.NATIVE
    return None if inverse else _nonnegative_power(eqn, known)


def _round_reference(x: np.ndarray, *, rounding_method: RoundingMethod) -> np.ndarray:
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _abs_jvp(t: Any, out: Any, x: Any) -> Any:
    """d|x| is sign(x) dx, and dx at 0; for complex x the real part of dx conj(x) / |x|, and 0 at 0."""
    if is_complex(x):
        return real(mul(t, div(conj(x), nonzero(complex(out, full_like(out, 0))))))
    return select(ge(x, 0), t, neg(t))


def _extreme_reference(ufunc: Any, of_floats: Any) -> Any:
    """That of NumPy, which gives any of 0.0 and -0.0, but for floats."""
    return lambda x, y: (of_floats if dtypes.issubdtype(x.dtype, np.floating) else ufunc)(x, y)


def _sign_reference(x: np.ndarray) -> np.ndarray:
    return complex_sign(x) if x.dtype.kind == "c" else _real_sign(x)


neg_p = unary(
    "neg",
    NUMERIC,
    checks=("nan",),
    host=host.arithmetic(np.negative, integers=1, floats=1),
    jvp=LINEAR,
    reference=quiet(np.negative),
    transpose=lambda ct, x: [neg(ct)],
)
sign_p = unary(
    "sign",
    NUMERIC,
    host=host.arithmetic(integers=1, floats=8, of_floats=_real_sign),
    jvp=NONDIFFERENTIABLE,
    reference=quiet(_sign_reference),
)
abs_p = unary(
    "abs", (np.signedinteger, *INEXACT), host=host.arithmetic(np.abs, integers=1, floats=1), jvp=_abs_jvp,
    reference=quiet(np.abs),
    result_dtype=lambda dtype: dtypes.to_floating_dtype(dtype) if dtype.kind == "c" else dtype,
)  # fmt: skip
floor_p = unary(
    "floor", FLOAT, host=host.arithmetic(np.floor, floats=1), jvp=NONDIFFERENTIABLE, reference=quiet(np.floor)
)
ceil_p = unary("ceil", FLOAT, host=host.arithmetic(np.ceil, floats=1), jvp=NONDIFFERENTIABLE, reference=quiet(np.ceil))
round_p = unary(
    "round", FLOAT, host=host.arithmetic(floats=8), jvp=NONDIFFERENTIABLE, reference=in_double(_round_reference)
)
is_finite_p = unary(
    "is_finite",
    FLOAT,
    host=host.arithmetic(np.isfinite, floats=1),
    jvp=NONDIFFERENTIABLE,
    reference=quiet(np.isfinite),
    result_dtype=np.bool_,
)


def _linear_in(ct: Any, *operands: Any) -> list[Any]:
    """The cotangents of a sum: the same for each linear operand."""
    return [ct if is_undefined_primal(x) else None for x in operands]


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [ct if is_undefined_primal(x) else None, neg(ct) if is_undefined_primal(y) else None]


def _mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [mul(ct, y), None] if is_undefined_primal(x) else [None, mul(x, ct)]


def _integer_div_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient rounded towards zero; x / 0 is -1 (all bits set), and the most negative number by -1 is itself."""
    overflows = y == y.dtype.type(-1) if np.issubdtype(x.dtype, np.signedinteger) else np.zeros(y.shape, bool)
    safe = np.where((y == 0) | overflows, 1, y).astype(y.dtype)
    quotient = (x - np.fmod(x, safe)) // safe
    return np.where(y == 0, ~np.zeros_like(x), np.where(overflows, -x, quotient)).astype(x.dtype)


def _div_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _integer_div_reference(x, y) if dtypes.issubdtype(x.dtype, np.integer) else np.divide(x, y)


def _rem_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not dtypes.issubdtype(x.dtype, np.integer):
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)


_rem_of_integers = host.arithmetic(integers=8)
_quotient_on_host = host.arithmetic(integers=8, floats=1, of_floats=_divide_floats, rounds=True, folded=(-1, 0, 1))


def _div_on_host(eqn: JaxprEqn, known: host.Known) -> host.Step | None:
    """Of integers by a known divisor, neither 0 nor -1, in a tenth of the time."""
    step = _quotient_on_host(eqn, known)
    if step is None or known[1] is None or known[1].dtype.kind not in "iu":
        return step
    return step._replace(function=_whole_div) if known[1].all() and (known[1] + known[1].dtype.type(1)).all() else step


def _whole_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray((x - np.fmod(x, y)) // y)


def _rem_on_host(eqn: JaxprEqn, known: host.Known) -> host.Step | None:
    """By a known divisor in a tenth of the time."""
    step = _rem_of_integers(eqn, known)
    return step if step is None or known[1] is None or not known[1].all() else step._replace(function=_whole_rem)


def _whole_rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.fmod(x, y))


def _quotient(x: Any, y: Any, remainder: Any) -> Any:
    """The whole number of times that y goes into x."""
    return round(div(sub(x, remainder), y))


def _share(x: Any, out: Any, y: Any) -> Any:
    """The part of the derivative of an extremum `out` of x and y that is x's: 1, 0, or 1/2 where they are equal."""
    one, half, zero = full_like(out, 1), full_like(out, 0.5), full_like(out, 0)
    return select(eq(x, out), select(eq(y, out), half, one), zero)


add_p = binary(
    "add",
    NUMERIC,
    checks=("nan",),
    host=host.arithmetic(np.add, integers=1, floats=1, rounds=True, folded=(0,)),
    jvp=(lambda t, *_: t, lambda t, *_: t),
    reference=quiet(np.add),
    transpose=_linear_in,
)
sub_p = binary(
    "sub",
    NUMERIC,
    checks=("nan",),
    host=host.arithmetic(np.subtract, integers=1, floats=1, rounds=True, folded=(0,)),
    jvp=(lambda t, *_: t, lambda t, *_: neg(t)),
    reference=quiet(np.subtract),
    transpose=_sub_transpose,
)
mul_p = binary(
    "mul",
    NUMERIC,
    checks=("nan",),
    host=host.arithmetic(np.multiply, integers=1, floats=1, product=True, folded=(-1, 0, 1)),
    jvp=MULTILINEAR,
    reference=quiet(np.multiply),
    transpose=_mul_transpose,
)
div_p = binary(
    "div", NUMERIC, checks=("nan", "division"), host=_div_on_host,
    reference=quiet(_div_reference),
    # d(x / y) = dx / y - (x / y) dy / y
    jvp=(lambda t, out, x, y: div(t, y), lambda t, out, x, y: mul(t, neg(div(out, y)))),
    transpose=lambda ct, x, y: [div(ct, y), None],
)  # fmt: skip
rem_p = binary(
    "rem", ORDERED, checks=("nan",), host=_rem_on_host, reference=quiet(_rem_reference),
    # rem(x, y) = x - n y with a locally constant n
    jvp=(lambda t, *_: t, lambda t, out, x, y: mul(t, neg(_quotient(x, y, out)))),
)  # fmt: skip
max_p = binary(
    "max", _ANY, checks=("nan",), host=host.arithmetic(np.maximum, integers=1, floats=1, of_floats=host.maximum),
    reference=quiet(_extreme_reference(np.maximum, host.maximum)),
    jvp=(lambda t, out, x, y: mul(t, _share(x, out, y)), lambda t, out, x, y: mul(t, _share(y, out, x))),
)  # fmt: skip
min_p = binary(
    "min", _ANY, checks=("nan",), host=host.arithmetic(np.minimum, integers=1, floats=1, of_floats=host.minimum),
    reference=quiet(_extreme_reference(np.minimum, host.minimum)),
    jvp=(lambda t, out, x, y: mul(t, _share(x, out, y)), lambda t, out, x, y: mul(t, _share(y, out, x))),
)  # fmt: skip
nextafter_p = binary(
    "nextafter", FLOAT, host=host.arithmetic(floats=8), jvp=NONDIFFERENTIABLE, reference=quiet(np.nextafter)
)
mulhi_p = binary(
    "mulhi", INTEGER, jvp=NONDIFFERENTIABLE,
    reference=lambda x, y: np.asarray((x.astype(object) * y.astype(object)) >> bit_width(x.dtype)).astype(x.dtype),
)  # fmt: skip


# Powers.


def _pow_aval(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    check_dtype("pow", x.dtype, INEXACT, 0)
    check_dtype("pow", y.dtype, NUMERIC, 1)
    if x.dtype != y.dtype and not dtypes.issubdtype(y.dtype, np.integer):
        raise TypeError(
            "The first argument to lax.pow must have an inexact dtype (float or complex), and the second argument must "
            "have an inexact or integer dtype, and two inexact dtypes must match, but got "
            f"{x.dtype.name} and {y.dtype.name} respectively."
        )
    return ShapedArray(broadcast_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type)


def _pow_jvp_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    """y x^(y-1); an integer exponent 0 makes it 0 even where x is 0."""
    if not dtypes.issubdtype(aval_of(y).dtype, np.integer):
        return mul(t, mul(y, pow(x, sub(y, 1))))
    factor = mul(convert_element_type(y, aval_of(x).dtype), pow(x, sub(y, 1)))
    return mul(t, select(spread(eq(y, 0), np.shape(out)), full_like(out, 0), factor))


def _pow_jvp_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
    """x^y log(x), where log(0) counts as 0: at x = 0 and y > 0 the derivative is 0."""
    from veery.lax._transcendental import log

    return mul(t, mul(log(nonzero(x)), out))


def _pow_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f" and (is_half := y == 0.5).any():
        # NumPy takes roots where all exponents are 0.5, but those of -inf and -0.0 are no powers.
        x = np.where(is_half & ((x == 0) | (x == -np.inf)), np.abs(x), x)
    return np.power(x, y.astype(x.dtype) if x.dtype != y.dtype else y)


def _integer_pow_aval(x: ShapedArray, *, y: int) -> ShapedArray:
    check_dtype("integer_pow", x.dtype, NUMERIC)
    if y < 0 and dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({x.str_short(short_dtypes=False)}, {y})"
        )
    return x


def _integer_pow_jvp(t: Any, out: Any, x: Any, *, y: int) -> Any:
    """y x^(y-1)"""
    if y == 0:
        return Zero.from_primal_value(out)
    if y == 1:
        return t
    return mul(t, mul(x if y == 2 else integer_pow(x, y - 1), y))


def _integer_pow_reference(x: np.ndarray, *, y: int) -> np.ndarray:
    if dtypes.issubdtype(x.dtype, np.integer):
        wide = np.uint64 if x.dtype == np.uint64 else np.int64
        return np.power(x.astype(wide), wide(y)).astype(x.dtype)
    return in_double(lambda x: np.power(x, y) if y >= 0 else 1 / np.power(x, -y))(x)


pow_p: Primitive = Primitive(
    "pow", checks=("nan",), cost=cost.transcendental, abstract_eval=_pow_aval, jvp=(_pow_jvp_base, _pow_jvp_exponent),
    reference=in_double(_pow_reference),
    batch=lambda args, dims: batch_elementwise(pow_p, args, dims, {}),
)  # fmt: skip
integer_pow_p: Primitive = Primitive(
    "integer_pow", checks=("nan",), host=_power_on_host, abstract_eval=_integer_pow_aval, jvp=(_integer_pow_jvp,),
    reference=quiet(_integer_pow_reference),
    batch=lambda args, dims, **params: batch_elementwise(integer_pow_p, args, dims, params),
)  # fmt: skip
square_p = unary(
    "square",
    NUMERIC,
    checks=("nan",),
    host=host.arithmetic(np.square, integers=1, floats=1, product=True),
    jvp=lambda t, out, x: mul(t, mul(x, 2)),
    reference=quiet(np.square),
)


# Complex numbers. Cotangents pair with tangents by Re(ct * t), so that transposing is not conjugating.


def _complex_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack(np.broadcast_arrays(x, y), axis=-1).view(dtypes.to_complex_dtype(x.dtype))[..., 0]


def _nothing(ct: Any) -> Array:
    """The part of a cotangent that is zero; of a type of its own, which makes the whole's."""
    return zeros_like_aval(aval_of(ct).update(weak_type=False))


def _complex_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    """Re(ct (x + iy)) = Re(ct) x - Im(ct) y"""
    return [
        real(ct) if is_undefined_primal(x) else None,
        neg(imag(ct)) if is_undefined_primal(y) else None,
    ]


def _conj_transpose(ct: Any, x: Any, *, input_dtype: Any) -> list[Any]:
    """Re(ct conj(x)) = Re(conj(ct) x)"""
    is_real = not dtypes.issubdtype(input_dtype, np.complexfloating)
    return [real(ct) if is_real else conj(ct)]


real_p = unary(
    "real", COMPLEX, jvp=LINEAR, reference=quiet(np.real), result_dtype=dtypes.to_floating_dtype,
    transpose=lambda ct, x: [complex(ct, _nothing(ct))],
)  # fmt: skip
imag_p = unary(
    "imag", COMPLEX, jvp=LINEAR, reference=quiet(np.imag), result_dtype=dtypes.to_floating_dtype,
    transpose=lambda ct, x: [complex(_nothing(ct), neg(ct))],
)  # fmt: skip
complex_p = binary(
    "complex", _PARTS, jvp=LINEAR, reference=_complex_reference, result_dtype=dtypes.to_complex_dtype,
    transpose=_complex_transpose,
)  # fmt: skip
conj_p = unary(
    "conj", (*_PARTS, *COMPLEX), jvp=LINEAR, result_dtype=dtypes.to_complex_dtype, transpose=_conj_transpose,
    reference=quiet(lambda x, *, input_dtype: np.conj(x).astype(dtypes.to_complex_dtype(x.dtype))),
)  # fmt: skip
