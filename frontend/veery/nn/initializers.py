"""Initializers of weights: functions `(key, shape, dtype) -> array`, and functions that make them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from veery import lax, random
from veery import numpy as jnp
from veery._core import dtypes
from veery._core.shapes import canonicalize_shape
from veery.numpy._promotion import Array, ArrayLike

Axes = int | Sequence[int]


class Initializer(Protocol):
    """A function of a random key, a shape and a dtype that gives an array."""

    def __call__(self, key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array: ...


def _float(dtype: Any) -> Any:
    return dtypes.default_float_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)


def zeros(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """An initializer: zeros.

    >>> zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, _float(dtype))


def ones(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """An initializer: ones.

    >>> ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, _float(dtype))


def constant(value: ArrayLike, dtype: Any = None) -> Initializer:
    """An initializer that fills with a value, which is broadcast to the shape.

    >>> constant(2.5)(None, (2,))
    Array([2.5, 2.5], dtype=float32)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        return jnp.full(shape, value, _float(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer with uniform values from 0 to `scale`.

    >>> from veery import random
    >>> uniform(10.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        return random.uniform(key, shape, dtype) * jnp.array(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer with normally distributed values of standard deviation `stddev`.

    >>> from veery import random
    >>> normal(5.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        return random.normal(key, shape, dtype) * jnp.array(stddev, dtype)

    return init


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """An initializer with standard normal values between `lower` and `upper`, times `stddev`.

    >>> from veery import random
    >>> truncated_normal(5.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        return random.truncated_normal(key, lower, upper, shape, dtype) * jnp.array(stddev, dtype)

    return init


def _size_along(shape: Sequence[int], axes: Axes) -> int:
    return shape[axes] if isinstance(axes, int) else math.prod(shape[i] for i in axes)


def _fans(shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many inputs each output has, and how many outputs each input."""
    if isinstance(in_axis, int) and in_axis == -2 and len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor with default in_axis. "
            "Must be at least 2D or specify in_axis explicitly."
        )
    inputs, outputs = _size_along(shape, in_axis), _size_along(shape, out_axis)
    receptive_field = math.prod(shape) / inputs / outputs / _size_along(shape, batch_axis)
    return inputs * receptive_field, outputs * receptive_field


def _on_disc(radius: Array, key: Any, shape: Sequence[int], dtype: Any) -> Array:
    """Complex numbers of given absolute values in random directions."""
    real = np.zeros((), dtype).real.dtype
    angle = (2 * math.pi * random.uniform(key, shape, real)).astype(dtype)
    return radius.astype(dtype) * jnp.exp(1j * angle)


def _complex_uniform(key: Any, shape: Sequence[int], dtype: Any) -> Array:
    key_radius, key_angle = random.split(key)
    real = np.zeros((), dtype).real.dtype
    return _on_disc(jnp.sqrt(2 * random.uniform(key_radius, shape, real)), key_angle, shape, dtype)


def _complex_truncated_normal(key: Any, upper: float, shape: Sequence[int], dtype: Any) -> Array:
    key_radius, key_angle = random.split(key)
    real = np.zeros((), dtype).real.dtype
    part = np.asarray(1 - math.exp(-(upper**2)), real)[()] * random.uniform(key_radius, shape, real)
    return _on_disc(jnp.sqrt(-jnp.log(1 - part)), key_angle, shape, dtype)


def _scaled(distribution: str, key: Any, shape: Sequence[int], dtype: Any, variance: Array) -> Array:
    is_real = dtypes.issubdtype(dtype, np.floating)
    if distribution == "truncated_normal":
        # standard deviations of the distributions cut off at 2
        correction = 0.87962566103423978 if is_real else 0.95311164380491208
        stddev = jnp.sqrt(variance) / jnp.array(correction, dtype)
        if is_real:
            return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
        return _complex_truncated_normal(key, 2, shape, dtype) * stddev
    if distribution == "normal":
        return random.normal(key, shape, dtype) * jnp.sqrt(variance)
    if distribution == "uniform":
        if is_real:
            return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)
        return _complex_uniform(key, shape, dtype) * jnp.sqrt(variance)
    raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer whose values have the variance scale / n, where n depends on the weights' shape.

    Args:
        scale: positive.
        mode: n is the number of inputs of each output ("fan_in"), of outputs of each input ("fan_out"), their mean
            ("fan_avg") or geometric mean ("fan_geo_avg").
        distribution: "truncated_normal" (cut off at 2 standard deviations), "normal" or "uniform".
        in_axis: axis or axes of inputs.
        out_axis: axis or axes of outputs.
        batch_axis: axis or axes that are neither.
        dtype: of the values, unless the initializer is given another.

    Raises:
        ValueError: (when the initializer is called) mode or distribution is unknown, or the shape has fewer than two
            dimensions.

    >>> from veery import random
    >>> variance_scaling(1.0, "fan_in", "uniform")(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        shape = canonicalize_shape(shape)
        dtype = _float(dtype)
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        denominators = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }
        if mode not in denominators:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        return _scaled(distribution, key, shape, dtype, jnp.array(scale / denominators[mode], dtype))

    return init


def glorot_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Glorot's uniform initializer, or Xavier's: variance_scaling(1.0, "fan_avg", "uniform")."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """Glorot's normal initializer, or Xavier's: variance_scaling(1.0, "fan_avg", "truncated_normal")."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """LeCun's uniform initializer: variance_scaling(1.0, "fan_in", "uniform")."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """LeCun's normal initializer: variance_scaling(1.0, "fan_in", "truncated_normal")."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """He's uniform initializer, or Kaiming's: variance_scaling(2.0, "fan_in", "uniform")."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """He's normal initializer, or Kaiming's: variance_scaling(2.0, "fan_in", "truncated_normal")."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer with orthonormal columns (or rows, where there are fewer of these), times `scale`.

    Args:
        scale: factor.
        column_axis: the axis that counts columns; the others together count rows.
        dtype: of the values, unless the initializer is given another.

    Raises:
        ValueError: (when the initializer is called) the shape has fewer than two dimensions.

    >>> from veery import random
    >>> orthogonal()(random.key(0), (4, 2)).shape
    (4, 2)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        shape = canonicalize_shape(shape)
        dtype = _float(dtype)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        columns = shape[column_axis]
        if 0 in shape:
            return jnp.zeros(shape, dtype)
        matrix = random.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        rest = [size for i, size in enumerate(shape) if i != column_axis % len(shape)]
        return jnp.array(scale, dtype) * jnp.moveaxis(jnp.reshape(matrix, (*rest, columns)), -1, column_axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of kernels of convolutions: orthogonal matrices at their centres, zeros elsewhere.

    Args:
        scale: factor.
        column_axis: see `orthogonal`.
        dtype: of the values, unless the initializer is given another.

    Raises:
        ValueError: (when the initializer is called) the shape does not have 3, 4 or 5 dimensions, or more inputs (the
            last dimension but one) than outputs (the last).

    >>> from veery import random
    >>> delta_orthogonal()(random.key(0), (3, 2, 2)).shape
    (3, 2, 2)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        shape = canonicalize_shape(shape)
        dtype = _float(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple((size - 1) // 2 for size in shape[:-2])
        padding = [(at, size - 1 - at, 0) for at, size in zip(centre, shape)] + [(0, 0, 0)] * 2
        return lax.pad(jnp.expand_dims(matrix, tuple(range(len(centre)))), jnp.array(0, dtype), padding)

    return init
