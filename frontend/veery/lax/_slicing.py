"""Slices: at places that are known when tracing, and at places that are computed."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host, provided
from veery._core.ad import LINEAR, Zero, instantiate_zeros, is_undefined_primal, zeros_like_aval
from veery._core.array import Array
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.dimensions import is_symbolic, is_symbolic_dim
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery._core.shapes import canonicalize_axis, canonicalize_shape, check_shapelike
from veery._core.source import is_internal
from veery._transforms.batching import move_batch
from veery._transforms.explicit import over_batch
from veery.lax import _arithmetic, _compare, _convert, _shape

ArrayLike = Any

# Comparisons, conversions, gather and scatter build on this module: they are imported within functions.


# ---------------------------------------------------------------------------------------------------------------------
# slice


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The elements from start (included) to limit (excluded) of each dimension, in steps.

    Args:
        operand: array of any shape.
        start_indices: for each dimension, not negative.
        limit_indices: for each dimension, at most its size.
        strides: for each dimension, positive; None for ones.

    Raises:
        TypeError: the indices do not fit the shape.

    >>> from veery import lax
    >>> lax.slice(lax.iota("int32", 6), (1,), (6,), (2,)).tolist()
    [1, 3, 5]
    """
    starts, limits = canonicalize_shape(start_indices), canonicalize_shape(limit_indices)
    steps = None if strides is None else canonicalize_shape(strides)
    shape = np.shape(operand)
    if isinstance(operand, Array) and limits == shape and not any(starts) and steps in (None, (1,) * len(shape)):
        if len(starts) == len(shape):
            return operand
    return slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


def _slice_abstract_eval(
    x: ShapedArray, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> ShapedArray:
    check_shapelike("slice", "start_indices", start_indices)
    check_shapelike("slice", "limit_indices", limit_indices)
    if x.ndim != len(start_indices):
        raise TypeError(
            f"slice start_indices must have length equal to the number of dimensions of the operand, got indices "
            f"{start_indices} for operand shape {x.shape}."
        )
    if len(start_indices) != len(limit_indices):
        raise TypeError(
            f"slice limit_indices must have the same length as start_indices, got start_indices {start_indices} and "
            f"limit_indices {limit_indices}."
        )
    if not all(limit <= d for limit, d in zip(limit_indices, x.shape)):
        raise TypeError(
            f"slice limit_indices must be less than or equal to operand shape, got limit_indices {limit_indices} for "
            f"operand shape {x.shape}."
        )
    if not all(start <= limit for start, limit in zip(start_indices, limit_indices)):
        raise TypeError(
            f"slice limit_indices must be greater than or equal to start_indices, got start_indices {start_indices} "
            f"and limit_indices {limit_indices}."
        )
    steps = (1,) * x.ndim if strides is None else strides
    _check_strides(x, steps)
    shape = [-(-(limit - start) // step) for start, limit, step in zip(start_indices, limit_indices, steps)]
    return ShapedArray(shape, x.dtype, x.weak_type)


def _check_strides(x: ShapedArray, strides: Shape) -> None:
    check_shapelike("slice", "strides", strides)
    if len(strides) != x.ndim:
        raise TypeError(
            f"slice strides must have length equal to the number of dimensions of the operand, got strides {strides} "
            f"for operand shape {x.shape}."
        )
    if not all(step > 0 for step in strides):
        raise TypeError(f"slice strides must be positive, got {strides}")


def _slice_transpose(
    ct: Any, x: Any, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> list[Any]:
    shape, taken = x.aval.shape, np.shape(ct)
    steps = strides or (1,) * len(shape)
    config = []
    for d, start, step, n in zip(shape, start_indices, steps, taken):
        end = start + (n - 1) * step + 1 if n else start
        config.append((start, d - end, step - 1))
    return [_shape.pad(ct, np.zeros((), aval_of(ct).dtype), config)]


def _slice_batch(
    args: Sequence[Any], dims: Sequence[int], *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    insert = lambda sizes, value: (*sizes[:dim], value, *sizes[dim:])
    steps = None if strides is None else insert(strides, 1)
    return slice(x, insert(start_indices, 0), insert(limit_indices, np.shape(x)[dim]), steps), dim


def _slice_reference(x: np.ndarray, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return np.array(x[tuple(map(builtins.slice, start_indices, limit_indices, steps))])


def _slice_on_host(eqn: JaxprEqn) -> Callable[..., Any]:
    bounds = eqn.params["start_indices"], eqn.params["limit_indices"], eqn.params["strides"]
    index = tuple(map(builtins.slice, bounds[0], bounds[1], bounds[2] or [None] * len(bounds[0])))
    return lambda x: x[(..., *index)]


slice_p = Primitive(
    "slice",
    cost=cost.free,
    host=host.moves(_slice_on_host),
    abstract_eval=_slice_abstract_eval,
    jvp=LINEAR,
    transpose=_slice_transpose,
    batch=_slice_batch,
    reference=_slice_reference,
)


def slice_in_dim(
    operand: Array, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """`operand[..., start_index:limit_index:stride]` along one axis.

    Args:
        operand: array of any shape.
        start_index: None for 0; negative ones count from the end.
        limit_index: None for the axis' size; negative ones count from the end.
        stride: positive.
        axis: along which to slice.
    """
    shape = np.shape(operand)
    axis = canonicalize_axis(axis, len(shape))
    size = shape[axis]
    (start, limit) = canonicalize_shape(
        (0 if start_index is None else start_index, size if limit_index is None else limit_index)
    )
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    (strides[axis],) = canonicalize_shape((stride,))
    return slice(operand, starts, limits, None if strides[axis] == 1 else strides)


def index_in_dim(operand: Array, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at one index along an axis.

    Args:
        operand: array of any shape.
        index: negative ones count from the end.
        axis: along which to index.
        keepdims: whether the axis remains, with size 1.

    Raises:
        IndexError: the index is out of bounds.
    """
    (index,) = canonicalize_shape((index,))
    axis = canonicalize_axis(axis, np.ndim(operand))
    size = np.shape(operand)[axis]
    wrapped = index + size if index < 0 else index
    if not 0 <= wrapped < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    result = slice_in_dim(operand, wrapped, wrapped + 1, 1, axis)
    return result if keepdims else _shape.squeeze(result, (axis,))


# ---------------------------------------------------------------------------------------------------------------------
# dynamic_slice


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Array | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of known size from a place that may be computed.

    Args:
        operand: array of any shape.
        start_indices: an integer scalar for each dimension, all of one dtype, or one vector of them. Those that would
            let the slice reach over the edge are moved back.
        slice_sizes: the shape of the result.
        allow_negative_indices: whether negative indices count from the end, for all or for each.

    Raises:
        ValueError: there is not one index for each dimension.
        TypeError: the slice is larger than the operand, or the indices are not integers of one dtype.

    >>> from veery import lax
    >>> lax.dynamic_slice(lax.iota("int32", 6), (2,), (3,)).tolist()
    [2, 3, 4]
    """
    starts = _normalize_indices("dynamic_slice", np.shape(operand), start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=canonicalize_shape(slice_sizes))


def _normalize_indices(name: str, shape: Shape, indices: Any, allow_negative: bool | Sequence[bool]) -> list[Any]:
    """One scalar for each dimension, all of one dtype, counted from the start.

    Those that a user gives to the public function of that name, the caller, are of one dtype already, as in JAX.
    """
    if not isinstance(indices, (tuple, list)):
        if np.ndim(indices) != 1:
            raise ValueError(f"Slice indices must be a 1D sequence, got {np.shape(indices)}")
        indices = _shape.unstack(indices) if isinstance(indices, Array) else list(indices)
    if len(indices) != len(shape):
        raise ValueError(f"Length of slice indices must match number of operand dimensions ({len(indices)} vs {shape})")
    indices = [provided.operations.dimension_value(i) if is_symbolic_dim(i) else i for i in indices]
    given = [dtypes.dtype_of(i) for i in indices]
    if len(set(given)) > 1 and not is_internal(sys._getframe(2).f_code):
        raise _not_of_one_dtype(name, given)
    negative = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else list(allow_negative)
    dtype = _index_dtype(shape, indices)
    return [_normalize_index(i, d, allow, dtype) for i, d, allow in zip(indices, shape, negative, strict=True)]


def _index_dtype(shape: Shape, indices: Sequence[Any]) -> Any:
    """The dtype for indices in which the sizes fit: that of the arrays among them, but wide enough."""
    dtype = next((dtypes.dtype_of(i) for i in indices if not dtypes.is_python_scalar(i)), np.dtype(np.int32))
    is_integer = dtypes.issubdtype(dtype, np.integer)
    narrow = is_integer and any(n > dtypes.iinfo(dtype).max for n in shape if not is_symbolic_dim(n))
    small = is_integer and is_symbolic(shape) and np.dtype(dtype).itemsize < 4
    return np.dtype(np.int32) if narrow or small else dtype


def _normalize_index(index: Any, size: int, allow_negative: bool, dtype: Any) -> Any:
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        if index < 0 and not allow_negative:
            raise ValueError(f"Index {index} is out of bounds for dimension {size} if allow_negative_indices=False")
        if index < 0 and is_symbolic_dim(size):
            return _convert.convert_element_type(provided.operations.dimension_value(index + size), dtype)
        return _clip_to_dtype(int(index) + (size if index < 0 else 0), dtype)
    own = dtypes.dtype_of(index)
    if dtypes.issubdtype(own, np.integer) and np.dtype(own).itemsize < np.dtype(dtype).itemsize:
        index, own = _convert.convert_element_type(index, dtype), dtype
    if not allow_negative or not dtypes.issubdtype(own, np.signedinteger) or np.shape(index):
        return index
    zero = np.zeros((), own)
    return _compare.select(_compare.lt(index, zero), _arithmetic.add(index, _size_value(size, own)), index)


def _size_value(size: Any, dtype: Any) -> Any:
    if is_symbolic_dim(size):
        return _convert.convert_element_type(provided.operations.dimension_value(size), dtype)
    check_indexable(size, dtype)
    return np.asarray(size).astype(dtype)


def check_indexable(size: int, dtype: Any) -> None:
    """Raise OverflowError unless traced indices of this dtype, negative ones from the end, reach all of an axis."""
    if size > dtypes.iinfo(dtype).max:
        raise OverflowError(
            f"Python integer {size} out of bounds for {np.dtype(dtype).name}: traced indices of an axis of that size "
            "need int64. Set jax_enable_x64, or give lax.dynamic_slice allow_negative_indices=False if none is above "
            f"{dtypes.iinfo(dtype).max}."
        )


def _clip_to_dtype(index: int, dtype: Any) -> Any:
    """A known index in that dtype: one too large stays out of bounds instead of wrapping around."""
    if not dtypes.issubdtype(dtype, np.integer):
        return index
    info = dtypes.iinfo(dtype)
    return np.asarray(min(max(index, int(info.min)), int(info.max)), dtype)


def _check_indices(name: str, indices: tuple[ShapedArray, ...]) -> None:
    if any(i.ndim != 0 for i in indices):
        raise TypeError(f"start_indices arguments to {name} must be scalars, got indices {indices}")
    given = [i.dtype for i in indices]
    if len(set(given)) > 1 or not all(dtypes.issubdtype(dtype, np.integer) for dtype in given):
        raise _not_of_one_dtype(name, given)


def _not_of_one_dtype(name: str, given: Sequence[Any]) -> TypeError:
    names = ", ".join(dtype.name for dtype in given)
    return TypeError(f"index arguments to {name} must be integers of the same type, got: {names}")


def _dynamic_slice_abstract_eval(x: ShapedArray, *indices: ShapedArray, slice_sizes: Shape) -> ShapedArray:
    if len(slice_sizes) != x.ndim or len(indices) != x.ndim:
        raise TypeError(
            f"dynamic_slice needs an index and a size for each dimension, got {len(indices)} indices and slice_sizes "
            f"{slice_sizes} for operand shape {x.shape}."
        )
    if not all(size <= d for size, d in zip(slice_sizes, x.shape)):
        raise TypeError(
            f"slice slice_sizes must be less than or equal to operand shape, got slice_sizes {slice_sizes} for "
            f"operand shape {x.shape}."
        )
    if not all(size >= 0 for size in slice_sizes):
        raise TypeError(f"slice slice_sizes must be greater than or equal to zero, got slice_sizes of {slice_sizes}.")
    _check_indices("dynamic_slice", indices)
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _dynamic_slice_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: Shape) -> tuple[Any, Any]:
    bind = lambda x: dynamic_slice_p.bind(x, *primals[1:], slice_sizes=slice_sizes)
    out, t = bind(primals[0]), tangents[0]
    return out, Zero.from_primal_value(out) if type(t) is Zero else bind(t)


def _dynamic_slice_transpose(ct: Any, x: Any, *indices: Any, slice_sizes: Shape) -> list[Any]:
    ct_x = dynamic_update_slice_p.bind(zeros_like_aval(x.aval.update(dtype=aval_of(ct).dtype)), ct, *indices)
    return [ct_x, *([None] * len(indices))]


def _dynamic_slice_batch(args: Sequence[Any], dims: Sequence[int | None], *, slice_sizes: Shape) -> tuple[Any, int]:
    from veery.lax import _gather_scatter

    (x, *indices), (dim, *index_dims) = args, dims
    if all(d is None for d in index_dims):
        at = dim or 0
        zero = np.zeros((), aval_of(indices[0]).dtype) if indices else np.int32(0)
        sizes = (*slice_sizes[:at], np.shape(x)[at], *slice_sizes[at:])
        return dynamic_slice_p.bind(x, *indices[:at], zero, *indices[at:], slice_sizes=sizes), at
    return _gather_scatter.batch_dynamic_slice(x, indices, dim, index_dims, slice_sizes)


def _clamped(starts: Sequence[Any], shape: Shape, sizes: Shape) -> tuple[builtins.slice, ...]:
    """The index of the slice, moved back inside."""
    begins = [min(max(int(i), 0), d - n) for i, d, n in zip(starts, shape, sizes)]
    return tuple(builtins.slice(b, b + n) for b, n in zip(begins, sizes))


dynamic_slice_p = Primitive(
    "dynamic_slice",
    checks=("index",),
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_dynamic_slice_abstract_eval,
    jvp=_dynamic_slice_jvp,
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
    reference=lambda x, *indices, slice_sizes: np.array(x[_clamped(indices, x.shape, slice_sizes)]),
)


def dynamic_slice_in_dim(
    operand: Array, start_index: ArrayLike, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """A slice of known size along one axis, from a place that may be computed; see dynamic_slice."""
    shape = np.shape(operand)
    axis = canonicalize_axis(axis, len(shape))
    starts, sizes = _in_dim(shape, start_index, axis), list(shape)
    (sizes[axis],) = canonicalize_shape((slice_size,))
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=_only_at(axis, shape, allow_negative_indices))


def _in_dim(shape: Shape, index: Any, axis: int) -> list[Any]:
    return [index if i == axis else 0 for i in range(len(shape))]


def _only_at(axis: int, shape: Shape, allowed: bool) -> list[bool]:
    return [allowed and i == axis for i in range(len(shape))]


def dynamic_index_in_dim(
    operand: Array, index: ArrayLike, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """The slice at an index that may be computed; the axis is kept with size 1 unless keepdims is false."""
    result = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return result if keepdims else _shape.squeeze(result, (axis,))


# ---------------------------------------------------------------------------------------------------------------------
# dynamic_update_slice


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: Array | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The operand with a slice, at a place that may be computed, replaced.

    Args:
        operand: array of any shape.
        update: array of the same dtype and rank, not larger.
        start_indices: as for dynamic_slice.
        allow_negative_indices: as for dynamic_slice.

    Raises:
        TypeError: update does not fit operand.

    >>> from veery import lax
    >>> lax.dynamic_update_slice(lax.full((4,), 0), lax.full((2,), 7), (1,)).tolist()
    [0, 7, 7, 0]
    """
    starts = _normalize_indices("dynamic_update_slice", np.shape(operand), start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def _dynamic_update_slice_abstract_eval(x: ShapedArray, update: ShapedArray, *indices: ShapedArray) -> ShapedArray:
    if x.ndim != update.ndim:
        raise TypeError(
            f"dynamic_update_slice update must have the same rank as operand, got update shape {update.shape} for "
            f"operand shape {x.shape}."
        )
    if x.ndim != len(indices):
        raise TypeError(
            f"dynamic_update_slice start_indices must have length equal to the rank of operand, got indices "
            f"{list(indices)} for operand shape {x.shape}."
        )
    if not all(n <= d for n, d in zip(update.shape, x.shape)):
        raise TypeError(
            f"dynamic_update_slice update shape must be smaller than operand shape, got update shape {update.shape} "
            f"for operand shape {x.shape}."
        )
    if x.dtype != update.dtype:
        raise TypeError(
            f"lax.dynamic_update_slice requires arguments to have the same dtypes, got {x.dtype.name}, "
            f"{update.dtype.name}."
        )
    _check_indices("dynamic_update_slice", indices)
    return ShapedArray(x.shape, x.dtype)


def _dynamic_update_slice_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    indices = primals[2:]
    out = dynamic_update_slice_p.bind(*primals)
    if all(type(t) is Zero for t in tangents[:2]):
        return out, Zero.from_primal_value(out)
    return out, dynamic_update_slice_p.bind(*map(instantiate_zeros, tangents[:2]), *indices)


def _dynamic_update_slice_transpose(ct: Any, x: Any, update: Any, *indices: Any) -> list[Any]:
    linear_update = is_undefined_primal(update)
    shape = update.aval.shape if linear_update else np.shape(update)
    ct_x = ct_update = None
    if is_undefined_primal(x):
        hole = zeros_like_aval(ShapedArray(shape, aval_of(ct).dtype))
        ct_x = dynamic_update_slice_p.bind(ct, hole, *indices)
    if linear_update:
        ct_update = dynamic_slice_p.bind(ct, *indices, slice_sizes=shape)
    return [ct_x, ct_update, *([None] * len(indices))]


def _dynamic_update_slice_batch(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    from veery.lax import _gather_scatter

    (x, update, *indices), (dim, update_dim, *index_dims) = args, dims
    size = _shape.batch_size(args, dims)
    over = over_batch(args, dims)
    x, update = move_batch(x, dim, 0, size, over), move_batch(update, update_dim, 0, size, over)
    if all(d is None for d in index_dims):
        zero = np.zeros((), aval_of(indices[0]).dtype) if indices else np.int32(0)
        return dynamic_update_slice_p.bind(x, update, zero, *indices), 0
    return _gather_scatter.batch_dynamic_update_slice(x, update, indices, index_dims)


def _dynamic_update_slice_reference(x: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    out = np.array(x)
    out[_clamped(indices, x.shape, update.shape)] = update
    return out


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    checks=("index",),
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_dynamic_update_slice_abstract_eval,
    jvp=_dynamic_update_slice_jvp,
    transpose=_dynamic_update_slice_transpose,
    batch=_dynamic_update_slice_batch,
    reference=_dynamic_update_slice_reference,
)


def dynamic_update_slice_in_dim(
    operand: Array, update: ArrayLike, start_index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """The operand with a slice along one axis, at a place that may be computed, replaced; see dynamic_update_slice."""
    shape = np.shape(operand)
    axis = canonicalize_axis(axis, len(shape))
    starts = _in_dim(shape, start_index, axis)
    return dynamic_update_slice(
        operand, update, starts, allow_negative_indices=_only_at(axis, shape, allow_negative_indices)
    )


def dynamic_update_index_in_dim(
    operand: Array, update: ArrayLike, index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """The operand with the slice at an index along an axis replaced by `update`, with or without that axis."""
    axis = canonicalize_axis(axis, np.ndim(operand))
    if np.ndim(update) != np.ndim(operand):
        if np.ndim(update) + 1 != np.ndim(operand):
            raise TypeError(
                f"dynamic_update_index_in_dim update must have the rank of operand or one less, got update shape "
                f"{np.shape(update)} for operand shape {np.shape(operand)}."
            )
        update = _shape.expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


def index_take(src: Array, idxs: Sequence[Array], axes: Sequence[int]) -> Array:
    """The slices at places that vectors of indices, one for each of the axes, name; indices wrap around.

    Args:
        src: array of any shape.
        idxs: integer vectors of one length n.
        axes: the axis that each of them indexes.

    Returns:
        An array of shape (n, the other axes).
    """
    from veery.lax import _arithmetic, _gather_scatter

    shape = np.shape(src)
    axes = tuple(operator.index(a) for a in axes)
    vectors = []
    for index, axis in zip(idxs, axes, strict=True):
        if aval_of(index).dtype.itemsize < 4:  # in which sizes may not fit
            index = _convert.convert_element_type(index, np.int32)
        size = _size_value(shape[axis], aval_of(index).dtype)
        vectors.append(_normalize_indices_of(_arithmetic.rem(index, size), size))
    sizes = tuple(1 if i in axes else d for i, d in enumerate(shape))
    numbers = _gather_scatter.GatherDimensionNumbers(tuple(range(1, len(shape) - len(axes) + 1)), axes, axes)
    return _gather_scatter.gather(src, _shape.stack(vectors, 1), numbers, sizes)


def _normalize_indices_of(index: Any, size: Any) -> Any:
    zero = _shape.full_like(index, 0)
    return _compare.select(_compare.lt(index, zero), _arithmetic.add(index, size), index)
