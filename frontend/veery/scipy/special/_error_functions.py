"""The error function, the normal distribution, and their relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._core.avals import aval_of
from veery.numpy._arithmetic import as_array
from veery.numpy._elementwise import elementwise
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    ensure_arraylike,
    promote_args_inexact,
    promote_dtypes_complex,
    to_dtype,
    unwrap,
)
from veery.scipy.special._operands import is_complex, real, real_floats
from veery.scipy.special._polynomials import piecewise
from veery.scipy.special._tables import DAWSN_FAR, DAWSN_NEAR, ERFCX, NDTRI

_SQRT_2 = math.sqrt(2)
_SQRT_2PI = math.sqrt(2 * math.pi)
_2_SQRT_PI = 2 / math.sqrt(math.pi)

# ---------------------------------------------------------------------------------------------------------------------
# Error functions


@elementwise
def erf(x: ArrayLike) -> Array:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    Args:
        x: array of real numbers; integers become floats.

    >>> round(float(erf(1.0)), 4)
    0.8427
    """
    return lax.erf(*promote_args_inexact("erf", x))


@elementwise
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate for large x.

    Args:
        x: array of real numbers; integers become floats.

    >>> round(float(erfc(1.0)), 4)
    0.1573
    """
    return lax.erfc(*promote_args_inexact("erfc", x))


@elementwise
def erfinv(x: ArrayLike) -> Array:
    """The number whose erf is x; NaN outside of [-1, 1].

    Args:
        x: array of real numbers; integers become floats.

    >>> round(float(erfinv(0.5)), 4)
    0.4769
    """
    return lax.erf_inv(*promote_args_inexact("erfinv", x))


_FAR = 10.0  # from here on thirteen terms of asymptotic series give all digits


def exp_of_square(x: Array, scale: float) -> Array:
    """exp(scale x^2), where the rounding of x^2 would be multiplied by the exponent."""
    head = jnp.round(x * 16) / 16  # its square is exact wherever the result is neither 0 nor infinite: for |x| < 64
    tail = jnp.where(jnp.abs(x) < 64, (x - head) * (x + head), 0)
    return jnp.exp(scale * head * head) * jnp.exp(scale * tail)


@custom_jvp
def erfcx_of(x: Array) -> Array:
    """exp(x^2) erfc(x) of float32 or float64."""
    magnitude = jnp.abs(x)
    finite = jnp.where(magnitude < 1e18, magnitude, 1e18)
    # M. M. Shepherd and J. G. Laframboise, Mathematics of Computation 36 (1981), 249
    scaled = ERFCX[0]((finite - 3.75) / (finite + 3.75)) / (1 + 2 * finite)
    value = jnp.where(magnitude < 1e18, scaled, 0.5 * _2_SQRT_PI / magnitude)
    negative = 2 * exp_of_square(jnp.where(x < 0, x, 0), 1.0) - value
    return jnp.where(x < 0, negative, jnp.where(jnp.isnan(x), x, value))


def _beyond_the_first_term(w: Array) -> Array:
    """w + 1 3 w^2 + 1 3 5 w^3 + ..., for small w: asymptotically sqrt(pi) x erfcx(x) - 1 for w = -1 / (2 x^2)."""
    total = jnp.ones_like(w)
    for k in range(25, 1, -2):
        total = 1 + k * w * total
    return w * total


def _erfcx_slope(out: Array, x: Array) -> Array:
    """2 x erfcx(x) - 2 / sqrt(pi), where both are nearly the same by the series."""
    far = x > _FAR
    inverse = 1 / jnp.where(far, x, _FAR)
    series = _2_SQRT_PI * _beyond_the_first_term(-0.5 * inverse * inverse)
    return jnp.where(far, series, 2 * x * out - _2_SQRT_PI)


erfcx_of.defjvps(lambda t, out, x: t * _erfcx_slope(out, x))


@elementwise
def erfcx(x: ArrayLike) -> Array:
    """exp(x^2) erfc(x), which for large x neither overflows nor vanishes.

    Args:
        x: array of real or complex numbers; integers become floats.

    >>> round(float(erfcx(10.0)), 4)
    0.0561
    """
    (y,) = promote_args_inexact("erfcx", x)
    return _wofz(lax.complex(lax.neg(lax.imag(y)), lax.real(y))) if is_complex(y) else _erfcx(x)


_erfcx = real(lambda x: erfcx_of(x), name="erfcx", weak=False)


@custom_jvp
def dawsn_of(x: Array) -> Array:
    """Dawson's integral of float32 or float64."""
    magnitude = jnp.abs(x)
    square = magnitude * magnitude
    near = x * piecewise(DAWSN_NEAR, square)
    inverse = 1 / jnp.where(magnitude > 1, x, 1)
    far = 0.5 * inverse * piecewise(DAWSN_FAR, inverse * inverse)
    return jnp.where(magnitude < 4, near, jnp.where(jnp.isnan(x), x, far))


def _dawsn_slope(out: Array, x: Array) -> Array:
    """1 - 2 x dawsn(x), where both are nearly the same by the series."""
    far = jnp.abs(x) > _FAR
    inverse = 1 / jnp.where(far, x, _FAR)
    return jnp.where(far, -_beyond_the_first_term(0.5 * inverse * inverse), 1 - 2 * x * out)


dawsn_of.defjvps(lambda t, out, x: t * _dawsn_slope(out, x))


@real(weak=False)
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Args:
        x: array of real numbers.

    >>> round(float(dawsn(1.0)), 4)
    0.5381
    """
    return dawsn_of(x)


def _weideman(count: int) -> tuple[float, np.ndarray]:
    """The scale and the coefficients, of falling powers, of the rational approximation of wofz."""
    size = 2 * count
    scale = math.sqrt(count / _SQRT_2)
    angles = np.arange(-size + 1, size) * np.pi / size
    t = scale * np.tan(angles / 2)
    values = np.concatenate([[0.0], np.exp(-(t**2)) * (scale**2 + t**2)])
    spectrum = np.real(np.fft.fft(np.fft.fftshift(values))) / (2 * size)
    return scale, np.flipud(spectrum[1 : count + 1])


_WOFZ_SCALE, _WOFZ_COEFFICIENTS = _weideman(40)


def _wofz_upper(z: Array) -> Array:
    """J. A. C. Weideman, SIAM Journal on Numerical Analysis 31 (1994), 1497: for Im z >= 0."""
    iz = lax.complex(-jnp.imag(z), jnp.real(z))
    denominator = _WOFZ_SCALE - iz
    ratio = (_WOFZ_SCALE + iz) / denominator
    total = jnp.zeros_like(z)
    for coefficient in _WOFZ_COEFFICIENTS:
        total = total * ratio + float(coefficient)
    return (2 * total / denominator + 0.5 * _2_SQRT_PI) / denominator


@custom_jvp
def _wofz(z: Array) -> Array:
    lower = jnp.imag(z) < 0
    upper = _wofz_upper(jnp.where(lower, -z, z))
    safe = jnp.where(lower, z, 0)
    return jnp.where(lower, 2 * jnp.exp(-safe * safe) - upper, upper)


_wofz.defjvps(lambda t, out, z: t * (complex(0, _2_SQRT_PI) - 2 * z * out))


@elementwise
def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function exp(-z^2) erfc(-i z).

    Args:
        z: array of complex numbers; others become complex.

    >>> round(float(wofz(1j).real), 4)
    0.4276
    """
    z = as_array(*promote_dtypes_complex(unwrap(ensure_arraylike("wofz", z))))
    return to_dtype(_wofz(z), aval_of(z).dtype, False)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------------------
# The normal distribution


def _lower_tail(x: Array) -> Array:
    """The normal distribution function at x <= 0, without the rounding of x / sqrt(2)."""
    return 0.5 * erfcx_of(-x * (1 / _SQRT_2)) * exp_of_square(x, -0.5)


@custom_jvp
def ndtr_of(x: Array) -> Array:
    """The normal distribution function of float32 or float64."""
    tail = _lower_tail(-jnp.abs(x))
    middle = 0.5 + 0.5 * lax.erf(jnp.clip(x, -1, 1) * (1 / _SQRT_2))
    return jnp.where(jnp.abs(x) < 0.5, middle, jnp.where(x < 0, tail, 1 - tail))


ndtr_of.defjvps(lambda t, out, x: t * exp_of_square(x, -0.5) / _SQRT_2PI)


@real_floats
def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function: the probability that a standard normal number is less than x.

    Args:
        x: array of floats.

    Raises:
        TypeError: x is not of a float dtype.

    >>> round(float(ndtr(1.0)), 4)
    0.8413
    """
    return ndtr_of(x)


@custom_jvp
def ndtri_of(p: Array) -> Array:
    """The inverse of the normal distribution function of float32 or float64."""
    lower = jnp.where(p > 0.5, 1 - p, p)
    tail = (lower < 0.15) & (lower > 0)
    root = jnp.sqrt(-2 * jnp.log(jnp.where(tail, lower, 0.1)))
    far = root * piecewise(NDTRI, root)
    # 2 p - 1 of a small negative p rounds to -1.
    middle = _SQRT_2 * lax.erf_inv(jnp.where(tail, 0, jnp.where(p < 0, -2, 2 * p - 1)))
    return jnp.where(tail, jnp.where(p > 0.5, far, -far), middle)


def _ndtri_slope(out: Array) -> Array:
    """1 over the density, and 0 at the ends, where the function is infinite."""
    return jnp.where(jnp.isinf(out), 0, _SQRT_2PI * exp_of_square(out, 0.5))


ndtri_of.defjvps(lambda t, out, p: t * _ndtri_slope(out))


@real_floats
def ndtri(p: ArrayLike) -> Array:
    """The number below which a standard normal number is with probability p; NaN outside of [0, 1].

    Args:
        p: array of floats.

    Raises:
        TypeError: p is not of a float dtype.

    >>> round(float(ndtri(0.8413)), 2)
    1.0
    """
    return ndtri_of(p)


@custom_jvp
def log_ndtr_of(x: Array) -> Array:
    """The logarithm of the normal distribution function of float32 or float64."""
    low = jnp.where(x < -1, x, -1)
    lower = jnp.log(0.5 * erfcx_of(-low * (1 / _SQRT_2))) - 0.5 * low * low
    high = jnp.where(x < -1, -1, x)
    upper = jnp.log1p(-ndtr_of(-high))
    return jnp.where(x < -1, lower, upper)


def _hazard(x: Array) -> Array:
    """The density over the distribution function."""
    low = jnp.where(x < 0, x, 0)
    high = jnp.where(x < 0, 0, x)
    lower = 2 / _SQRT_2PI / erfcx_of(-low * (1 / _SQRT_2))
    return jnp.where(x < 0, lower, exp_of_square(high, -0.5) / (_SQRT_2PI * ndtr_of(high)))


log_ndtr_of.defjvps(lambda t, out, x: t * _hazard(x))
_log_ndtr = real_floats(lambda x: log_ndtr_of(x))


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), for negative x too accurate to any size.

    Args:
        x: array of floats.
        series_order: accepted for compatibility: no asymptotic series is used.

    Raises:
        TypeError: x is not of a float dtype, or series_order is no int.
        ValueError: series_order is not between 0 and 30.

    >>> round(float(log_ndtr(-10.0)), 3)
    -53.231
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if series_order < 0:
        raise ValueError("series_order must be non-negative.")
    if series_order > 30:
        raise ValueError("series_order must be <= 30.")
    return _log_ndtr(x)


# ---------------------------------------------------------------------------------------------------------------------
# Owen's T


_NODES, _WEIGHTS = (v[:20] for v in np.polynomial.legendre.leggauss(40))  # of an even integrand


def _owens_integral(h: Array, a: Array) -> Array:
    """1 / (2 pi) times the integral of exp(-h^2 (1 + x^2) / 2) / (1 + x^2) from 0 to a, for 0 <= h, 0 <= a <= 1.

    Where h a is large, the integrand vanishes long before a, and is not looked at there.
    """
    reach = jnp.where(h * a > 9, 9 / jnp.where(h > 0, h, 1), a)
    total: Any = 0.0
    for node, weight in zip(_NODES, _WEIGHTS):
        square = (reach * float(node)) ** 2
        total = total + float(weight) * jnp.exp(-0.5 * h * h * square) / (1 + square)
    return reach * total * exp_of_square(h, -0.5) / (2 * np.pi)


@custom_jvp
def _owens_t(h: Array, a: Array) -> Array:
    """M. Patefield and D. Tandy, Journal of Statistical Software 5 (2000), number 5, for large a."""
    height, slope = jnp.minimum(jnp.abs(h), 1e18), jnp.abs(a)
    steep = slope > 1
    product = jnp.where(height == 0, 0, height * slope)
    inverse = 1 / jnp.where(steep, slope, 1)
    integral = _owens_integral(jnp.where(steep, jnp.minimum(product, 1e18), height), jnp.where(steep, inverse, slope))
    p, q = height * (1 / _SQRT_2), product * (1 / _SQRT_2)
    low = 0.25 - 0.25 * lax.erf(p) * lax.erf(q) - integral
    high = 0.25 * (lax.erfc(p) + lax.erfc(q) - lax.erfc(p) * lax.erfc(q)) - integral
    value = jnp.where(steep, jnp.where(product <= 0.67, low, high), integral)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), np.nan, jnp.sign(a) * value)


_owens_t.defjvps(
    lambda t, out, h, a: -t * exp_of_square(h, -0.5) * lax.erf(a * h * (1 / _SQRT_2)) / (2 * _SQRT_2PI),
    lambda t, out, h, a: t * jnp.exp(-0.5 * (1 + a * a) * h * h) / (2 * np.pi * (1 + a * a)),
)


@real(weak=False)
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: the probability that X > h and 0 < Y < a X, for standard normal X and Y.

    Args:
        h: array of real numbers.
        a: the same.

    >>> round(float(owens_t(0.5, 2.0)), 4)
    0.1416
    """
    return _owens_t(h, a)
