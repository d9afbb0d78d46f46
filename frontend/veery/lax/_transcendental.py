"""Exponentials, logarithms, trigonometric and hyperbolic functions, and roots."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core import cost, host
from veery.lax import _complex_reference
from veery.lax._arithmetic import add, div, integer_pow, mul, neg, square, sub
from veery.lax._declare import FLOAT, INEXACT, binary, unary
from veery.lax._operands import Array, ArrayLike, apply
from veery.lax._reference import in_double


class AccuracyMode(enum.Enum):
    """How accurate a function has to be. Both modes give the most accurate code there is."""

    HIGHEST = 1
    DEFAULT = 2


@dataclass(frozen=True)
class Tolerance:
    """The error that a function may have: absolute, relative, in units in the last place.

    All code is generated for the highest accuracy, so that a tolerance is met without changing anything.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if self.atol < 0 or self.rtol < 0 or self.ulps < 0:
            raise ValueError(f"Tolerances must be non-negative, got {self}.")


Accuracy = Tolerance | AccuracyMode | None


def _check_accuracy(name: str, accuracy: Accuracy) -> None:
    if accuracy is not None and not isinstance(accuracy, (Tolerance, AccuracyMode)):
        raise ValueError(f"{name}: accuracy must be a Tolerance or an AccuracyMode, got {accuracy!r}.")


# Public functions. All take floats and complex numbers, unless they say less.


def exp(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """e to the power x.

    >>> from veery import lax
    >>> round(float(lax.exp(1.0)), 4)
    2.7183
    """
    _check_accuracy("exp", accuracy)
    return apply(exp_p, x)


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """2 to the power x.

    >>> from veery import lax, numpy as jnp
    >>> lax.exp2(jnp.array([0.0, 3.0]))
    Array([1., 8.], dtype=float32)
    """
    _check_accuracy("exp2", accuracy)
    return apply(exp2_p, x)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The natural logarithm of x: -inf at 0, NaN for negative floats, cut along the negative axis for complex x.

    >>> from veery import lax, numpy as jnp
    >>> lax.log(jnp.array([1.0, 0.0]))
    Array([  0., -inf], dtype=float32)
    """
    _check_accuracy("log", accuracy)
    return apply(log_p, x)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """log(1 + x), accurate for small x.

    >>> from veery import lax, numpy as jnp
    >>> lax.log1p(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    _check_accuracy("log1p", accuracy)
    return apply(log1p_p, x)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """exp(x) - 1, accurate for small x.

    >>> from veery import lax, numpy as jnp
    >>> lax.expm1(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    _check_accuracy("expm1", accuracy)
    return apply(expm1_p, x)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / (1 + exp(-x)), the sigmoid.

    >>> from veery import lax, numpy as jnp
    >>> lax.logistic(jnp.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    _check_accuracy("logistic", accuracy)
    return apply(logistic_p, x)


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The sine of x radians.

    >>> from veery import lax
    >>> round(float(lax.sin(1.0)), 4)
    0.8415
    """
    _check_accuracy("sin", accuracy)
    return apply(sin_p, x)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The cosine of x radians.

    >>> from veery import lax
    >>> round(float(lax.cos(1.0)), 4)
    0.5403
    """
    _check_accuracy("cos", accuracy)
    return apply(cos_p, x)


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The tangent of x radians.

    >>> from veery import lax
    >>> round(float(lax.tan(1.0)), 4)
    1.5574
    """
    _check_accuracy("tan", accuracy)
    return apply(tan_p, x)


def asin(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN for floats beyond [-1, 1].

    >>> from veery import lax
    >>> round(float(lax.asin(0.5)), 4)
    0.5236
    """
    return apply(asin_p, x)


def acos(x: ArrayLike) -> Array:
    """The angle in [0, pi] whose cosine is x; NaN for floats beyond [-1, 1].

    >>> from veery import lax
    >>> round(float(lax.acos(0.5)), 4)
    1.0472
    """
    return apply(acos_p, x)


def atan(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> from veery import lax
    >>> round(float(lax.atan(1.0)), 4)
    0.7854
    """
    return apply(atan_p, x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point (y, x): its tangent is x / y, its quadrant follows from both signs.

    >>> from veery import lax
    >>> round(float(lax.atan2(1.0, -1.0)), 4)
    2.3562
    """
    return apply(atan2_p, x, y)


def sinh(x: ArrayLike) -> Array:
    """(exp(x) - exp(-x)) / 2.

    >>> from veery import lax
    >>> round(float(lax.sinh(1.0)), 4)
    1.1752
    """
    return apply(sinh_p, x)


def cosh(x: ArrayLike) -> Array:
    """(exp(x) + exp(-x)) / 2.

    >>> from veery import lax
    >>> round(float(lax.cosh(1.0)), 4)
    1.5431
    """
    return apply(cosh_p, x)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """sinh(x) / cosh(x).

    >>> from veery import lax
    >>> round(float(lax.tanh(1.0)), 4)
    0.7616
    """
    _check_accuracy("tanh", accuracy)
    return apply(tanh_p, x)


def asinh(x: ArrayLike) -> Array:
    """The number whose sinh is x.

    >>> from veery import lax
    >>> round(float(lax.asinh(1.0)), 4)
    0.8814
    """
    return apply(asinh_p, x)


def acosh(x: ArrayLike) -> Array:
    """The number, with a real part that is not negative, whose cosh is x; NaN for floats below 1.

    >>> from veery import lax
    >>> round(float(lax.acosh(2.0)), 4)
    1.317
    """
    return apply(acosh_p, x)


def atanh(x: ArrayLike) -> Array:
    """The number whose tanh is x; NaN for floats beyond [-1, 1].

    >>> from veery import lax
    >>> round(float(lax.atanh(0.5)), 4)
    0.5493
    """
    return apply(atanh_p, x)


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The square root of x; NaN for negative floats.

    >>> from veery import lax, numpy as jnp
    >>> lax.sqrt(jnp.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """
    _check_accuracy("sqrt", accuracy)
    return apply(sqrt_p, x)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / sqrt(x).

    >>> from veery import lax, numpy as jnp
    >>> lax.rsqrt(jnp.array([4.0, 0.25]))
    Array([0.5, 2. ], dtype=float32)
    """
    _check_accuracy("rsqrt", accuracy)
    return apply(rsqrt_p, x)


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The real cube root of floats.

    >>> from veery import lax, numpy as jnp
    >>> lax.cbrt(jnp.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """
    _check_accuracy("cbrt", accuracy)
    return apply(cbrt_p, x)


# Primitives: one line of derivative each. `t` is the tangent, `out` the result.

_LOG_2 = math.log(2)


def _acosh_slope(x: Any) -> Any:
    """1 / sqrt(x^2 - 1), from two roots.

    That of the product has the wrong sign for complex x left of the imaginary axis, and its derivative at 1 is
    0 * inf, where this one's is -inf.
    """
    return mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1)))


def _logistic_reference(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _atan2_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.arctan2(x, y) if x.dtype.kind != "c" else -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


exp_p = unary(
    "exp",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.exp),
    jvp=lambda t, out, x: mul(t, out),
)
exp2_p = unary(
    "exp2",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.exp2),
    jvp=lambda t, out, x: mul(t, mul(out, _LOG_2)),
)
log_p = unary(
    "log",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.log),
    jvp=lambda t, out, x: div(t, x),
)
log1p_p = unary(
    "log1p",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(_complex_reference.log1p),
    jvp=lambda t, out, x: div(t, add(x, 1)),
)
expm1_p = unary(
    "expm1",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(_complex_reference.expm1),
    jvp=lambda t, out, x: mul(t, add(out, 1)),
)
logistic_p = unary(
    "logistic",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(_logistic_reference),
    jvp=lambda t, out, x: mul(t, mul(out, sub(1, out))),
)
sin_p = unary(
    "sin",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.sin),
    jvp=lambda t, out, x: mul(t, cos(x)),
)
cos_p = unary(
    "cos",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.cos),
    jvp=lambda t, out, x: mul(t, neg(sin(x))),
)
tan_p = unary(
    "tan",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.tan),
    jvp=lambda t, out, x: mul(t, add(square(out), 1)),
)
asin_p = unary(
    "asin",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.arcsin),
    jvp=lambda t, out, x: mul(t, rsqrt(sub(1, square(x)))),
)
acos_p = unary(
    "acos",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.arccos),
    jvp=lambda t, out, x: mul(t, neg(rsqrt(sub(1, square(x))))),
)
atan_p = unary(
    "atan",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.arctan),
    jvp=lambda t, out, x: div(t, add(square(x), 1)),
)
atan2_p = binary(
    "atan2", INEXACT, checks=("nan",), cost=cost.transcendental, reference=in_double(_atan2_reference),
    # (y dx - x dy) / (x^2 + y^2)
    jvp=(
        lambda t, out, x, y: mul(t, div(y, add(square(x), square(y)))),
        lambda t, out, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
    ),
)  # fmt: skip
sinh_p = unary(
    "sinh",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.sinh),
    jvp=lambda t, out, x: mul(t, cosh(x)),
)
cosh_p = unary(
    "cosh",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.cosh),
    jvp=lambda t, out, x: mul(t, sinh(x)),
)
tanh_p = unary(
    # 1 - tanh^2, as a product that does not cancel
    "tanh", INEXACT, checks=("nan",), cost=cost.transcendental,
    reference=in_double(np.tanh), jvp=lambda t, out, x: mul(t, mul(add(1, out), sub(1, out)))
)  # fmt: skip
asinh_p = unary(
    "asinh",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.arcsinh),
    jvp=lambda t, out, x: mul(t, rsqrt(add(square(x), 1))),
)
acosh_p = unary(
    "acosh",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.arccosh),
    jvp=lambda t, out, x: mul(t, _acosh_slope(x)),
)
atanh_p = unary(
    "atanh",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.arctanh),
    jvp=lambda t, out, x: div(t, mul(add(1, x), sub(1, x))),
)
sqrt_p = unary(
    "sqrt",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    host=host.arithmetic(np.sqrt, floats=1, rounds=True),
    reference=in_double(np.sqrt),
    jvp=lambda t, out, x: mul(t, div(0.5, out)),
)
rsqrt_p = unary(
    "rsqrt",
    INEXACT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(lambda x: 1 / np.sqrt(x)),
    jvp=lambda t, out, x: mul(t, div(mul(out, -0.5), x)),
)
cbrt_p = unary(
    "cbrt",
    FLOAT,
    checks=("nan",),
    cost=cost.transcendental,
    reference=in_double(np.cbrt),
    jvp=lambda t, out, x: mul(t, mul(integer_pow(out, -2), 1 / 3)),
)
