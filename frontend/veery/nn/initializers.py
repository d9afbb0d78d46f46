"""Initial values of parameters: functions of a key, a shape and a dtype.

>>> import veery
>>> init = veery.nn.initializers.he_normal()
>>> init(veery.random.key(0), (4, 3)).shape
(4, 3)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from veery import numpy as jnp, random
from veery._core import dtypes
from veery._core.shapes import as_axes, canonicalize_shape
from veery.lax._placement import lays_out

Array = Any
Shape = Sequence[int]
Axes = int | Sequence[int]


@runtime_checkable
class Initializer(Protocol):
    """`init(key, shape, dtype)` gives an array of that shape and dtype."""

    def __call__(self, key: Array, shape: Shape, dtype: Any = None, out_sharding: Any = None) -> Array:
        raise NotImplementedError


def _dtype(dtype: Any) -> Any:
    return dtypes.default_float_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)


@lays_out
def zeros(key: Array, shape: Shape, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Zeros; the key is not used."""
    return jnp.zeros(shape, _dtype(dtype))


@lays_out
def ones(key: Array, shape: Shape, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Ones; the key is not used."""
    return jnp.ones(shape, _dtype(dtype))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that gives one value everywhere."""

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        return jnp.full(shape, value, dtype=_dtype(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that samples uniformly from [0, scale)."""

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _dtype(dtype)
        return random.uniform(key, shape, dtype) * jnp.array(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer that samples from a normal distribution of mean 0."""

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _dtype(dtype)
        return random.normal(key, shape, dtype) * jnp.array(stddev, dtype)

    return init


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """An initializer that samples from a normal distribution cut off at `lower` and `upper`, then scaled by stddev."""

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _dtype(dtype)
        return random.truncated_normal(key, lower, upper, shape, dtype) * jnp.array(stddev, dtype)

    return init


# ---------------------------------------------------------------------------------------------------------------------
# Variance scaling


def _size(shape: Shape, axes: Axes) -> int:
    return math.prod(shape[i] for i in as_axes(axes))


def _compute_fans(shape: Shape, in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = ()) -> tuple[float, float]:
    """How many inputs each output depends on, and how many outputs each input; other axes are a receptive field.

    Raises:
        ValueError: the shape has no input axis.
    """
    if isinstance(in_axis, int) and in_axis == -2 and len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor with default in_axis. "
            "Must be at least 2D or specify in_axis explicitly."
        )
    in_size, out_size = _size(shape, in_axis), _size(shape, out_axis)
    field = math.prod(shape) / in_size / out_size / _size(shape, batch_axis)
    return in_size * field, out_size * field


def _complex_uniform(key: Array, shape: Shape, dtype: Any) -> Array:
    """Uniform in the unit disk."""
    radius_key, angle_key = random.split(key)
    real = np.zeros((), dtype).real.dtype
    radius = jnp.sqrt(2 * random.uniform(radius_key, shape, real)).astype(dtype)
    angle = 2 * np.pi * random.uniform(angle_key, shape, real).astype(dtype)
    return radius * jnp.exp(1j * angle)


def _complex_truncated_normal(key: Array, upper: float, shape: Shape, dtype: Any) -> Array:
    """Normal in the complex plane, cut off at radius `upper`."""
    radius_key, angle_key = random.split(key)
    real = np.zeros((), dtype).real.dtype
    t = (1 - jnp.exp(jnp.array(-(upper**2), dtype))) * random.uniform(radius_key, shape, real).astype(dtype)
    radius = jnp.sqrt(-jnp.log(1 - t))
    angle = 2 * np.pi * random.uniform(angle_key, shape, real).astype(dtype)
    return radius * jnp.exp(1j * angle)


def _sample(key: Array, shape: Shape, dtype: Any, distribution: str, variance: Array) -> Array:
    is_real = dtypes.issubdtype(dtype, np.floating)
    if distribution == "normal":
        return random.normal(key, shape, dtype) * jnp.sqrt(variance)
    if distribution == "uniform":
        if is_real:
            return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)
        return _complex_uniform(key, shape, dtype) * jnp.sqrt(variance)
    if distribution != "truncated_normal":
        raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")
    # the divisors are the standard deviations of the distributions after they are cut off at 2
    if is_real:
        stddev = jnp.sqrt(variance) / jnp.array(0.87962566103423978, dtype)
        return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
    stddev = jnp.sqrt(variance) / jnp.array(0.95311164380491208, dtype)
    return _complex_truncated_normal(key, 2, shape, dtype) * stddev


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer whose samples have the variance scale / n.

    Args:
        scale: a positive number.
        mode: what n is: "fan_in" (inputs of a unit), "fan_out", "fan_avg" or "fan_geo_avg" of both.
        distribution: "truncated_normal", "normal" or "uniform".
        in_axis, out_axis: axes of inputs and outputs of the weights.
        batch_axis: axes that count for neither.
        dtype: default for the initializer.

    Raises:
        ValueError: when called, for an unknown mode or distribution.
    """

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        shape, dtype = canonicalize_shape(shape), _dtype(dtype)
        fan_in, fan_out = _compute_fans(shape, in_axis, out_axis, batch_axis)
        fans = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": (fan_in * fan_out) ** 0.5,
        }
        if mode not in fans:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        return _sample(key, shape, dtype, distribution, jnp.array(scale / fans[mode], dtype=dtype))

    return init


def glorot_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Glorot's (Xavier's) initializer, uniform: variance 2 / (fan_in + fan_out)."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Glorot's (Xavier's) initializer, truncated normal: variance 2 / (fan_in + fan_out)."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """LeCun's initializer, uniform: variance 1 / fan_in."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """LeCun's initializer, truncated normal: variance 1 / fan_in."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """He's (Kaiming's) initializer, uniform: variance 2 / fan_in."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """He's (Kaiming's) initializer, truncated normal: variance 2 / fan_in."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


# ---------------------------------------------------------------------------------------------------------------------
# Orthogonal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of matrices with orthonormal columns (or rows, where there are fewer of them).

    Args:
        scale: factor of the result.
        column_axis: the axis of columns; the others together are rows.
        dtype: default for the initializer.
    """

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _dtype(dtype)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        if 0 in shape:
            return jnp.zeros(shape, dtype=dtype)
        columns = shape[column_axis]
        matrix = random.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        rest = tuple(np.delete(shape, column_axis))
        return jnp.array(scale, dtype) * jnp.moveaxis(jnp.reshape(matrix, (*rest, columns)), -1, column_axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolution kernels that are zero but for an orthogonal matrix in the middle.

    Args:
        scale: factor of the result.
        column_axis: as for orthogonal.
        dtype: default for the initializer. Shapes are those of 1-, 2- or 3-dimensional kernels.
    """

    @lays_out
    def init(key: Array, shape: Shape, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _dtype(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dtype=dtype).at[middle].set(matrix)

    return init
