"""Exponentials, logarithms, trigonometric and hyperbolic functions, and roots."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery.lax._arithmetic import add, div, is_complex, mul, neg, square, sub
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

    >>> lax.exp(jnp.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """
    _check_accuracy("exp", accuracy)
    return exp_p.bind(x)


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """2 to the power x.

    >>> lax.exp2(jnp.array([0.0, 3.0]))
    Array([1., 8.], dtype=float32)
    """
    _check_accuracy("exp2", accuracy)
    return exp2_p.bind(x)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The natural logarithm of x: -inf at 0, NaN for negative floats, cut along the negative axis for complex x.

    >>> lax.log(jnp.array([1.0, 0.0]))
    Array([  0., -inf], dtype=float32)
    """
    _check_accuracy("log", accuracy)
    return log_p.bind(x)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """log(1 + x), accurate for small x.

    >>> lax.log1p(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    _check_accuracy("log1p", accuracy)
    return log1p_p.bind(x)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """exp(x) - 1, accurate for small x.

    >>> lax.expm1(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    _check_accuracy("expm1", accuracy)
    return expm1_p.bind(x)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / (1 + exp(-x)), the sigmoid.

    >>> lax.logistic(jnp.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    _check_accuracy("logistic", accuracy)
    return logistic_p.bind(x)


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The sine of x radians.

    >>> lax.sin(jnp.array([0.0, 1.0]))
    Array([0.        , 0.84147096], dtype=float32)
    """
    _check_accuracy("sin", accuracy)
    return sin_p.bind(x)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The cosine of x radians.

    >>> lax.cos(jnp.array([0.0, 1.0]))
    Array([1.        , 0.54030234], dtype=float32)
    """
    _check_accuracy("cos", accuracy)
    return cos_p.bind(x)


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The tangent of x radians.

    >>> lax.tan(jnp.array([0.0, 1.0]))
    Array([0.       , 1.5574077], dtype=float32)
    """
    _check_accuracy("tan", accuracy)
    return tan_p.bind(x)


def asin(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN for floats beyond [-1, 1].

    >>> lax.asin(jnp.array([0.0, 0.5]))
    Array([0.       , 0.5235988], dtype=float32)
    """
    return asin_p.bind(x)


def acos(x: ArrayLike) -> Array:
    """The angle in [0, pi] whose cosine is x; NaN for floats beyond [-1, 1].

    >>> lax.acos(jnp.array([1.0, 0.5]))
    Array([0.       , 1.0471976], dtype=float32)
    """
    return acos_p.bind(x)


def atan(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> lax.atan(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7853982], dtype=float32)
    """
    return atan_p.bind(x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point (y, x): its tangent is x / y, its quadrant follows from both signs.

    >>> lax.atan2(jnp.array([1.0]), jnp.array([-1.0]))
    Array([2.3561945], dtype=float32)
    """
    return apply(atan2_p, x, y)


def sinh(x: ArrayLike) -> Array:
    """(exp(x) - exp(-x)) / 2.

    >>> lax.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """
    return sinh_p.bind(x)


def cosh(x: ArrayLike) -> Array:
    """(exp(x) + exp(-x)) / 2.

    >>> lax.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.5430807], dtype=float32)
    """
    return cosh_p.bind(x)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """sinh(x) / cosh(x).

    >>> lax.tanh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7615942], dtype=float32)
    """
    _check_accuracy("tanh", accuracy)
    return tanh_p.bind(x)


def asinh(x: ArrayLike) -> Array:
    """The number whose sinh is x.

    >>> lax.asinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """
    return asinh_p.bind(x)


def acosh(x: ArrayLike) -> Array:
    """The number, with a real part that is not negative, whose cosh is x; NaN for floats below 1.

    >>> lax.acosh(jnp.array([1.0, 2.0]))
    Array([0.       , 1.3169578], dtype=float32)
    """
    return acosh_p.bind(x)


def atanh(x: ArrayLike) -> Array:
    """The number whose tanh is x; NaN for floats beyond [-1, 1].

    >>> lax.atanh(jnp.array([0.0, 0.5]))
    Array([0.       , 0.5493061], dtype=float32)
    """
    return atanh_p.bind(x)


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The square root of x; NaN for negative floats.

    >>> lax.sqrt(jnp.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """
    _check_accuracy("sqrt", accuracy)
    return sqrt_p.bind(x)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / sqrt(x).

    >>> lax.rsqrt(jnp.array([4.0, 0.25]))
    Array([0.5, 2. ], dtype=float32)
    """
    _check_accuracy("rsqrt", accuracy)
    return rsqrt_p.bind(x)


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The real cube root of floats.

    >>> lax.cbrt(jnp.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """
    _check_accuracy("cbrt", accuracy)
    return cbrt_p.bind(x)


# Primitives: one line of derivative each. `t` is the tangent, `out` the result.

_LOG_2 = math.log(2)


def _acosh_slope(x: Any) -> Any:
    """1 / sqrt(x^2 - 1). The root of the product has the wrong sign for complex x left of the imaginary axis."""
    if is_complex(x):
        return mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1)))
    return rsqrt(mul(sub(x, 1), add(x, 1)))


def _logistic_reference(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _atan2_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.arctan2(x, y) if x.dtype.kind != "c" else -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


exp_p = unary("exp", INEXACT, reference=in_double(np.exp), jvp=lambda t, out, x: mul(t, out))
exp2_p = unary("exp2", INEXACT, reference=in_double(np.exp2), jvp=lambda t, out, x: mul(t, mul(out, _LOG_2)))
log_p = unary("log", INEXACT, reference=in_double(np.log), jvp=lambda t, out, x: div(t, x))
log1p_p = unary("log1p", INEXACT, reference=in_double(np.log1p), jvp=lambda t, out, x: div(t, add(x, 1)))
expm1_p = unary("expm1", INEXACT, reference=in_double(np.expm1), jvp=lambda t, out, x: mul(t, add(out, 1)))
logistic_p = unary(
    "logistic", INEXACT, reference=in_double(_logistic_reference), jvp=lambda t, out, x: mul(t, mul(out, sub(1, out)))
)
sin_p = unary("sin", INEXACT, reference=in_double(np.sin), jvp=lambda t, out, x: mul(t, cos(x)))
cos_p = unary("cos", INEXACT, reference=in_double(np.cos), jvp=lambda t, out, x: mul(t, neg(sin(x))))
tan_p = unary("tan", INEXACT, reference=in_double(np.tan), jvp=lambda t, out, x: mul(t, add(square(out), 1)))
asin_p = unary("asin", INEXACT, reference=in_double(np.arcsin), jvp=lambda t, out, x: mul(t, rsqrt(sub(1, square(x)))))
acos_p = unary(
    "acos", INEXACT, reference=in_double(np.arccos), jvp=lambda t, out, x: mul(t, neg(rsqrt(sub(1, square(x)))))
)
atan_p = unary("atan", INEXACT, reference=in_double(np.arctan), jvp=lambda t, out, x: div(t, add(square(x), 1)))
atan2_p = binary(
    "atan2", INEXACT, reference=in_double(_atan2_reference),
    # (y dx - x dy) / (x^2 + y^2)
    jvp=(
        lambda t, out, x, y: mul(t, div(y, add(square(x), square(y)))),
        lambda t, out, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
    ),
)  # fmt: skip
sinh_p = unary("sinh", INEXACT, reference=in_double(np.sinh), jvp=lambda t, out, x: mul(t, cosh(x)))
cosh_p = unary("cosh", INEXACT, reference=in_double(np.cosh), jvp=lambda t, out, x: mul(t, sinh(x)))
tanh_p = unary(
    # 1 - tanh^2, as a product that does not cancel
    "tanh", INEXACT, reference=in_double(np.tanh), jvp=lambda t, out, x: mul(t, mul(add(1, out), sub(1, out)))
)  # fmt: skip
asinh_p = unary(
    "asinh", INEXACT, reference=in_double(np.arcsinh), jvp=lambda t, out, x: mul(t, rsqrt(add(square(x), 1)))
)
acosh_p = unary("acosh", INEXACT, reference=in_double(np.arccosh), jvp=lambda t, out, x: mul(t, _acosh_slope(x)))
atanh_p = unary(
    "atanh", INEXACT, reference=in_double(np.arctanh), jvp=lambda t, out, x: div(t, mul(add(1, x), sub(1, x)))
)
sqrt_p = unary("sqrt", INEXACT, reference=in_double(np.sqrt), jvp=lambda t, out, x: mul(t, div(0.5, out)))
rsqrt_p = unary(
    "rsqrt",
    INEXACT,
    reference=in_double(lambda x: 1 / np.sqrt(x)),
    jvp=lambda t, out, x: mul(t, div(mul(out, -0.5), x)),
)
cbrt_p = unary("cbrt", FLOAT, reference=in_double(np.cbrt), jvp=lambda t, out, x: mul(t, div(1 / 3, square(out))))
