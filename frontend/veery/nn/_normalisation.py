"""Softmax and its relatives, standardisation, one-hot encoding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.config import config
from veery._core.shapes import canonicalize_axis, concrete_int
from veery._core.trace import axis_size
from veery.numpy._creation import number
from veery.numpy._promotion import ensure_arraylike, ensure_arraylike_or_none, promote_args_inexact

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer
Axis = int | Sequence[int] | None


def _hashable(axis: Any) -> Any:
    """An axis, or axes, by which compiled functions are told apart: as numbers, where they are arrays."""
    if isinstance(axis, (list, tuple)):
        return tuple(map(_hashable, axis))
    return concrete_int(axis, "The axis argument must be known statically.") if isinstance(axis, jnp.ndarray) else axis


# ---------------------------------------------------------------------------------------------------------------------
# Sums of exponentials


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
        axis: axis or axes; None for all.
        b: factors that broadcast with `a`.
        keepdims: whether the axes stay, with size 1.
        return_sign: whether to return the sign of the sum as well; the logarithm is then of its magnitude.
        where: bool array; elements that count.

    Returns:
        The logarithms, or a pair of them and the signs.

    >>> import veery, veery.numpy as jnp
    >>> round(float(veery.nn.logsumexp(jnp.array([1000.0, 1000.0]))), 3)
    1000.693
    """
    a, b, where = ensure_arraylike_or_none("logsumexp", a, b, where)
    return _logsumexp(a, b, where, axis=_hashable(axis), keepdims=bool(keepdims), return_sign=bool(return_sign))


@jit(static_argnames=("axis", "keepdims", "return_sign"))
def _logsumexp(a: Any, b: Any, where: Any, *, axis: Axis, keepdims: bool, return_sign: bool) -> Any:
    if b is None:
        (a,) = promote_args_inexact("logsumexp", a)
    else:
        a, b = promote_args_inexact("logsumexp", a, b)
        a = jnp.where(jnp.not_equal(b, 0), a, -np.inf)
    if where is not None:  # before exp, which may overflow where nothing counts: its derivative would be NaN
        a = jnp.where(lax.broadcast_to_rank(where, max(np.ndim(a), np.ndim(where))), a, -np.inf)
    greatest = jnp.max(jnp.real(a), axis=axis, keepdims=True, initial=-np.inf)
    greatest = lax.stop_gradient(jnp.where(jnp.isfinite(greatest), greatest, 0))
    terms = jnp.exp(jnp.subtract(a, jnp.astype(greatest, jnp.result_type(a))))
    total = jnp.sum(terms if b is None else jnp.multiply(b, terms), axis=axis, keepdims=keepdims)
    sign = jnp.sign(total)
    if np.ndim(total) != np.ndim(greatest):
        greatest = lax.reshape(greatest, total.shape)
    if return_sign:
        return jnp.add(jnp.log(jnp.abs(total)), greatest), sign
    return jnp.add(jnp.log(total), jnp.astype(greatest, total.dtype))


def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """log(mean(exp(x))) along axes, without overflow; arguments as for logsumexp."""
    x = ensure_arraylike("logmeanexp", x)
    return _logmeanexp(x, where, axis=_hashable(axis), keepdims=bool(keepdims))


@jit(static_argnames=("axis", "keepdims"))
def _logmeanexp(x: Any, where: Any, *, axis: Axis, keepdims: bool) -> Array:
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    counted = jnp.ones_like(x, dtype=total.dtype)
    return jnp.subtract(total, jnp.log(jnp.sum(counted, axis=axis, where=where, keepdims=keepdims)))


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)) along axes, without overflow.

    Args:
        x: array.
        axis: axis or axes; None for all.
        where: bool array; other elements give -inf.

    >>> import veery, veery.numpy as jnp
    >>> [round(float(y), 4) for y in veery.nn.log_softmax(jnp.array([0.0, 0.0]))]
    [-0.6931, -0.6931]
    """
    x = ensure_arraylike("log_softmax", x)
    return _log_softmax(x, where, axis=_hashable(axis))


@jit(static_argnames=("axis",))
def _log_softmax(x: Any, where: Any, *, axis: Axis) -> Array:
    (x,) = promote_args_inexact("log_softmax", x)
    greatest = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    masked = x if where is None else jnp.where(where, x, -np.inf)
    shifted = jnp.subtract(masked, lax.stop_gradient(greatest))
    total = jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True)
    result = jnp.subtract(shifted, jnp.log(total))
    return result if where is None else jnp.where(where, result, -np.inf)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along axes, without overflow.

    Args:
        x: array.
        axis: axis or axes; None for all.
        where: bool array; other elements give 0.

    >>> import veery, veery.numpy as jnp
    >>> veery.nn.softmax(jnp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    x = ensure_arraylike("softmax", x)
    axis = _hashable(axis)
    if config.jax_softmax_custom_jvp:
        return _softmax_with_rule(axis, x, where)
    return _softmax(x, where, axis=axis)


@jit(static_argnames=("axis",))
def _softmax(x: Any, where: Any, *, axis: Axis) -> Array:
    (x,) = promote_args_inexact("softmax", x)
    greatest = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    masked = x if where is None else jnp.where(where, x, -np.inf)
    unnormalised = jnp.exp(jnp.subtract(masked, lax.stop_gradient(greatest)))
    result = jnp.divide(unnormalised, jnp.sum(unnormalised, axis, where=where, keepdims=True))
    return result if where is None else jnp.where(where, result, 0)


def _softmax_of(axis: Axis, x: Any, where: Any) -> Array:
    return _softmax(x, where, axis=axis)


_softmax_with_rule = custom_jvp(_softmax_of, nondiff_argnums=(0,))


@_softmax_with_rule.defjvp
def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, where), (t, _) = primals, tangents
    y = _softmax_with_rule(axis, x, where)
    weighted = jnp.multiply(y, t)
    return y, jnp.subtract(weighted, jnp.multiply(y, jnp.sum(weighted, axis, where=where, keepdims=True)))


# ---------------------------------------------------------------------------------------------------------------------
# Standardisation and encoding


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
    """(x - mean) / sqrt(variance + epsilon) along axes.

    Args:
        x: array.
        axis: axis or axes; None for all.
        mean: of x, if known.
        variance: of x, if known.
        epsilon: added to the variance.
        where: bool array; elements that count for mean and variance.
        algorithm: for the variance: "fast" (mean of squares less square of mean) or "stable".

    Raises:
        ValueError: an unknown algorithm.
    """
    x, mean, variance, where = ensure_arraylike_or_none("standardize", x, mean, variance, where)
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
    return _standardize(x, mean, variance, number(epsilon), where, axis=_hashable(axis), algorithm=algorithm)


@jit(static_argnames=("axis", "algorithm"))
def _standardize(x: Any, mean: Any, variance: Any, epsilon: Any, where: Any, *, axis: Axis, algorithm: str) -> Array:
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    centred = jnp.subtract(x, mean)
    if variance is None and algorithm == "stable":
        variance = jnp.mean(jnp.square(centred), axis, keepdims=True, where=where)
    elif variance is None:
        squares = jnp.mean(jnp.square(x), axis, keepdims=True, where=where)
        variance = jnp.clip(jnp.subtract(squares, jnp.square(mean)), 0)
    return jnp.multiply(centred, lax.rsqrt(jnp.add(variance, epsilon)))


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Vectors that are 1 at the index x and 0 elsewhere; all 0 for an index out of bounds.

    Args:
        x: integer array of any shape.
        num_classes: the size of the new axis.
        dtype: of the result; the default float by default.
        axis: the position of the new axis, or the name of a mapped axis along which the vectors lie.

    >>> import veery, veery.numpy as jnp
    >>> veery.nn.one_hot(jnp.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    num_classes = concrete_int(num_classes, "jax.nn.one_hot argument `num_classes`")
    dtype = dtypes.default_float_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)
    x = jnp.asarray(x)
    try:
        position = canonicalize_axis(operator.index(axis), x.ndim + 1)
    except TypeError:
        return _one_hot_along_mapped_axis(x, num_classes, dtype, axis)
    return _one_hot(x, num_classes=num_classes, dtype=dtype, axis=position)


def _one_hot_along_mapped_axis(x: Array, num_classes: int, dtype: Any, axis: Any) -> Array:
    size = axis_size(axis)
    if num_classes != size:
        raise ValueError(f"Expected num_classes to match the size of axis {axis}, but {num_classes} != {size}")
    return jnp.astype(jnp.equal(x, lax.axis_index(axis)), dtype)


@jit(static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Array, *, num_classes: int, dtype: Any, axis: int) -> Array:
    shape = (*x.shape[:axis], num_classes, *x.shape[axis:])
    index = x.dtype if dtypes.issubdtype(x.dtype, np.number) else np.dtype("int32")
    classes = lax.broadcasted_iota(index, shape, axis)
    spread = lax.broadcast_in_dim(jnp.astype(x, index), shape, [i for i in range(len(shape)) if i != axis])
    return lax.convert_element_type(lax.eq(spread, classes), dtype)
