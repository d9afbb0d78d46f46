"""Bits, uniform and normal samples, integers, coin tosses: what the other distributions are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.dimensions import is_symbolic_dim
from veery._core.shapes import canonicalize_shape
from veery.lax._compare import select_n_p
from veery.lax._dimension import dimension_value
from veery.lax._placement import laid_out, lays_out
from veery.numpy._promotion import broadcast_to, check_ranks, ensure_arraylike, to_dtype
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


def float_dtype(name: str, dtype: Any, kind: Any = np.floating, words: str = "a float") -> Any:
    """The dtype of samples: the default float for None.

    Raises:
        ValueError: it is not of the kind that `name` samples.
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(float if dtype is None else dtype)
    if not dtypes.issubdtype(dtype, kind):
        raise ValueError(f"dtype argument to `{name}` must be {words} dtype, got {dtype}")
    return dtype


def integer_dtype(name: str, dtype: Any) -> Any:
    """The dtype of integer samples: the default integer for None."""
    dtype = dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype)
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"{name} only accepts integer dtypes, got {dtype}")
    return dtype


def check_safe(name: str, dtype: Any, *params: ArrayLike) -> None:
    """Raise TypePromotionError for a parameter that the dtype of the samples does not hold."""
    for x in params:
        if not dtypes.safe_to_cast(x, dtype):
            raise dtypes.TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type {dtypes.dtype_of(x)} to {dtype}"
            )


def bits(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Random bits as unsigned integers.

    Args:
        key: one key.
        shape: of the result.
        dtype: an unsigned integer dtype; uint32 by default (uint64 with x64).
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> veery.random.bits(veery.random.key(0), (2,)).tolist()
    [4070199207, 4202968722]
    """
    if out_sharding is not None:
        return laid_out(lambda: bits(key, shape, dtype), out_sharding, "bits")
    key = check_key("bits", key)
    dtype = dtypes.default_uint_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {dtype}")
    return _bits(key, bit_width=8 * dtype.itemsize, shape=canonicalize_shape(shape))


@jit(static_argnames=("bit_width", "shape"))
def _bits(key: Any, *, bit_width: int, shape: tuple[int, ...]) -> Array:
    return bits_of(typed(key), bit_width, shape)


# ---------------------------------------------------------------------------------------------------------------------
# Uniform and normal


def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: Any = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Samples from the uniform distribution over [minval, maxval).

    Args:
        key: one key.
        shape: of the result.
        dtype: a float dtype; float32 by default (float64 with x64).
        minval: the least value; broadcasts to the shape.
        maxval: above the greatest value.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> float(veery.random.uniform(veery.random.key(0))) < 1
    True
    """
    if out_sharding is not None:
        return laid_out(lambda: uniform(key, shape, dtype, minval, maxval), out_sharding, "uniform")
    key = check_key("uniform", key)
    dtype = float_dtype("uniform", dtype)
    if type(minval) in (int, float) and type(maxval) in (int, float) and (minval, maxval) == (0, 1):
        return _unit_uniform(key, shape=canonicalize_shape(shape), dtype=dtype)
    return _uniform(key, to_dtype(minval, dtype), to_dtype(maxval, dtype), shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=("shape", "dtype"))
def _unit_uniform(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    """Without the span of the interval: nothing need be compiled for a few eager samples."""
    return uniform_of(typed(key), shape, dtype)


@jit(static_argnames=("shape", "dtype"))
def _uniform(key: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return uniform_of(typed(key), shape, dtype, minval, maxval)


def uniform_of(key: Array, shape: tuple[int, ...], dtype: Any, minval: Any = 0.0, maxval: Any = 1.0) -> Array:
    """Uniform samples of a typed key: random mantissas under the exponent of 1, less 1, scaled."""
    check_shape("uniform", shape)
    finfo = dtypes.finfo(dtype)
    if finfo.bits not in (8, 16, 32, 64):
        raise TypeError(f"uniform only accepts 8-, 16-, 32-, or 64-bit dtypes got {dtype}.")
    width = 8 if finfo.nmant < 8 else finfo.bits
    unsigned = np.dtype(f"uint{finfo.bits}")
    mantissa = bits_of(key, width, shape)
    if width != finfo.bits:
        mantissa = lax.convert_element_type(mantissa, unsigned)
    mantissa = lax.shift_right_logical(mantissa, unsigned.type(width - finfo.nmant))
    one = np.array(1.0, dtype)
    floats = lax.sub(lax.bitcast_convert_type(lax.bitwise_or(mantissa, one.view(unsigned)[()]), dtype), one[()])
    low, high = to_dtype(minval, dtype), to_dtype(maxval, dtype)
    if _is_constant(low, 0) and _is_constant(high, 1):
        return floats  # in [0, 1) already
    low, span = broadcast_to(low, shape), broadcast_to(lax.sub(high, low), shape)
    return lax.max(low, lax.add(lax.mul(floats, span), low))


def _is_constant(x: Any, value: float) -> bool:
    return isinstance(x, (np.generic, np.ndarray)) and x.ndim == 0 and float(x) == value


def normal(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples from the standard normal distribution.

    Args:
        key: one key.
        shape: of the result.
        dtype: a float or complex dtype; float32 by default (float64 with x64).
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> veery.random.normal(veery.random.key(0), (2, 3)).shape
    (2, 3)
    """
    if out_sharding is not None:
        return laid_out(lambda: normal(key, shape, dtype), out_sharding, "normal")
    key = check_key("normal", key)
    dtype = float_dtype("normal", dtype, np.inexact, "a float or complex")
    return _normal(key, shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=("shape", "dtype"))
def _normal(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    return normal_of(typed(key), shape, dtype)


def normal_of(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Normal samples of a typed key: the inverse error function of uniform ones."""
    check_shape("normal", shape)
    dtype = np.dtype(dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        real = np.zeros((), dtype).real.dtype
        parts = [normal_of(k, shape, real) for k in split_in(key)]
        # times 1 / sqrt(2), as XLA divides by constants
        return lax.mul(lax.complex(*parts), np.array(1 / np.array(np.sqrt(2), real), dtype)[()])
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    u = uniform_of(key, shape, dtype, low, np.array(1.0, dtype))
    return lax.mul(np.array(np.sqrt(2), dtype)[()], lax.erf_inv(u))


@lays_out
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Samples from the standard normal distribution between two bounds.

    Args:
        key: one key.
        lower: the lower bound.
        upper: the upper bound; both broadcast to the shape.
        shape: of the result; by default that of the bounds.
        dtype: a float dtype.
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = broadcast_shape("truncated_normal", shape, lower, upper)
    check_ranks("maximum", np.shape(lower), shape)
    check_ranks("minimum", np.shape(upper), shape)
    return _truncated_normal(key, to_dtype(lower, dtype), to_dtype(upper, dtype), shape=shape, dtype=dtype)


@jit(static_argnames=("shape", "dtype"))
def _truncated_normal(key: Any, lower: Any, upper: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    sqrt2 = np.array(np.sqrt(2), dtype)[()]
    low, high = broadcast_to(lower, shape), broadcast_to(upper, shape)
    # times 1 / sqrt2, as XLA divides by constants: one ulp here shifts every sample
    inverse = (1 / sqrt2).astype(dtype)
    ends = lax.erf(lax.mul(low, inverse)), lax.erf(lax.mul(high, inverse))
    out = lax.mul(sqrt2, lax.erf_inv(uniform_of(typed(key), shape, dtype, *ends)))
    inf = np.array(np.inf, dtype)[()]
    # rounding must not take a sample onto a bound
    above = lax.nextafter(lax.stop_gradient(low), lax.full_like(low, inf))
    below = lax.nextafter(lax.stop_gradient(high), lax.full_like(high, -inf))
    return lax.clamp(above, out, below)


# ---------------------------------------------------------------------------------------------------------------------
# Integers and coin tosses


def randint(
    key: ArrayLike,
    shape: Shape,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Integers from minval up to, not including, maxval, all equally probable.

    Args:
        key: one key.
        shape: of the result.
        minval: integers that broadcast to the shape.
        maxval: integers that broadcast to the shape. Where it is not above minval, the result is minval.
        dtype: an integer dtype; int32 by default (int64 with x64).
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> bool((veery.random.randint(veery.random.key(0), (100,), 0, 6) < 6).all())
    True
    """
    if out_sharding is not None:
        return laid_out(lambda: randint(key, shape, minval, maxval, dtype), out_sharding, "randint")
    key = check_key("randint", key)
    minval, maxval = ensure_arraylike("randint", minval, maxval)
    dtype = integer_dtype("randint", dtype)
    shape = canonicalize_shape(shape)
    check_shape("randint", shape, np.shape(minval), np.shape(maxval))
    check_ranks("bitwise_and", np.shape(maxval), shape)
    return _randint(key, _bound(minval), _bound(maxval), shape=shape, dtype=dtype)


def _bound(x: ArrayLike) -> Any:
    """A bound as integers of its own dtype, which may be wider than that of the samples."""
    if is_symbolic_dim(x):
        x = dimension_value(x)
    dtype = dtypes.dtype_of(x)
    return to_dtype(x, dtype if dtypes.issubdtype(dtype, np.integer) else dtypes.default_int_dtype())


@jit(static_argnames=("shape", "dtype"))
def _randint(key: Any, minval: Any, maxval: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    info = dtypes.iinfo(dtype)
    if info.bits >= 32:
        return randint_of(typed(key), shape, minval, maxval, dtype)
    int32 = np.dtype("int32")
    low = _clip(lax.convert_element_type(minval, int32), int(info.min), int(info.max))
    high = _clip(lax.convert_element_type(maxval, int32), int(info.min), int(info.max) + 1)
    return lax.convert_element_type(randint_of(typed(key), shape, low, high, int32), dtype)


def _clip(x: Any, low: int, high: int) -> Array:
    dtype = dtypes.dtype_of(x)
    return lax.clamp(dtype.type(low), x, dtype.type(high))


def _clip_to_dtype(x: Any, dtype: Any) -> Array:
    own, info = dtypes.iinfo(dtypes.dtype_of(x)), dtypes.iinfo(dtype)
    clipped = _clip(x, max(int(own.min), int(info.min)), min(int(own.max), int(info.max)))
    return lax.convert_element_type(clipped, dtype)


def randint_of(key: Array, shape: tuple[int, ...], minval: Any, maxval: Any, dtype: Any) -> Array:
    """Integers of a typed key: twice the bits of the dtype, modulo the span, so that the bias is small."""
    info, own_max = dtypes.iinfo(dtype), int(dtypes.iinfo(dtypes.dtype_of(maxval)).max)
    # the exclusive bound 2**bits does not fit the dtype: the span is widened by one where it is meant
    above = lax.gt(maxval, dtypes.dtype_of(maxval).type(min(int(info.max), own_max)))
    low, high = (broadcast_to(_clip_to_dtype(x, dtype), shape) for x in (minval, maxval))
    higher, lower = (bits_of(k, info.bits, shape) for k in split_in(key))
    unsigned = np.dtype(f"uint{info.bits}")
    span = lax.convert_element_type(lax.sub(high, low), unsigned)
    span = lax.select(lax.le(high, low), lax.full_like(span, 1), span)
    widen = lax.bitwise_and(broadcast_to(above, shape), lax.gt(high, low))
    span = lax.select(widen, lax.add(span, unsigned.type(1)), span)
    half = lax.rem(lax.full_like(span, 2 ** (info.bits // 2)), span)
    multiplier = lax.rem(lax.mul(half, half), span)
    offset = lax.rem(lax.add(lax.mul(lax.rem(higher, span), multiplier), lax.rem(lower, span)), span)
    return lax.add(low, lax.convert_element_type(offset, dtype))


def bernoulli(
    key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low", *, out_sharding: Any = None
) -> Array:
    """Booleans that are True with probability p.

    Args:
        key: one key.
        p: probabilities, of a float dtype; they broadcast to the shape.
        shape: of the result; by default that of p.
        mode: "low", or "high" for small probabilities to full precision, at twice the cost.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    >>> import veery.random
    >>> veery.random.bernoulli(veery.random.key(0), 0.25, (3,)).dtype
    dtype('bool')
    """
    if out_sharding is not None:
        return laid_out(lambda: bernoulli(key, p, shape, mode), out_sharding, "bernoulli")
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    key = check_key("bernoulli", key)
    dtype = dtypes.dtype_of(p)
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}.")
    shape = broadcast_shape("bernoulli", shape, p)
    check_ranks("less", shape, np.shape(p))
    return _bernoulli(key, to_dtype(p, dtype), shape=shape, mode=mode)


@jit(static_argnames=("shape", "mode"))
def _bernoulli(key: Any, p: Any, *, shape: tuple[int, ...], mode: str) -> Array:
    dtype, p = p.dtype, broadcast_to(p, shape)
    if mode == "low":
        return lax.lt(uniform_of(typed(key), shape, dtype), p)
    both = uniform_of(typed(key), (2, *shape), dtype)
    first, second = (lax.squeeze(lax.slice_in_dim(both, i, i + 1, axis=0), (0,)) for i in (0, 1))
    return lax.lt(lax.mul(second, np.array(2.0 ** -dtypes.finfo(dtype).nmant, dtype)[()]), lax.sub(p, first))


@lays_out
def rademacher(key: ArrayLike, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Samples of -1 and 1, equally probable.

    Args:
        key: one key.
        shape: of the result.
        dtype: int32 by default (int64 with x64).
        out_sharding: how the result is divided over Explicit axes of a mesh.
    """
    key = check_key("rademacher", key)
    dtype = dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype)
    return _rademacher(key, shape=canonicalize_shape(shape), dtype=dtype)


@jit(static_argnames=("shape", "dtype"))
def _rademacher(key: Any, *, shape: tuple[int, ...], dtype: Any) -> Array:
    heads = lax.lt(uniform_of(typed(key), shape, dtypes.default_float_dtype()), 0.5)
    return select_n_p.bind(heads, lax.full(shape, -1, dtype), lax.full(shape, 1, dtype))
