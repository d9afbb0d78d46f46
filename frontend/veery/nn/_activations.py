"""Activation functions, elementwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax
from veery import numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._core import dtypes
from veery.numpy._promotion import Array, ArrayLike, check_arraylike, ensure_arraylike, promote_dtypes_inexact


@jit
def identity(x: ArrayLike) -> Array:
    """The argument itself, as an array.

    >>> identity(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    check_arraylike("identity", x)
    return jnp.asarray(x)


@custom_jvp
@jit
def relu(x: ArrayLike) -> Array:
    """max(x, 0); its derivative at 0 is 0.

    Args:
        x: array.

    >>> relu(np.array([-2.0, 3.0], np.float32))
    Array([0., 3.], dtype=float32)
    """
    return jnp.maximum(x, 0)


def _relu_jvp(tangent: Array, out: Array, x: Array) -> Array:
    return lax.select(lax.gt(x, lax.full_like(x, 0)), tangent, lax.full_like(tangent, 0))


relu.defjvps(_relu_jvp)


@jit
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6).

    >>> relu6(np.array([-2.0, 3.0, 9.0], np.float32))
    Array([0., 3., 6.], dtype=float32)
    """
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


@jit
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2.

    Args:
        x: array.
        b: smoothness.

    >>> squareplus(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    x, b = ensure_arraylike("squareplus", x, b)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


@jit
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)).

    >>> float(softplus(0.0)) == float(np.log(np.float32(2)))
    True
    """
    return jnp.logaddexp(x, 0)


@jit
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, (x + 1)**2 / 4 up to 1, x from there.

    >>> sparse_plus(np.array([-2.0, 0.0, 2.0], np.float32))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = ensure_arraylike("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@jit
def soft_sign(x: ArrayLike) -> Array:
    """x / (abs(x) + 1).

    >>> soft_sign(np.array([-1.0, 3.0], np.float32))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    x = ensure_arraylike("soft_sign", x)
    return x / (jnp.abs(x) + 1)


@jit
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> sigmoid(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    check_arraylike("sigmoid", x)
    return lax.logistic(promote_dtypes_inexact(x)[0])


@jit
def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of `sparse_plus`: (x + 1) / 2 kept within 0 and 1.

    >>> sparse_sigmoid(np.array([-2.0, 0.0, 2.0], np.float32))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = ensure_arraylike("sparse_sigmoid", x)
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


@jit
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x), also called swish.

    >>> silu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = ensure_arraylike("silu", x)
    return x * sigmoid(x)


swish = silu


@jit
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)).

    >>> mish(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = ensure_arraylike("mish", x)
    return x * jnp.tanh(softplus(x))


@jit
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow.

    >>> float(log_sigmoid(-100.0))
    -100.0
    """
    x = ensure_arraylike("log_sigmoid", x)
    return -softplus(-x)


@jit
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere.

    >>> elu(np.array([0.0, 3.0], np.float32))
    Array([0., 3.], dtype=float32)
    """
    x = ensure_arraylike("elu", x)
    # the branch not taken has an argument of 0, so that its derivative does not overflow
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@jit
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x where it is not negative, negative_slope * x elsewhere.

    >>> leaky_relu(np.array([-2.0, 3.0], np.float32), 0.5)
    Array([-1.,  3.], dtype=float32)
    """
    x = ensure_arraylike("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@jit
def hard_tanh(x: ArrayLike) -> Array:
    """x kept within -1 and 1.

    >>> hard_tanh(np.array([-2.0, 0.5], np.float32))
    Array([-1. ,  0.5], dtype=float32)
    """
    x = ensure_arraylike("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@jit
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere.

    >>> celu(np.array([0.0, 3.0], np.float32))
    Array([0., 3.], dtype=float32)
    """
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@jit
def selu(x: ArrayLike) -> Array:
    """A scaled `elu` that keeps the mean and variance of normally distributed values (Klambauer et al., 2017).

    >>> selu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


@jit(static_argnames=("approximate",))
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the probability that a standard normal variable is less than x.

    Args:
        x: array.
        approximate: whether the probability is approximated by a hyperbolic tangent.

    >>> gelu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    check_arraylike("gelu", x)
    (x,) = promote_dtypes_inexact(x)
    dtype = dtypes.dtype_of(x)
    if approximate:
        root = np.asarray(math.sqrt(2 / math.pi)).astype(dtype)[()]
        return x * (0.5 * (1.0 + jnp.tanh(root * (x + 0.044715 * x**3))))
    root = np.asarray(math.sqrt(0.5)).astype(dtype)[()]
    return jnp.asarray(0.5 * x * lax.erfc(-x * root), dtype=dtype)


@jit(static_argnames=("axis",))
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of an array along an axis times the sigmoid of the second.

    Args:
        x: array; the axis has an even size.
        axis: which is halved.

    Raises:
        AssertionError: the size is odd.

    >>> glu(np.array([2.0, 0.0], np.float32))
    Array([1.], dtype=float32)
    """
    x = ensure_arraylike("glu", x)
    if np.shape(x)[axis] % 2:
        raise AssertionError("axis size must be divisible by 2")
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@jit
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(np.array([-4.0, 0.0, 4.0], np.float32))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("hard_sigmoid", x)
    return relu6(jnp.add(x, 3.0)) / 6.0


@jit
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x), also called hard swish.

    >>> hard_silu(np.array([-4.0, 0.0, 4.0], np.float32))
    Array([-0.,  0.,  4.], dtype=float32)
    """
    x = ensure_arraylike("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@custom_jvp
@jit
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)), accurate for small and large x.

    Args:
        x: array of positive numbers; NaN results from negative ones.

    >>> bool(log1mexp(1e-8) > -18.5)
    True
    """
    x = ensure_arraylike("log1mexp", x)
    return jnp.where(x < math.log(2.0), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


def _log1mexp_jvp(tangent: Any, out: Array, x: Array) -> Array:
    return tangent / jnp.expm1(x)


log1mexp.defjvps(_log1mexp_jvp)
