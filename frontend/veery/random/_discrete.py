"""Discrete distributions: Poisson, binomial, geometric, multinomial."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery.lax import _samples
from veery.lax._placement import lays_out
from veery.numpy._promotion import broadcast_to, ensure_arraylike, promote_dtypes_inexact, to_dtype
from veery.random._keys import Array, ArrayLike, Shape, again, broadcast_shape, check_key, split_in, split_typed, typed
from veery.random._uniform import float_dtype, integer_dtype, uniform_of

_SHAPED = ("shape", "dtype")


def _nonempty_loop(key: Array, initial: Array, pending: Any, step: Any, limit: Any) -> Array:
    """Repeat `step(key, state) -> (key, state)` while any element is pending, at most `limit` times; the state."""

    def condition(carry: Any) -> Any:
        i, state, _ = carry
        return lax.bitwise_and(jnp.any(pending(state)), lax.lt(i, limit))

    def body(carry: Any) -> Any:
        i, state, k = carry
        k, state = step(k, state)
        return lax.add(i, np.int32(1)), state, k

    return lax.while_loop(condition, body, (np.int32(0), initial, key))[1]


# ---------------------------------------------------------------------------------------------------------------------
# Poisson


@lays_out
def poisson(
    key: ArrayLike, lam: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the Poisson distribution of mean lam.

    Args:
        key: one key.
        lam: the mean; it broadcasts to the shape.
        shape: of the result; by default that of lam.
        dtype: an integer dtype; int32 by default.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> veery.random.poisson(veery.random.key(0), 4.0, (3,)).dtype
    dtype('int32')
    """
    key = check_key("poisson", key)
    dtype = integer_dtype("poisson", dtype)
    shape = broadcast_shape("poisson", shape, lam)
    return _poisson(key, to_dtype(lam, np.dtype("float32")), shape=shape, dtype=dtype)


@jit(static_argnames=_SHAPED)
def _poisson(key: Any, lam: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    key, lam = typed(key), broadcast_to(lam, shape)
    small = lax.bitwise_or(lax.ne(lam, lam), lax.lt(lam, np.float32(10)))
    limit = np.int32(min(int(dtypes.iinfo(dtype).max), 2**31 - 1))
    few = _poisson_by_products(again(key), lax.select(small, lam, lax.full_like(lam, 0)), dtype, limit)
    many = _poisson_by_rejection(key, lax.select(small, lax.full_like(lam, 1e5), lam), dtype, limit)
    result = lax.select(small, few, many)
    return lax.select(lax.eq(lam, np.float32(0)), lax.full_like(result, 0), result)


def _poisson_by_products(key: Array, lam: Array, dtype: Any, limit: Any) -> Array:
    """Knuth: how many uniform samples multiply to more than exp(-lam)."""
    shape = lam.shape

    def step(k: Array, state: Any) -> Any:
        count, log_product = state
        k, sub = split_in(k)
        count = lax.select(lax.gt(log_product, -lam), lax.add(count, dtype.type(1)), count)
        return k, (count, lax.add(log_product, _samples.log(uniform_of(sub, shape, np.dtype("float32")))))

    initial = lax.full(shape, 0, dtype), lax.full(shape, 0, np.float32)
    count = _nonempty_loop(key, initial, lambda state: lax.gt(state[1], -lam), step, limit)[0]
    return lax.sub(count, dtype.type(1))


def _poisson_by_rejection(key: Array, lam: Array, dtype: Any, limit: Any) -> Array:
    """Hörmann's PTRS (1993): transformed rejection with squeeze, for lam >= 10."""
    log_lam = _samples.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(key: Array, state: Any) -> Any:
        found, accepted = state
        key, first, second = split_in(key, 3)
        u, v = uniform_of(first, lam.shape, lam.dtype) - 0.5, uniform_of(second, lam.shape, lam.dtype)
        u_shifted = 0.5 - abs(u)
        k = lax.floor((2 * a / u_shifted + b) * u + lam + 0.43)
        s = _samples.log(v * inverse_alpha / (a / (u_shifted * u_shifted) + b))
        t = -lam + k * log_lam - lax.lgamma(k + 1)
        inside = (u_shifted >= 0.07) & (v <= v_r)
        outside = (k < 0) | ((u_shifted < 0.013) & (v > u_shifted))
        accept = inside | (~outside & (s <= t))
        return key, (lax.select(accept, k, found), accepted | accept)

    initial = lax.full_like(lam, -1), lax.full(lam.shape, False, np.bool_)
    found = _nonempty_loop(key, initial, lambda state: ~state[1], step, limit)[0]
    return lax.convert_element_type(found, dtype)


# ---------------------------------------------------------------------------------------------------------------------
# Geometric


@lays_out
def geometric(
    key: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Samples from the geometric distribution: how many tosses it takes until one succeeds with probability p.

    Args:
        key: one key.
        p: the probability; it broadcasts to the shape.
        shape: of the result; by default that of p.
        dtype: an integer dtype; int32 by default.
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("geometric", key)
    dtype = dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"dtype argument to `geometric` must be an int dtype, got {dtype}")
    p = ensure_arraylike("geometric", p)
    return _geometric(key, p, shape=broadcast_shape("geometric", shape, p), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _geometric(key: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    (p,) = promote_dtypes_inexact(p)
    u = uniform_of(typed(key), shape, dtypes.dtype_of(p))
    u = lax.select(lax.eq(u, u.dtype.type(0)), lax.full_like(u, 1), u)
    failures = lax.floor(lax.div(_samples.log(u), broadcast_to(_samples.log1p(lax.neg(p)), shape)))
    return lax.convert_element_type(lax.add(failures, u.dtype.type(1)), dtype)


# ---------------------------------------------------------------------------------------------------------------------
# Binomial and multinomial


def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: Any = None) -> Array:
    """Samples from the binomial distribution: how many of n tosses succeed with probability p.

    Args:
        key: one key.
        n: the numbers of tosses.
        p: the probabilities; both broadcast to the shape.
        shape: of the result; by default that of the parameters.
        dtype: a float dtype.
    """
    key = check_key("binomial", key)
    n, p = ensure_arraylike("binomial", n, p)
    dtype = float_dtype("binomial", dtype)
    return _binomial(key, n, p, shape=broadcast_shape("binomial", shape, n, p), dtype=dtype)


@jit(static_argnames=_SHAPED)
def _binomial(key: Any, n: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return _binomial_of(typed(key), n, p, shape, dtype)


def _binomial_of(key: Array, n: Any, p: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    (p,) = promote_dtypes_inexact(p)
    count = broadcast_to(to_dtype(n, dtypes.dtype_of(p)), shape)
    p = broadcast_to(p, shape)
    flipped = lax.lt(p, p.dtype.type(0.5))
    q = lax.select(flipped, p, 1.0 - p)
    bad_count = lax.bitwise_or(lax.ne(count, count), lax.lt(count, count.dtype.type(0)))
    infinite = jnp.isinf(count)
    q_nan, q_negative = lax.ne(q, q), lax.lt(q, q.dtype.type(0))
    q = lax.select(q_nan | q_negative, lax.full_like(q, 0.01), q)
    by_inversion = bad_count | (count * q <= 10.0)
    count = lax.floor(count)
    few = _binomial_by_inversion(again(key), lax.select(by_inversion, count, lax.full_like(count, 0)), q, dtype)
    many = _binomial_by_rejection(
        key,
        lax.select(by_inversion, lax.full_like(count, 1e4), count),
        lax.select(by_inversion, lax.full_like(q, 0.5), q),
        dtype,
    )
    samples = lax.select(by_inversion, few, many)
    invalid = q_negative | q_nan | bad_count
    samples = lax.select(invalid, lax.full_like(samples, np.nan), samples)
    samples = lax.select(infinite & ~invalid, lax.full_like(samples, np.inf), samples)
    mirrored = lax.sub(lax.convert_element_type(count, dtype), samples)
    return lax.select(flipped | bad_count | q_nan | infinite, samples, mirrored)


_LIMIT = np.int32(2**31 - 1)


def _binomial_by_inversion(key: Array, count: Array, p: Array, dtype: Any) -> Array:
    """Sums of geometric samples until they exceed the number of tosses; for count * p <= 10."""
    log_failure = _samples.log1p(-p)

    def step(k: Array, state: Any) -> Any:
        number, total = state
        sub, k = split_in(k)
        number = lax.select(total <= count, number + 1, number)
        return k, (number, total + lax.ceil(_samples.log(uniform_of(sub, p.shape, p.dtype)) / log_failure))

    initial = lax.full_like(p, 0), lax.full_like(p, 0)
    number = _nonempty_loop(key, initial, lambda state: state[1] <= count, step, _LIMIT)[0]
    return lax.convert_element_type(number - 1, dtype)


_STIRLING_TAIL = (
    *(0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211),
    *(0.0138761288230707, 0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287),
)


def _stirling_tail(k: Array) -> Array:
    """log(k!) less Stirling's approximation: from a table up to 9, then three terms of the series."""
    table = np.asarray(_STIRLING_TAIL, k.dtype)
    in_table = k <= 9
    clipped = lax.clamp(k.dtype.type(0), k, k.dtype.type(9))
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    index = lax.convert_element_type(lax.floor(clipped), np.int32)
    return lax.select(in_table, jnp.take(table, index, mode="clip"), series)


def _binomial_by_rejection(key: Array, count: Array, p: Array, dtype: Any) -> Array:
    """Hörmann's BTRS (1993): transformed rejection with squeeze; for count * p > 10."""
    stddev = lax.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * stddev
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * stddev
    m = lax.floor((count + 1) * p)

    def bound(k: Array) -> Array:
        return (
            (m + 0.5) * _samples.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * _samples.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * _samples.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )

    def step(key: Array, state: Any) -> Any:
        found, accepted = state
        key, first, second = split_in(key, 3)
        u, v = uniform_of(first, p.shape, p.dtype) - 0.5, uniform_of(second, p.shape, p.dtype)
        us = 0.5 - abs(u)
        inside = (us >= 0.07) & (v <= v_r)
        k = lax.floor((2 * a / us + b) * u + c)
        outside = (k < 0) | (k > count)
        accept = inside | (~outside & (_samples.log(v * alpha / (a / (us * us) + b)) <= bound(k)))
        return key, (lax.select(accept, k, found), accepted | accept)

    initial = lax.full_like(p, -1), lax.full(p.shape, False, np.bool_)
    found = _nonempty_loop(key, initial, lambda state: ~state[1], step, _LIMIT)[0]
    return lax.convert_element_type(found, dtype)


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: Any = None,
    unroll: int | bool = 1,
) -> Array:
    """Samples from the multinomial distribution: how often each of k outcomes occurs in n trials.

    Args:
        key: one key.
        n: the numbers of trials; it broadcasts to the shape without its last dimension.
        p: probabilities of shape (..., k).
        shape: of the result; by default that of p.
        dtype: a float dtype.
        unroll: as for scan.
    """
    key = check_key("multinomial", key)
    n, p = ensure_arraylike("multinomial", n, p)
    shape = np.shape(p) if shape is None else tuple(shape)
    dtype = float_dtype("multinomial", dtype)
    return _multinomial(key, n, p, shape=shape, dtype=dtype, unroll=unroll)


@jit(static_argnames=(*_SHAPED, "unroll"))
def _multinomial(key: Any, n: Any, p: Any, *, shape: tuple[int, ...], dtype: Any, unroll: int | bool) -> Array:
    n, p = promote_dtypes_inexact(n, p)
    n = broadcast_to(n, shape[:-1])
    p = jnp.moveaxis(broadcast_to(p, shape), -1, 0)
    remaining = lax.cumsum(p, 0, reverse=True)
    ratios = lax.div(p, lax.select(lax.eq(remaining, p.dtype.type(0)), lax.full_like(remaining, 1), remaining))

    def step(left: Array, ratio_and_key: Any) -> Any:
        ratio, k = ratio_and_key
        ratio = lax.clamp(ratio.dtype.type(0), ratio, ratio.dtype.type(1))
        count = _binomial_of(k, left, ratio, left.shape, left.dtype)
        return left - count, count

    keys = split_typed(typed(key), ratios.shape[0])
    _, counts = lax.scan(step, n, (ratios, keys), unroll=unroll)
    return lax.convert_element_type(jnp.moveaxis(counts, 0, -1), dtype)
