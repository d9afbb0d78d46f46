"""The gamma distribution, and those made of it."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._api.vectorize import vmap
from veery._core import dtypes
from veery._core.shapes import canonicalize_shape
from veery._transforms import explicit
from veery.lax import _samples
from veery.lax._placement import lays_out
from veery.numpy._promotion import broadcast_to, check_ranks, to_dtype
from veery.random._continuous import exponential_of, power_of, scalar
from veery.random._keys import (
    Array,
    ArrayLike,
    Shape,
    broadcast_shape,
    check_key,
    check_shape,
    split_in,
    split_typed,
    typed,
)
from veery.random._uniform import check_safe, float_dtype, normal_of, rademacher, uniform_of

_SHAPED = ("shape", "dtype")


@lays_out
def gamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the gamma distribution of shape parameter a and scale 1.

    Args:
        key: one key.
        a: positive; it broadcasts to the shape. Samples are differentiable with respect to it.
        shape: of the result; by default that of a.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> bool((veery.random.gamma(veery.random.key(0), 3.0, (4,)) > 0).all())
    True
    """
    return _sample("gamma", key, a, shape, dtype, False)


@lays_out
def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Logarithms of gamma samples, exact for small a, where samples underflow; arguments as for gamma."""
    return _sample("loggamma", key, a, shape, dtype, True)


def _sample(name: str, key: ArrayLike, a: ArrayLike, shape: Shape | None, dtype: Any, log_space: bool) -> Array:
    key = check_key(name, key)
    dtype = float_dtype(name, dtype)
    shape = broadcast_shape("gamma", shape, a)
    return _gamma(key, to_dtype(a, dtype), shape=shape, dtype=dtype, log_space=log_space)


@jit(static_argnames=(*_SHAPED, "log_space"))
def _gamma(key: Any, a: Any, *, shape: tuple[int, ...], dtype: Any, log_space: bool = False) -> Array:
    return gamma_of(typed(key), a, shape, log_space)


def gamma_of(
    key: Array, a: Array, shape: tuple[int, ...], log_space: bool = False, inverse: Array | None = None
) -> Array:
    """Gamma samples (or their logarithms) of a typed key; `inverse` is 1 / a where that is known exactly."""
    inverse = lax.div(scalar(1, a.dtype), a) if inverse is None else inverse
    return (_logarithmic if log_space else _plain)(key, broadcast_to(a, shape), broadcast_to(inverse, shape))


def _with_gradient(log_space: bool) -> Any:
    """The sampler, differentiable with respect to a: the distribution function stays what it is along the tangent."""

    def sample(key: Array, a: Array, inverse: Array) -> Array:
        keys, a, inverse = split_typed(key, math.prod(a.shape)), explicit.whole(a), explicit.whole(inverse)
        one = vmap(lambda k, alpha, over: _gamma_one(k, alpha, over, log_space))
        return lax.reshape(one(keys, *(lax.reshape(x, (x.size,)) for x in (a, inverse))), a.shape)

    def rule(primals: Any, tangents: Any) -> tuple[Array, Array]:
        a = primals[1]
        out = differentiable(*primals)
        if not log_space:
            return out, lax.mul(tangents[1], lax.random_gamma_grad(a, out))
        tiny = scalar(dtypes.finfo(a.dtype).tiny, a.dtype)
        samples = lax.max(lax.exp(out), lax.full_like(out, tiny))
        return out, lax.mul(tangents[1], lax.div(lax.random_gamma_grad(a, samples), samples))

    sample.__name__ = "random_loggamma" if log_space else "random_gamma"
    differentiable = custom_jvp(sample)
    differentiable.defjvp(rule)
    return differentiable


def _gamma_one(key: Array, alpha: Array, inverse: Array, log_space: bool) -> Array:
    """One sample: Marsaglia and Tsang (2000), with the boost of alpha + 1 for alpha < 1."""
    dtype = alpha.dtype
    zero, one, third = scalar(0, dtype), scalar(1, dtype), scalar(1 / 3, dtype)
    boosted = lax.ge(alpha, one)
    d = lax.sub(lax.select(boosted, alpha, lax.add(alpha, one)), third)
    c = lax.mul(third, _samples.rsqrt(d))
    key, subkey = split_in(key)

    def next_v(carry: Any) -> Any:
        k, _, _ = carry
        k, sub = split_in(k)
        x = normal_of(sub, (), dtype)
        return k, x, lax.add(one, lax.mul(x, c))

    def body(carry: Any) -> Any:
        k, x_key, u_key = split_in(carry[0], 3)
        _, x, v = lax.while_loop(lambda s: lax.le(s[2], zero), next_v, (x_key, zero, scalar(-1, dtype)))
        return k, lax.mul(x, x), lax.mul(lax.mul(v, v), v), uniform_of(u_key, (), dtype)

    def rejected(carry: Any) -> Any:
        _, x, v, u = carry
        squeeze = lax.ge(u, lax.sub(one, lax.mul(scalar(0.0331, dtype), lax.mul(x, x))))
        exact = lax.add(lax.mul(x, scalar(0.5, dtype)), lax.mul(d, lax.add(lax.sub(one, v), _samples.log(v))))
        return lax.bitwise_and(squeeze, lax.ge(_samples.log(u), exact))

    v = lax.while_loop(rejected, body, (key, zero, one, scalar(2, dtype)))[2]
    return _boosted(subkey, inverse, d, v, boosted, log_space)


def _boosted(key: Array, inverse: Array, d: Array, v: Array, boosted: Array, log_space: bool) -> Array:
    """d * v, times u**inverse for alpha < 1."""
    dtype = d.dtype
    if log_space:
        log_u = lax.neg(exponential_of(key, (), dtype))
        unchanged = lax.bitwise_or(boosted, lax.eq(log_u, scalar(0, dtype)))
        boost = lax.select(unchanged, lax.full_like(log_u, 0), lax.mul(log_u, inverse))
        return lax.add(lax.add(_samples.log(d), _samples.log(v)), boost)
    u = lax.sub(scalar(1, dtype), uniform_of(key, (), dtype))
    boost = lax.select(boosted, lax.full_like(u, 1), _samples.pow(u, inverse))
    return lax.mul(lax.mul(d, v), boost)


_plain, _logarithmic = _with_gradient(False), _with_gradient(True)


# ---------------------------------------------------------------------------------------------------------------------
# Quotients and powers of gamma samples


@lays_out
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Samples from the beta distribution; arguments as for gamma, with two parameters."""
    key = check_key("beta", key)
    dtype = float_dtype("beta", dtype)
    check_safe("beta", dtype, a, b)
    shape = broadcast_shape("beta", shape, a, b)
    return _beta(key, to_dtype(a, dtype), to_dtype(b, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _beta(key: Any, a: Any, b: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    logs = [gamma_of(k, x, shape, True) for k, x in zip(split_in(typed(key)), (a, b))]
    greatest = lax.max(*logs)
    first, second = (_samples.exp(lax.sub(x, greatest)) for x in logs)
    return lax.div(first, lax.add(first, second))


@lays_out
def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Vectors from the Dirichlet distribution.

    Args:
        key: one key.
        alpha: concentrations of shape (..., n).
        shape: leading dimensions of the result; by default those of alpha.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ValueError: alpha is a scalar.
    """
    key = check_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    if np.ndim(alpha) < 1:
        raise ValueError(f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {np.ndim(alpha)}")
    leading = np.shape(alpha)[:-1]
    shape = leading if shape is None else canonicalize_shape(shape)
    check_shape("dirichlet", shape, leading)
    return _dirichlet(key, to_dtype(alpha, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _dirichlet(key: Any, alpha: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    logs = gamma_of(typed(key), alpha, (*shape, alpha.shape[-1]), True)
    shifted = _samples.exp(jnp.subtract(logs, lax.stop_gradient(jnp.max(logs, axis=-1, keepdims=True))))
    total = jnp.sum(shifted, axis=-1, keepdims=True)
    return jnp.multiply(shifted, lax.div(lax.full_like(total, 1), total))  # as XLA divides by what is broadcast


@lays_out
def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the chi-square distribution with df degrees of freedom; arguments as for gamma."""
    key = check_key("chisquare", key)
    dtype = float_dtype("chisquare", dtype)
    check_safe("chisquare", dtype, df)
    return _chisquare(key, to_dtype(df, dtype), shape=broadcast_shape("chisquare", shape, df), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _chisquare(key: Any, df: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return _chisquare_of(typed(key), df, shape, dtype)


def _chisquare_of(key: Array, df: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    two = scalar(2, dtype)
    return lax.mul(_samples.exp(gamma_of(key, lax.div(df, two), shape, True)), two)


@lays_out
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Samples from the F distribution with dfnum and dfden degrees of freedom; arguments as for gamma."""
    key = check_key("f", key)
    dtype = float_dtype("f", dtype)
    check_safe("f", dtype, dfnum, dfden)
    shape = broadcast_shape("f", shape, dfnum, dfden)
    return _f(key, to_dtype(dfnum, dtype), to_dtype(dfden, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _f(key: Any, dfnum: Any, dfden: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    den_key, num_key = split_in(typed(key))
    numerator, denominator = (_chisquare_of(k, df, shape, dtype) for k, df in ((num_key, dfnum), (den_key, dfden)))
    # (a / m) / (b / n) in one division, as XLA has it
    numerator, denominator = (
        lax.mul(x, broadcast_to(df, shape)) for x, df in ((numerator, dfden), (denominator, dfnum))
    )
    return lax.div(numerator, denominator)


@lays_out
def t(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from Student's t distribution with df degrees of freedom; arguments as for gamma."""
    key = check_key("t", key)
    dtype = float_dtype("t", dtype)
    check_safe("t", dtype, df)
    shape = broadcast_shape("t", shape, df)
    check_ranks("true_divide", np.shape(df), shape)
    return _t(key, to_dtype(df, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _t(key: Any, df: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    normal_key, gamma_key = split_in(typed(key))
    half = broadcast_to(lax.div(df, scalar(2, dtype)), shape)
    quotient = lax.div(half, gamma_of(gamma_key, half, shape))
    return lax.mul(normal_of(normal_key, shape, dtype), lax.sqrt(quotient))


@lays_out
def generalized_normal(
    key: ArrayLike, p: float, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples of density proportional to exp(-|x|**p).

    Args:
        key: one key.
        p: the exponent.
        shape: of the result.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("generalized_normal", key)
    dtype = float_dtype("generalized_normal", dtype)
    return _generalized_normal(key, p, shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _generalized_normal(key: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return _generalized_normal_of(typed(key), p, shape, dtype)


def _generalized_normal_of(key: Array, p: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    gamma_key, sign_key = split_in(key)
    g = gamma_of(gamma_key, to_dtype(jnp.divide(1, p), dtype), shape, inverse=to_dtype(p, dtype))
    return jnp.multiply(rademacher(sign_key, shape, dtype), power_of(g, jnp.divide(1, p)))


@lays_out
def ball(
    key: ArrayLike, d: int, p: float = 2, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Points uniformly distributed in the unit ball of the p-norm.

    Args:
        key: one key.
        d: the number of dimensions.
        p: of the norm.
        shape: leading dimensions of the result.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        An array of shape (*shape, d).
    """
    key = check_key("ball", key)
    dtype = float_dtype("ball", dtype)
    return _ball(key, p, d=operator.index(d), shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=("d", *_SHAPED))
def _ball(key: Any, p: Any, *, d: int, shape: tuple[int, ...], dtype: Any) -> Array:
    first, second = split_in(typed(key))
    g = _generalized_normal_of(first, p, (*shape, d), dtype)
    e = exponential_of(second, shape, dtype)
    total = jnp.add(jnp.sum(power_of(jnp.abs(g), p), axis=-1), e)
    inverse_norm = power_of(total, jnp.negative(jnp.divide(1, p)))  # as XLA divides by powers
    return jnp.multiply(g, jnp.expand_dims(inverse_norm, -1))
