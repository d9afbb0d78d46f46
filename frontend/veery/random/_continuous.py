"""Continuous distributions that are functions of uniform and normal samples."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.config import config
from veery._core.shapes import canonicalize_shape
from veery.lax import _samples
from veery.lax._placement import lays_out
from veery.numpy import linalg
from veery.numpy._promotion import broadcast_to, check_ranks, promote_dtypes_inexact, promote_shapes, to_dtype
from veery.random._keys import (
    Array,
    ArrayLike,
    Shape,
    bits_of,
    broadcast_shape,
    check_key,
    check_shape,
    split_in,
    typed,
)
from veery.random._uniform import check_safe, float_dtype, normal_of, rademacher, uniform_of

_SHAPED = ("shape", "dtype")


def scalar(value: Any, dtype: Any) -> Any:
    """A number of the dtype."""
    return np.array(value, dtype)[()]


def power_of(x: Array, y: ArrayLike) -> Array:
    """x to the power y, promoted and broadcast as by veery.numpy."""
    return _samples.pow(*promote_shapes("power", *promote_dtypes_inexact(x, y)))


# ---------------------------------------------------------------------------------------------------------------------
# Without parameters


@lays_out
def exponential(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples from the exponential distribution of rate 1.

    Args:
        key: one key.
        shape: of the result.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> bool((veery.random.exponential(veery.random.key(0), (5,)) >= 0).all())
    True
    """
    key = check_key("exponential", key)
    return _exponential(key, shape=canonicalize_shape(shape), dtype=float_dtype("exponential", dtype))


@jit(static_argnames=_SHAPED)
def _exponential(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return exponential_of(typed(key), shape, dtype)


def exponential_of(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Exponential samples of a typed key: -log(1 - u)."""
    return lax.neg(_samples.log1p(lax.neg(uniform_of(key, shape, dtype))))


@lays_out
def laplace(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples from the Laplace distribution of mean 0 and scale 1; arguments as for exponential."""
    key = check_key("laplace", key)
    return _laplace(key, shape=canonicalize_shape(shape), dtype=float_dtype("laplace", dtype))


@jit(static_argnames=_SHAPED)
def _laplace(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    low = scalar(-1.0 + float(dtypes.finfo(dtype).epsneg), dtype)
    u = uniform_of(typed(key), shape, dtype, low, scalar(1, dtype))
    return lax.mul(lax.sign(u), _samples.log1p(lax.neg(lax.abs(u))))


@lays_out
def logistic(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples from the logistic distribution; arguments as for exponential."""
    key = check_key("logistic", key)
    return _logistic(key, shape=canonicalize_shape(shape), dtype=float_dtype("logistic", dtype))


@jit(static_argnames=_SHAPED)
def _logistic(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    x = uniform_of(typed(key), shape, dtype, scalar(dtypes.finfo(dtype).tiny, dtype), scalar(1, dtype))
    return lax.sub(_samples.log(x), _samples.log1p(lax.neg(x)))


@lays_out
def cauchy(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples from the Cauchy distribution; arguments as for exponential."""
    key = check_key("cauchy", key)
    return _cauchy(key, shape=canonicalize_shape(shape), dtype=float_dtype("cauchy", dtype))


@jit(static_argnames=_SHAPED)
def _cauchy(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    u = uniform_of(typed(key), shape, dtype, scalar(dtypes.finfo(dtype).eps, dtype), scalar(1, dtype))
    return _samples.tan(lax.mul(scalar(np.pi, dtype), lax.sub(u, scalar(0.5, dtype))))


@lays_out
def maxwell(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples from the Maxwell distribution of scale 1: lengths of normal vectors; arguments as for exponential."""
    key = check_key("maxwell", key)
    return _maxwell(key, shape=canonicalize_shape(shape), dtype=float_dtype("maxwell", dtype))


@jit(static_argnames=_SHAPED)
def _maxwell(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    vectors = normal_of(typed(key), (*shape, 3), dtype)
    return lax.sqrt(lax.reduce_sum(lax.mul(vectors, vectors), (len(shape),)))


# ---------------------------------------------------------------------------------------------------------------------
# Gumbel


@lays_out
def gumbel(
    key: ArrayLike, shape: Shape = (), dtype: Any = None, mode: str | None = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the Gumbel distribution.

    Args:
        key: one key.
        shape: of the result.
        dtype: a float dtype.
        mode: "low", "high" or "highest": how far the upper tail reaches, at a cost. By default as
            jax_high_dynamic_range_gumbel says: "low" or "high".
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ValueError: another mode.
    """
    key = check_key("gumbel", key)
    dtype = float_dtype("gumbel", dtype)
    mode = ("high" if config.jax_high_dynamic_range_gumbel else "low") if mode is None else mode
    if mode not in ("highest", "high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return _gumbel(key, shape=canonicalize_shape(shape), dtype=dtype, mode=mode)


@jit(static_argnames=(*_SHAPED, "mode"))
def _gumbel(key: Any, *, shape: tuple[int, ...], dtype: Any, mode: str) -> Array:
    return gumbel_of(typed(key), shape, dtype, mode)


def gumbel_of(key: Array, shape: tuple[int, ...], dtype: Any, mode: str | None = None) -> Array:
    """Gumbel samples of a typed key: -log(-log(u))."""
    mode = ("high" if config.jax_high_dynamic_range_gumbel else "low") if mode is None else mode
    tiny, one = scalar(dtypes.finfo(dtype).tiny, dtype), scalar(1, dtype)
    if mode == "low":
        return _minus_log(_minus_log(uniform_of(key, shape, dtype, tiny, one)))
    if mode == "highest" and dtype == np.float32:
        return _gumbel_of_64_bits(key, shape)
    both = uniform_of(key, (2, *shape), dtype)
    high, low = both[0], both[1]
    fine = low * scalar(2.0 ** -dtypes.finfo(dtype).nmant, dtype)
    x = jnp.where(high >= 0.5, high, high + fine + tiny)
    return _minus_log(lax.neg(_samples.log1p(lax.neg(x))))


def _minus_log(x: Array) -> Array:
    return lax.neg(_samples.log(x))


def _gumbel_of_64_bits(key: Array, shape: tuple[int, ...]) -> Array:
    """Both tails to the precision of 64 bits: u is kept below one half and 1 - u above, where floats are dense."""
    high, low = (lax.squeeze(x, (0,)) for x in lax.split(bits_of(key, 32, (2, *shape)), (1, 1), 0))
    below = lax.lt(high, np.uint32(1 << 31))
    # the two's complement of the 64 bits
    carry = lax.convert_element_type(lax.eq(low, np.uint32(0)), np.uint32)
    flipped = lax.add(lax.bitwise_not(high), carry), lax.add(lax.bitwise_not(low), np.uint32(1))
    x = _float_of_bits(lax.select(below, high, flipped[0]), lax.select(below, low, flipped[1]))
    return lax.select(below, _minus_log(lax.neg(_samples.log1p(lax.neg(x)))), _minus_log(_minus_log(x)))


def _float_of_bits(high: Array, low: Array) -> Array:
    """The 64 bits as a float32 fraction of 2**64, rounded towards zero."""
    zeros_high, zeros_low = lax.clz(high), lax.clz(low)
    only_low = lax.eq(zeros_high, np.uint32(32))
    shift = lax.select(only_low, lax.full_like(zeros_high, 0), zeros_high)
    carried = lax.select(
        lax.eq(shift, np.uint32(0)),
        lax.full_like(low, 0),
        lax.shift_right_logical(low, lax.sub(np.uint32(32), shift)),
    )
    leading = lax.select(only_low, lax.shift_left(low, zeros_low), lax.bitwise_or(lax.shift_left(high, shift), carried))
    mantissa = lax.bitwise_and(lax.shift_right_logical(leading, np.uint32(8)), np.uint32((1 << 23) - 1))
    places = lax.select(only_low, lax.add(zeros_low, np.uint32(32)), zeros_high)
    exponent = lax.shift_left(lax.sub(np.uint32(126), places), np.uint32(23))
    return lax.bitcast_convert_type(lax.bitwise_or(exponent, mantissa), np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# With parameters


@lays_out
def pareto(
    key: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the Pareto distribution of exponent b and scale 1.

    Args:
        key: one key.
        b: positive; it broadcasts to the shape.
        shape: of the result; by default that of b.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("pareto", key)
    dtype = float_dtype("pareto", dtype)
    check_safe("pareto", dtype, b)
    shape = broadcast_shape("pareto", shape, b)
    check_ranks("true_divide", shape, np.shape(b))
    return _pareto(key, to_dtype(b, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _pareto(key: Any, b: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return _samples.exp(lax.div(exponential_of(typed(key), shape, dtype), broadcast_to(b, shape)))


@lays_out
def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the Rayleigh distribution; arguments as for pareto."""
    key = check_key("rayleigh", key)
    dtype = float_dtype("rayleigh", dtype)
    check_safe("rayleigh", dtype, scale)
    return _rayleigh(key, to_dtype(scale, dtype), shape=broadcast_shape("rayleigh", shape, scale), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _rayleigh(key: Any, scale: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    squared = lax.mul(_samples.log(uniform_of(typed(key), shape, dtype)), scalar(-2, dtype))
    return lax.mul(broadcast_to(scale, shape), lax.sqrt(squared))


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Shape = (), dtype: Any = None
) -> Array:
    """Samples from the Weibull distribution.

    Args:
        key: one key.
        scale: factor of the result.
        concentration: the shape parameter.
        shape: of the uniform samples that the parameters broadcast with.
        dtype: a float dtype.
    """
    key = check_key("weibull_min", key)
    dtype = float_dtype("weibull_min", dtype)
    shape = canonicalize_shape(shape)
    check_ranks("power", shape, np.shape(concentration))
    return _weibull_min(key, scale, concentration, shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _weibull_min(key: Any, scale: Any, concentration: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    e = exponential_of(typed(key), shape, dtype)
    return jnp.multiply(power_of(e, jnp.divide(1.0, concentration)), scale)


@lays_out
def wald(
    key: ArrayLike, mean: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the Wald (inverse Gaussian) distribution of scale 1; arguments as for pareto."""
    key = check_key("wald", key)
    dtype = float_dtype("wald", dtype)
    check_safe("wald", dtype, mean)
    return _wald(key, to_dtype(mean, dtype), shape=broadcast_shape("wald", shape, mean), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _wald(key: Any, mean: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    first, second = split_in(typed(key))
    mean = broadcast_to(mean, shape)
    v, z = normal_of(first, shape, dtype), uniform_of(second, shape, dtype)
    y = v * v
    # the smaller root of the quadratic that a chi-square sample solves, or its counterpart
    root = lax.sqrt(4 * mean * y + mean * mean * (y * y))
    x = mean + mean * mean * y / 2 - mean / 2 * root
    return lax.select(lax.le(z, mean / (mean + x)), x, mean * mean / x)


@lays_out
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Samples from the triangular distribution over [left, right] with its peak at mode.

    Args:
        key: one key.
        left, mode, right: where the triangle begins, peaks and ends; they broadcast to the shape.
        shape: of the result; by default that of the parameters.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("triangular", key)
    dtype = float_dtype("triangular", dtype)
    check_safe("triangular", dtype, left, mode, right)
    shape = broadcast_shape("triangular", shape, left, mode, right)
    return _triangular(key, *(to_dtype(x, dtype) for x in (left, mode, right)), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _triangular(key: Any, left: Any, mode: Any, right: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    left, mode, right = (broadcast_to(x, shape) for x in (left, mode, right))
    u = uniform_of(typed(key), shape, dtype)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(lax.lt(u, (mode - left) / (right - left)), rising, falling)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None, dtype: Any = None, *,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Samples whose logarithm is normal with standard deviation sigma; arguments as for pareto."""
    key = check_key("lognormal", key)
    dtype = float_dtype("lognormal", dtype, np.inexact, "a float or complex")
    check_safe("lognormal", dtype, sigma)
    shape = broadcast_shape("lognormal", shape, sigma)
    check_ranks("multiply", shape, np.shape(sigma))
    return _lognormal(key, to_dtype(sigma, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _lognormal(key: Any, sigma: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    scaled = lax.mul(normal_of(typed(key), shape, dtype), broadcast_to(sigma, shape))
    return lax.exp(scaled) if dtypes.issubdtype(dtype, np.complexfloating) else _samples.exp(scaled)


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: Any = None
) -> Array:
    """Samples from the double-sided Maxwell distribution: Maxwell's with a random sign.

    Args:
        key: one key.
        loc: the centre.
        scale: the scale; it broadcasts with loc.
        shape: leading dimensions of the result, before those of the parameters.
        dtype: a float dtype.
    """
    key = check_key("double_sided_maxwell", key)
    dtype = float_dtype("double_sided_maxwell", dtype)
    return _double_sided_maxwell(key, loc, scale, shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    params = lax.broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = (shape or params) + params
    first, second = split_in(typed(key))
    samples = jnp.multiply(rademacher(second, shape, dtype), maxwell(first, shape, dtype))
    return jnp.add(jnp.multiply(samples, scale), loc)


# ---------------------------------------------------------------------------------------------------------------------
# Vectors and matrices


@lays_out
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Normal vectors with a mean and a covariance.

    Args:
        key: one key.
        mean: array of shape (..., n).
        cov: array of shape (..., n, n).
        shape: leading dimensions of the result; by default those of the parameters.
        dtype: a float dtype; by default that of the parameters.
        method: how the covariance is factored: "cholesky", "eigh" or "svd".
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ValueError: the shapes do not fit, or an unknown method.
    """
    key = check_key("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    if np.ndim(mean) < 1:
        raise ValueError(f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {np.ndim(mean)}")
    if np.ndim(cov) < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {np.ndim(cov)}")
    n = np.shape(mean)[-1]
    if np.shape(cov)[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape == {np.shape(cov)}."
        )
    leading = lax.broadcast_shapes(np.shape(mean)[:-1], np.shape(cov)[:-2])
    shape = leading if shape is None else canonicalize_shape(shape)
    check_shape("normal", shape, leading)
    dtype = dtypes.to_inexact_dtype(dtypes.result_type(mean, cov)) if dtype is None else dtype
    dtype = float_dtype("multivariate_normal", dtype)
    return _multivariate_normal(key, mean, cov, shape=shape, dtype=dtype, method=method)


@jit(static_argnames=(*_SHAPED, "method"))
def _multivariate_normal(key: Any, mean: Any, cov: Any, *, shape: tuple[int, ...], dtype: Any, method: str) -> Array:
    mean, cov = to_dtype(mean, dtype), to_dtype(cov, dtype)
    samples = normal_of(typed(key), (*shape, np.shape(mean)[-1]), dtype)
    offsets = jnp.einsum("...ij,...j->...i", _factor(cov, method), samples)
    return lax.add(jnp.broadcast_to(mean, offsets.shape), offsets)


def _factor(cov: Array, method: str) -> Array:
    if method == "cholesky":
        return linalg.cholesky(cov)  # type: ignore[attr-defined]
    if method == "eigh":
        values, vectors = linalg.eigh(cov)  # type: ignore[attr-defined]
    else:
        vectors, values, _ = linalg.svd(cov)  # type: ignore[attr-defined]
    return jnp.multiply(vectors, jnp.sqrt(jnp.expand_dims(values, -2)))


@lays_out
def orthogonal(
    key: ArrayLike, n: int, shape: Shape = (), dtype: Any = None, m: int | None = None, *, out_sharding: Any = None
) -> Array:
    """Uniformly distributed orthogonal (for complex dtypes: unitary) matrices.

    Args:
        key: one key.
        n: rows.
        shape: leading dimensions of the result.
        dtype: a float or complex dtype.
        m: columns; n by default. The shorter side's vectors are orthonormal.
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("orthogonal", key)
    dtype = float_dtype("orthogonal", dtype, np.inexact, "a float or complex")
    n, m = operator.index(n), operator.index(n if m is None else m)
    return _orthogonal(key, n=n, m=m, shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=("n", "m", *_SHAPED))
def _orthogonal(key: Any, *, n: int, m: int, shape: tuple[int, ...], dtype: Any) -> Array:
    z = normal_of(typed(key), (*shape, max(n, m), min(n, m)), dtype)
    q, r = linalg.qr(z)  # type: ignore[attr-defined]
    # the signs that make the decomposition unique, and with it the distribution uniform
    signs = jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))
    x = jnp.multiply(q, jnp.expand_dims(signs, -2))
    return jnp.matrix_transpose(x) if n < m else x
