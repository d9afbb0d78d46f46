"""Arrays filled with one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.array import Array
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.memory import MemorySpace
from veery._core.shapes import canonicalize_shape
from veery._transforms import explicit
from veery.lax._placement import device_put_p, placed, sharding_like

ArrayLike = Any


def _fill(value: ArrayLike, shape: Shape) -> Array:
    from veery.lax import _shape  # it imports this module

    return _shape.broadcast_in_dim(value, shape, ())


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: Any = None, *, sharding: Any = None) -> Array:
    """An array filled with one value.

    Args:
        shape: the shape of the result.
        fill_value: a scalar.
        dtype: the dtype of the result; None for that of fill_value.
        sharding: how the result is laid out over devices; it changes nothing while a function is traced.

    Raises:
        TypeError: fill_value is not a scalar.

    >>> from veery import lax
    >>> lax.full((2,), 7).tolist()
    [7, 7]
    """
    from veery.lax import _convert

    fill_value = _value(fill_value)
    if np.shape(fill_value):
        raise TypeError(f"full must be called with scalar fill_value, got fill_value.shape {np.shape(fill_value)}.")
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "full")
        if dtype == dtypes.float0:
            return np.zeros(canonicalize_shape(shape), dtype)  # type: ignore[return-value]
        if isinstance(dtype, dtypes.KeyDType):
            return placed(_full_of_keys(ShapedArray(canonicalize_shape(shape), dtype), fill_value), sharding)
        is_constant = not isinstance(fill_value, Array)
        fill_value = constant(fill_value, dtype) if is_constant else _convert.convert_element_type(fill_value, dtype)
    return placed(_fill(fill_value, canonicalize_shape(shape)), sharding)


def _value(x: Any) -> Any:
    """The array of an object that stands for one, such as a symbolic dimension."""
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def constant(value: Any, dtype: Any) -> np.ndarray:
    """The Python or NumPy scalar converted to the dtype, with C's wrap-around for integers."""
    with np.errstate(all="ignore"):
        x = np.asarray(value)
        if np.iscomplexobj(x) and not dtypes.issubdtype(dtype, np.complexfloating):
            x = x.real
        return x.astype(dtype)


def full_like(
    x: Any, fill_value: ArrayLike, dtype: Any = None, shape: Sequence[int] | None = None, sharding: Any = None
) -> Array:
    """An array with the shape and dtype of `x`, unless given otherwise, filled with one value.

    Args:
        x: an array, tracer, scalar or anything with a shape and a dtype.
        fill_value: a scalar.
        dtype: instead of that of x.
        shape: instead of that of x.
        sharding: how the result is laid out over devices, instead of as x is.
    """
    fill_value = _value(fill_value)
    aval = x if isinstance(x, ShapedArray) else aval_of(x) if not _is_struct(x) else ShapedArray(x.shape, x.dtype)
    weak = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype, "full_like")
    if shape is None:
        target = ShapedArray(aval.shape, dtype, weak, divided=aval.divided, memory_space=aval.memory_space)
    else:
        target = ShapedArray(canonicalize_shape(shape), dtype, weak, memory_space=aval.memory_space)
    if sharding is None and not weak:
        sharding = sharding_like(x, target.shape)
    return placed(_full_of_aval(target, fill_value), sharding)


def _is_struct(x: Any) -> bool:
    """Whether x only describes an array, as ShapeDtypeStruct does."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (Array, np.ndarray, np.generic))


def _full_of_aval(aval: ShapedArray, fill_value: ArrayLike) -> Any:
    from veery.lax import _convert

    if isinstance(aval.dtype, dtypes.KeyDType):
        return _full_of_keys(aval, fill_value)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    value = fill_value if isinstance(fill_value, Array) else constant(fill_value, aval.dtype)
    if aval_of(value).update(shape=()) != aval.update(shape=()):
        value = _convert.convert_element_type_p.bind(value, new_dtype=aval.dtype, weak_type=aval.weak_type)
    filled = _fill(value, aval.shape)
    if aval.memory_space is not MemorySpace.Device:
        filled = device_put_p.bind(filled, sharding=aval.memory_space)
    return filled if aval.divided is None else explicit.alike(filled, aval)


def _full_of_keys(aval: ShapedArray, fill_value: ArrayLike) -> Array:
    if isinstance(getattr(fill_value, "dtype", None), dtypes.KeyDType):
        return _fill(fill_value, aval.shape)
    from veery.lax import _rng

    words = full((*aval.shape, 2), fill_value, np.uint32)
    return _rng.random_wrap_p.bind(words, impl=aval.dtype.tag)  # type: ignore[union-attr]


def zeros_like_array(x: Any) -> Array:
    """Zeros of the array's shape and dtype."""
    return full_like(x, 0)


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of the aval's shape, dtype and weak type (NumPy zeros for float0)."""
    return _full_of_aval(aval, 0)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Array:
    """An array of unspecified contents (zeros)."""
    return full(shape, 0, dtype)
