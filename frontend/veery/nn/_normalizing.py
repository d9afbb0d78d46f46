"""Functions of whole axes: softmax and its logarithm, logsumexp, standardization, one-hot vectors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery import numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.config import debug_nans
from veery._core.shapes import canonicalize_axis, concrete_int
from veery.numpy._promotion import Array, ArrayLike, check_arraylike, ensure_arraylike, promote_dtypes_inexact
from veery.numpy._reductions import Axis, canonical_axes
from veery.numpy._statistics import mean as _mean


@jit(static_argnames=("axis", "keepdims", "return_sign"))
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b * exp(a))) along axes, without overflow.

    Args:
        a: array.
        axis: an axis, several, or None for all.
        b: factors; 1 by default. Elements where they are 0 do not count, infinite ones included.
        keepdims: whether the axes stay, with size 1.
        return_sign: whether the sign of the sum is returned too; else negative sums give NaN.
        where: bool array; elements that count.

    Returns:
        The logarithm; where return_sign, that of the sum's absolute value, and the sign.

    >>> float(logsumexp(np.array([1000.0, 1000.0], np.float32))) > 1000.6
    True
    """
    check_arraylike("logsumexp", *(x for x in (a, b, where) if x is not None))
    if where is not None:
        a = jnp.where(where, a, 0)
    if b is not None:
        a, b = promote_dtypes_inexact(a, b)
        a = jnp.where(b != 0, a, -np.inf)
    else:
        (a,) = promote_dtypes_inexact(a)
    axes = canonical_axes(axis, np.ndim(a))
    top = jnp.max(jnp.real(a), axis=axes, keepdims=True, where=where, initial=-np.inf)
    top = lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    terms = jnp.exp(a - top)
    total = jnp.sum(terms if b is None else terms * b, axis=axes, keepdims=keepdims, where=where)
    sign = jnp.sign(total)
    is_complex = dtypes.issubdtype(dtypes.dtype_of(a), np.complexfloating)
    if return_sign or not is_complex:
        total = jnp.abs(total)
    out = jnp.log(total) + (top if keepdims else lax.squeeze(top, axes))
    if return_sign:
        return out, sign
    if b is not None and not is_complex:
        with debug_nans(False):
            out = jnp.where(sign < 0, np.nan, out)
    return out


@jit(static_argnames=("axis", "keepdims"))
def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """log(mean(exp(x))) along axes, without overflow.

    Args:
        x: array.
        axis: an axis, several, or None for all.
        where: bool array; elements that count.
        keepdims: whether the axes stay, with size 1.

    >>> float(logmeanexp(np.array([500.0, 500.0], np.float32)))
    500.0
    """
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    ones = jnp.ones(np.shape(x), total.real.dtype)
    return total - jnp.log(jnp.sum(ones, axis=axis, where=where, keepdims=keepdims))


@jit(static_argnames=("axis",))
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """x - logsumexp(x) along axes.

    Args:
        x: array.
        axis: over which exp of the result sums to 1.
        where: bool array; elements that count, the others give -inf.

    >>> log_softmax(np.array([0.0], np.float32))
    Array([0.], dtype=float32)
    """
    x = ensure_arraylike("log_softmax", x)
    top = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    shifted = (x if where is None else jnp.where(where, x, -np.inf)) - lax.stop_gradient(top)
    result = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    return result if where is None else jnp.where(where, result, -np.inf)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along axes, without overflow.

    Args:
        x: array.
        axis: an axis, several, or None for all: over which the result sums to 1.
        where: bool array; elements that count, the others give 0.

    >>> softmax(np.array([0.0, 0.0], np.float32))
    Array([0.5, 0.5], dtype=float32)
    """
    return _softmax(x, axis if axis is None or isinstance(axis, int) else tuple(axis), where, -np.inf)


def _softmax_of(x: ArrayLike, axis: Axis, where: ArrayLike | None, initial: ArrayLike) -> Array:
    x = ensure_arraylike("softmax", x)
    top = jnp.max(x, axis, where=where, initial=initial, keepdims=True)
    terms = jnp.exp((x if where is None else jnp.where(where, x, initial)) - top)
    result = terms / jnp.sum(terms, axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


_softmax_of.__name__ = "_softmax"
_softmax = custom_jvp(jit(_softmax_of, static_argnames=("axis",)), nondiff_argnums=(1,))


@_softmax.defjvp
def _softmax_jvp(axis: Axis, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Array, Array]:
    """The tangent in terms of the result: nothing of the computation need be kept but the result."""
    x, where, initial = primals
    y = _softmax(x, axis, where, initial)
    weighted = y * tangents[0]
    return y, weighted - y * jnp.sum(weighted, axis, where=where, keepdims=True)


@jit(static_argnames=("axis", "algorithm"))
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon).

    Args:
        x: array.
        axis: over which mean and variance are computed.
        mean: given instead of computed.
        variance: likewise.
        epsilon: added to the variance.
        where: bool array; elements that count for mean and variance.
        algorithm: "fast": the variance is the mean of squares minus the square of the mean; "stable": the mean of the
            squared distances from the mean.

    Raises:
        ValueError: the algorithm is none of these.

    >>> standardize(np.array([-1.0, 1.0], np.float32), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    check_arraylike("standardize", *(a for a in (x, mean, variance, where) if a is not None))
    if mean is None:
        mean = _mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = _mean(jnp.square(jnp.subtract(x, mean)), axis, keepdims=True, where=where)
        elif algorithm == "fast":
            squares = _mean(jnp.square(x), axis, keepdims=True, where=where)
            # rounding must not make it negative
            variance = jnp.clip(squares - jnp.square(mean), 0)
        else:
            raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
    return jnp.subtract(x, mean) * lax.rsqrt(jnp.add(variance, epsilon))


@jit(static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Array, num_classes: int, *, dtype: Any, axis: Any) -> Array:
    try:
        position = canonicalize_axis(operator.index(axis), x.ndim + 1)
    except TypeError:
        size = lax.axis_size(axis)
        if num_classes != size:
            raise ValueError(
                f"Expected num_classes to match the size of axis {axis}, but {num_classes} != {size}"
            ) from None
        return jnp.equal(x, lax.axis_index(axis)).astype(dtype)
    shape = [1] * x.ndim
    shape.insert(position, num_classes)
    return jnp.equal(lax.expand_dims(x, (position,)), lax.broadcasted_iota(x.dtype, shape, position)).astype(dtype)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Vectors that are 1 at the given positions, 0 elsewhere; all 0 for positions out of bounds.

    Args:
        x: array of integers.
        num_classes: the vectors' length.
        dtype: of the result; by default the default float.
        axis: of the vectors in the result; or the name of a mapped axis, over which they are spread.

    Returns:
        Array of x's shape with a dimension of size num_classes inserted.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    num_classes = concrete_int(num_classes, "The error arose in jax.nn.one_hot argument `num_classes`.")
    dtype = dtypes.default_float_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)
    return _one_hot(jnp.asarray(x), num_classes, dtype=dtype, axis=axis)
