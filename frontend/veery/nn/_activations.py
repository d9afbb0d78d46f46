"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery.numpy._promotion import ensure_arraylike, promote_args_inexact

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer

# ---------------------------------------------------------------------------------------------------------------------
# Piecewise linear


@jit
def identity(x: ArrayLike) -> Array:
    """x itself.

    >>> import veery
    >>> float(veery.nn.identity(2.0))
    2.0
    """
    return jnp.asarray(ensure_arraylike("identity", x))


@custom_jvp
@jit
def relu(x: ArrayLike) -> Array:
    """max(x, 0), with derivative 0 at 0.

    >>> import veery, veery.numpy as jnp
    >>> veery.nn.relu(jnp.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    >>> float(veery.grad(veery.nn.relu)(0.0))
    0.0
    """
    return jnp.maximum(x, 0)


relu.defjvps(lambda g, ans, x: lax.select(jnp.greater(x, 0), g, lax.full_like(g, 0)))


@custom_jvp
@jit
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with derivative 0 at 0 and 6."""
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda g, ans, x: lax.select(jnp.logical_and(jnp.greater(x, 0), jnp.less(x, 6)), g, lax.full_like(g, 0)))


@jit
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x where x >= 0, negative_slope * x elsewhere.

    >>> import veery, veery.numpy as jnp
    >>> veery.nn.leaky_relu(jnp.array([-2.0, 3.0]), 0.5).tolist()
    [-1.0, 3.0]
    """
    x = ensure_arraylike("leaky_relu", x)
    return jnp.where(jnp.greater_equal(x, 0), x, jnp.multiply(negative_slope, x))


@jit
def hard_tanh(x: ArrayLike) -> Array:
    """x, clipped to [-1, 1]."""
    x = ensure_arraylike("hard_tanh", x)
    return jnp.where(jnp.greater(x, 1), 1, jnp.where(jnp.less(x, -1), -1, x))


@jit
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6."""
    return jnp.divide(relu6(jnp.add(x, 3.0)), 6.0)


@jit
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x); also called hard_swish."""
    x = ensure_arraylike("hard_silu", x)
    return jnp.multiply(x, hard_sigmoid(x))


hard_swish = hard_silu


# ---------------------------------------------------------------------------------------------------------------------
# Of exponentials


@jit(inline=True)
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> import veery
    >>> float(veery.nn.sigmoid(0.0))
    0.5
    """
    return lax.logistic(*promote_args_inexact("sigmoid", x))


@jit
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x))."""
    x = ensure_arraylike("log_sigmoid", x)
    return jnp.negative(softplus(jnp.negative(x)))


@jit
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x))."""
    return jnp.logaddexp(x, 0)


@jit
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x); also called swish."""
    x = ensure_arraylike("silu", x)
    return jnp.multiply(x, sigmoid(x))


swish = silu


@jit
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x))."""
    x = ensure_arraylike("mish", x)
    return jnp.multiply(x, jnp.tanh(softplus(x)))


@jit
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere."""
    x = ensure_arraylike("elu", x)
    positive = jnp.greater(x, 0)
    # expm1 sees no positive value: it would overflow, and its derivative with it
    return jnp.where(positive, x, jnp.multiply(alpha, jnp.expm1(jnp.where(positive, 0.0, x))))


@jit
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)."""
    negative = jnp.multiply(alpha, jnp.expm1(jnp.divide(jnp.minimum(x, 0.0), alpha)))
    return jnp.add(jnp.maximum(x, 0.0), negative)


@jit
def selu(x: ArrayLike) -> Array:
    """elu with the scale and slope that keep mean 0 and variance 1 from layer to layer.

    >>> import veery
    >>> round(float(veery.nn.selu(1.0)), 4)
    1.0507
    """
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return jnp.multiply(scale, elu(x, alpha))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the normal distribution function.

    Args:
        x: array.
        approximate: whether by tanh, which is faster, or by erfc.

    >>> import veery, veery.numpy as jnp
    >>> [round(float(y), 3) for y in veery.nn.gelu(jnp.array([-1.0, 1.0]))]
    [-0.159, 0.841]
    """
    return _gelu(x, approximate=bool(approximate))


@jit(static_argnames=("approximate",), inline=True)
def _gelu(x: ArrayLike, *, approximate: bool) -> Array:
    (x,) = promote_args_inexact("gelu", x)
    x = jnp.asarray(x)
    if approximate:
        slope = np.sqrt(2 / np.pi).astype(x.dtype)
        inner = jnp.multiply(slope, jnp.add(x, jnp.multiply(0.044715, lax.integer_pow(x, 3))))
        return jnp.multiply(x, jnp.multiply(0.5, jnp.add(1.0, jnp.tanh(inner))))
    root = np.sqrt(0.5).astype(x.dtype)
    return jnp.multiply(jnp.multiply(0.5, x), lax.erfc(jnp.multiply(jnp.negative(x), root)))


@jit(static_argnames=("axis",))
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of x along an axis times the sigmoid of the second half.

    Raises:
        ValueError: the axis has an odd size.
    """
    x = ensure_arraylike("glu", x)
    if x.shape[axis] % 2:
        raise ValueError(f"glu: the size of axis {axis} must be divisible by 2, got shape {x.shape}")
    first, second = jnp.split(x, 2, axis)
    return jnp.multiply(first, sigmoid(second))


# ---------------------------------------------------------------------------------------------------------------------
# Algebraic


@jit
def soft_sign(x: ArrayLike) -> Array:
    """x / (|x| + 1)."""
    x = ensure_arraylike("soft_sign", x)
    return jnp.divide(x, jnp.add(jnp.abs(x), 1))


@jit
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2."""
    x, b = ensure_arraylike("squareplus", x, b)
    return jnp.divide(jnp.add(x, jnp.sqrt(jnp.add(jnp.square(x), b))), 2)


@jit
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, x from 1 on, (x + 1)**2 / 4 between."""
    x = ensure_arraylike("sparse_plus", x)
    between = jnp.divide(jnp.square(jnp.add(x, 1.0)), 4)
    return jnp.where(jnp.less_equal(x, -1.0), 0.0, jnp.where(jnp.greater_equal(x, 1.0), x, between))


@jit
def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of sparse_plus: (x + 1) / 2, clipped to [0, 1]."""
    return jnp.multiply(0.5, jnp.clip(jnp.add(x, 1.0), 0.0, 2.0))


@custom_jvp
@jit
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, accurate at both ends.

    >>> import veery
    >>> float(veery.nn.log1mexp(1e-10)) < -23
    True
    """
    x = ensure_arraylike("log1mexp", x)
    near = jnp.log(jnp.negative(jnp.expm1(jnp.negative(x))))
    far = jnp.log1p(jnp.negative(jnp.exp(jnp.negative(x))))
    return jnp.where(jnp.less(x, np.log(2.0)), near, far)


log1mexp.defjvps(lambda g, ans, x: jnp.divide(g, jnp.expm1(x)))
