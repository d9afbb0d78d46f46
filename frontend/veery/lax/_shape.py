"""Operations on shapes: broadcasting, reshaping, joining, padding, and the arrays that are made from nothing."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host
from veery._core.ad import LINEAR, NONDIFFERENTIABLE, Zero, instantiate_zeros, is_undefined_primal
from veery._core.array import Array, is_array
from veery._core.avals import Shape, ShapedArray, aval_of, check_operand
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery._core.shapes import as_axes, canonicalize_axis, canonicalize_shape, check_shapelike, concrete_int
from veery.lax._fill import empty, full, full_like, zeros, zeros_like_array
from veery.lax._placement import laid_out

__all__ = ["empty", "full", "full_like", "zeros", "zeros_like_array"]  # made in _fill, used as part of this family

ArrayLike = Any
Dim = int | None

# The other families build on this one, so that what it needs of them (sums, conversions, slices, selections) is
# imported within its functions.


# ---------------------------------------------------------------------------------------------------------------------
# broadcast_in_dim


def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """Broadcast an array to a shape, saying where each of its dimensions goes.

    Args:
        operand: the array to broadcast.
        shape: the shape of the result.
        broadcast_dimensions: for each dimension of operand, the dimension of the result that it becomes.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        TypeError: the dimensions do not fit the shape.

    >>> from veery import lax
    >>> lax.broadcast_in_dim(lax.iota('float32', 2), (3, 2), (1,)).shape
    (3, 2)
    """
    if out_sharding is not None:
        return laid_out(
            lambda: broadcast_in_dim(operand, shape, broadcast_dimensions), out_sharding, "broadcast_in_dim"
        )
    shape = canonicalize_shape(shape)
    dims = tuple(operator.index(d) for d in broadcast_dimensions)
    if isinstance(operand, Array) and np.shape(operand) == shape and dims == tuple(range(len(shape))):
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


def _broadcast_in_dim_abstract_eval(x: ShapedArray, *, shape: Shape, broadcast_dimensions: Shape) -> ShapedArray:
    check_shapelike("broadcast_in_dim", "shape", shape)
    check_shapelike("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    if x.ndim != len(broadcast_dimensions):
        raise TypeError(
            f"broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; got "
            f"broadcast_dimensions {broadcast_dimensions} for operand ndim {x.ndim}."
        )
    if len(shape) < x.ndim:
        raise TypeError(
            f"broadcast_in_dim target broadcast shape must have equal or higher rank to the operand shape; got "
            f"operand ndim {x.ndim} and target broadcast ndim {len(shape)}."
        )
    if not set(broadcast_dimensions) <= set(range(len(shape))):
        raise TypeError(
            f"broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, got "
            f"{broadcast_dimensions} for operand ndim {x.ndim} and shape {shape}."
        )
    if not all(d in (1, shape[to]) for d, to in zip(x.shape, broadcast_dimensions)):
        raise TypeError(
            f"broadcast_in_dim operand dimension sizes must either be 1, or be equal to their corresponding "
            f"dimensions in the target broadcast shape; got operand of shape {x.shape}, target broadcast shape "
            f"{shape}, broadcast_dimensions {broadcast_dimensions} "
        )
    if len(set(broadcast_dimensions)) != len(broadcast_dimensions):
        raise TypeError(
            f"broadcast_in_dim broadcast_dimensions must not contain duplicates, got broadcast_dimensions "
            f"{broadcast_dimensions}"
        )
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_in_dim_transpose(ct: Any, operand: Any, *, shape: Shape, broadcast_dimensions: Shape) -> list[Any]:
    from veery.lax import _reduce

    in_shape = operand.aval.shape
    kept = {to: d for to, d in zip(broadcast_dimensions, in_shape) if d == shape[to]}
    axes = tuple(i for i in range(len(shape)) if i not in kept)
    ct = _reduce.reduce_sum(ct, axes)
    # what remains is in the order of the result; give it the operand's order and its dimensions of size 1
    remaining = [to for to in range(len(shape)) if to in kept]
    order = [remaining.index(to) for to in broadcast_dimensions if to in kept]
    return [reshape(transpose(ct, order), in_shape)]


def _broadcast_in_dim_batch(
    args: Sequence[Any], dims: Sequence[int], *, shape: Shape, broadcast_dimensions: Shape
) -> Any:
    (x,), (dim,) = args, dims
    x = moveaxis(x, dim, 0)
    to = (0, *(d + 1 for d in broadcast_dimensions))
    return broadcast_in_dim(x, (np.shape(x)[0], *shape), to), 0


def _broadcast_in_dim_reference(x: np.ndarray, *, shape: Shape, broadcast_dimensions: Shape) -> np.ndarray:
    aligned = [1] * len(shape)
    for d, to in zip(x.shape, broadcast_dimensions):
        aligned[to] = d
    return np.broadcast_to(np.transpose(x, inverse_permutation(broadcast_dimensions)).reshape(aligned), shape).copy()


def _broadcast_on_host(eqn: JaxprEqn) -> Callable[..., Any]:
    shape, places = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    if list(places) != sorted(places):
        return host.reference(eqn)
    spread = [1] * len(shape)
    for place, size in zip(places, eqn.invars[0].aval.shape):
        spread[place] = size
    if spread == list(shape):
        return lambda x: x.reshape(shape)
    if math.prod(shape) > _SMALL:
        return lambda x: np.broadcast_to(x.reshape(spread), shape)

    def copied(x: np.ndarray) -> np.ndarray:  # in 0.6 us, of which broadcast_to takes 3
        out = np.empty(shape, x.dtype)
        out[...] = x.reshape(spread)
        return out

    return copied


_SMALL = 1 << 10  # elements


broadcast_in_dim_p = Primitive(
    "broadcast_in_dim",
    cost=cost.free,
    host=host.moves(_broadcast_on_host),
    abstract_eval=_broadcast_in_dim_abstract_eval,
    jvp=LINEAR,
    transpose=_broadcast_in_dim_transpose,
    batch=_broadcast_in_dim_batch,
    reference=_broadcast_in_dim_reference,
)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Add leading dimensions of the given sizes.

    Args:
        operand: array of any shape.
        sizes: sizes of the new dimensions.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        An array of shape `(*sizes, *operand.shape)`.
    """
    if out_sharding is not None:
        return laid_out(lambda: broadcast(operand, sizes), out_sharding, "broadcast")
    sizes = canonicalize_shape(sizes)
    ndim = np.ndim(operand)
    if not sizes and isinstance(operand, Array):
        return operand
    return broadcast_in_dim(operand, sizes + np.shape(operand), tuple(range(len(sizes), len(sizes) + ndim)))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading dimensions of size 1 until the array has `rank` dimensions.

    Raises:
        ValueError: it has more already.
    """
    ndim = np.ndim(x)
    if ndim == rank:
        return x
    if ndim > rank:
        raise ValueError(f"Invalid rank {rank} for broadcasting an array of shape {np.shape(x)}")
    return expand_dims(x, tuple(range(rank - ndim)))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Broadcast `arr` to the shape of `like_arr`, aligning trailing dimensions as NumPy does."""
    shape = np.shape(like_arr)
    return broadcast_in_dim(arr, shape, tuple(range(len(shape) - np.ndim(arr), len(shape))))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert dimensions of size 1.

    Args:
        array: array of any shape.
        dimensions: positions in the result, negative ones counted from its end.

    Raises:
        ValueError: a position is repeated or out of bounds.
    """
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {dimensions}")
    ndim = np.ndim(array) + len(dimensions)
    new = [canonicalize_axis(d, ndim) for d in dimensions]
    if len(set(new)) != len(new):
        raise ValueError(f"repeated axis in lax.expand_dims: {new}")
    sizes = iter(np.shape(array))
    shape = [1 if i in new else next(sizes) for i in range(ndim)]
    return broadcast_in_dim(array, shape, [i for i in range(ndim) if i not in new])


# ---------------------------------------------------------------------------------------------------------------------
# reshape, squeeze, transpose


def reshape(
    operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *, out_sharding: Any = None
) -> Array:
    """Give the elements of an array, in row-major order, another shape.

    Args:
        operand: array of any shape.
        new_sizes: the shape of the result; no -1 (see jnp.reshape).
        dimensions: permutation of operand's dimensions applied before.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        TypeError: the number of elements differs.
    """
    if out_sharding is not None:
        return laid_out(lambda: reshape(operand, new_sizes, dimensions), out_sharding, "reshape")
    new_sizes = canonicalize_shape(new_sizes)
    if dimensions is not None:
        dims = tuple(operator.index(d) for d in dimensions)
        if set(dims) != set(range(np.ndim(operand))):
            raise TypeError(
                f"reshape dimensions must be a permutation of operand dimensions, got dimensions {dims} for shape "
                f"{np.shape(operand)}."
            )
        operand = transpose(operand, dims)
    if is_array(operand) and np.shape(operand) == new_sizes:
        return operand
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=None)


def _reshape_abstract_eval(x: ShapedArray, *, new_sizes: Shape, dimensions: None) -> ShapedArray:
    if not all(d >= 0 for d in new_sizes):
        raise TypeError(f"reshape new_sizes must all be positive, got {new_sizes}.")
    if math.prod(new_sizes) != x.size:
        raise TypeError(
            f"reshape total size must be unchanged, got new_sizes {new_sizes} (prod = {math.prod(new_sizes)}) for "
            f"shape {x.shape} (prod = {x.size})"
        )
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


def _reshape_batch(args: Sequence[Any], dims: Sequence[int], *, new_sizes: Shape, dimensions: None) -> Any:
    x = moveaxis(args[0], dims[0], 0)
    return reshape(x, (np.shape(x)[0], *new_sizes)), 0


def _reshape_on_host(eqn: JaxprEqn) -> Callable[..., Any]:
    shape = eqn.outvars[0].aval.shape
    return lambda x: x.reshape(shape)


reshape_p = Primitive(
    "reshape",
    cost=cost.free,
    host=host.moves(_reshape_on_host),
    abstract_eval=_reshape_abstract_eval,
    jvp=LINEAR,
    transpose=lambda ct, x, **params: [reshape(ct, x.aval.shape)],
    batch=_reshape_batch,
    reference=lambda x, *, new_sizes, dimensions: np.reshape(x, new_sizes),
)


def collapse(operand: Array, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the dimensions from start_dimension up to, not including, stop_dimension (default: the last) into one.

    Raises:
        ValueError: the range is not one.
    """
    shape = np.shape(operand)
    lo, hi, _ = builtins.slice(start_dimension, stop_dimension).indices(len(shape))
    if hi < lo:
        raise ValueError(f"Invalid dimension range passed to collapse: {shape}[{start_dimension}:{stop_dimension}]")
    return reshape(operand, (*shape[:lo], math.prod(shape[lo:hi]), *shape[hi:]))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Remove dimensions of size 1.

    Raises:
        ValueError: a dimension is repeated, out of bounds or of another size.
    """
    ndim = np.ndim(array)
    dims = tuple(canonicalize_axis(d, ndim) for d in dimensions)
    if not dims and isinstance(array, Array):
        return array
    return squeeze_p.bind(array, dimensions=dims)


def _squeeze_abstract_eval(x: ShapedArray, *, dimensions: Shape) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"dimensions are not unique: {dimensions}")
    if not all(0 <= d < x.ndim for d in dimensions):
        raise ValueError(f"dimensions outside range [0, ndim): {dimensions}")
    if any(x.shape[d] != 1 for d in dimensions):
        raise ValueError(
            f"cannot select an axis to squeeze out which has size not equal to one, got shape={x.shape} and "
            f"dimensions={dimensions}"
        )
    return ShapedArray([d for i, d in enumerate(x.shape) if i not in dimensions], x.dtype, x.weak_type)


def _squeeze_batch(args: Sequence[Any], dims: Sequence[int], *, dimensions: Shape) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    shifted = tuple(d + (d >= dim) for d in dimensions)
    return squeeze(x, shifted), dim - sum(d < dim for d in shifted)


squeeze_p = Primitive(
    "squeeze",
    cost=cost.free,
    host=host.moves(_reshape_on_host),
    abstract_eval=_squeeze_abstract_eval,
    jvp=LINEAR,
    transpose=lambda ct, x, *, dimensions: [expand_dims(ct, dimensions)],
    batch=_squeeze_batch,
    reference=lambda x, *, dimensions: np.squeeze(x, dimensions),
)


def transpose(operand: ArrayLike, permutation: Sequence[int] | np.ndarray) -> Array:
    """Permute dimensions: dimension i of the result is dimension permutation[i] of the operand.

    Raises:
        TypeError: permutation is not one of operand's dimensions.
    """
    if not isinstance(permutation, (tuple, list, np.ndarray, Array)):
        raise TypeError(f"transpose permutation must be a tuple/list/ndarray, got {type(permutation)}.")
    permutation = tuple(operator.index(d) for d in permutation)
    if isinstance(operand, Array) and permutation == tuple(range(np.ndim(operand))):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def _transpose_abstract_eval(x: ShapedArray, *, permutation: Shape) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {permutation} for "
            f"operand shape {x.shape}."
        )
    return ShapedArray([x.shape[i] for i in permutation], x.dtype, x.weak_type)


def _transpose_batch(args: Sequence[Any], dims: Sequence[int], *, permutation: Shape) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    return transpose(x, (dim, *(i + (i >= dim) for i in permutation))), 0


def inverse_permutation(permutation: Sequence[int]) -> Shape:
    """The permutation that undoes this one."""
    return tuple(int(i) for i in np.argsort(permutation)) if permutation else ()


transpose_p = Primitive(
    "transpose",
    cost=cost.free,
    host=host.moves(lambda eqn: operator.methodcaller("transpose", eqn.params["permutation"])),
    abstract_eval=_transpose_abstract_eval,
    jvp=LINEAR,
    transpose=lambda ct, x, *, permutation: [transpose(ct, inverse_permutation(permutation))],
    batch=_transpose_batch,
    reference=lambda x, *, permutation: np.transpose(x, permutation),
)


def moveaxis(x: ArrayLike, src: int | Sequence[int], dst: int | Sequence[int]) -> Array:
    """Move dimensions to other positions; the others keep their order (see numpy.moveaxis)."""
    ndim = np.ndim(x)
    sources = [canonicalize_axis(a, ndim) for a in as_axes(src)]
    targets = [canonicalize_axis(a, ndim) for a in as_axes(dst)]
    if sources == targets:
        return x
    order = [i for i in range(ndim) if i not in sources]
    for to, source in sorted(zip(targets, sources)):
        order.insert(to, source)
    return x if order == list(range(ndim)) else transpose(x, order)


def bdim_at_front(x: ArrayLike, dim: Dim, size: int) -> Array:
    """The operand with its batch dimension in front; an unbatched operand is broadcast."""
    return broadcast(x, (size,)) if dim is None else moveaxis(x, dim, 0)


def bdim_or_one(x: ArrayLike, dim: Dim) -> Array:
    """The operand with its batch dimension in front; an unbatched operand gets one of size 1."""
    return expand_dims(x, (0,)) if dim is None else moveaxis(x, dim, 0)


def batch_size(args: Sequence[Any], dims: Sequence[Dim]) -> int:
    """The size of the batch dimension of the operands that have one."""
    return next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)


# ---------------------------------------------------------------------------------------------------------------------
# concatenate, split, stack


def concatenate(operands: Array | Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays along a dimension.

    Args:
        operands: arrays of one dtype whose shapes agree but for that dimension.
        dimension: the dimension, not negative.

    Raises:
        ValueError: there are no operands.
        TypeError: shapes or dtypes do not fit.
    """
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(operands) == 1 and isinstance(operands[0], Array):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=concrete_int(dimension, "concatenate dimension"))


def _concatenate_abstract_eval(*avals: ShapedArray, dimension: int) -> ShapedArray:
    if not avals:
        raise TypeError("concatenate expects at least one operand, got 0.")
    shapes = ", ".join(str(a.shape) for a in avals)
    if len({a.ndim for a in avals}) != 1:
        raise TypeError(f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}.")
    if not 0 <= dimension < avals[0].ndim:
        raise TypeError(f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}.")
    if len({(*a.shape[:dimension], *a.shape[dimension + 1 :]) for a in avals}) != 1:
        raise TypeError(
            f"Cannot concatenate arrays with shapes that differ in dimensions other than the one being "
            f"concatenated: concatenating along dimension {dimension} for shapes {shapes}."
        )
    if len({a.dtype for a in avals}) != 1:
        names = ", ".join(a.dtype.name for a in avals)
        raise TypeError(
            f"lax.concatenate requires arguments to have the same dtypes, got {names}. "
            f"(Tip: jnp.concatenate is a similar function that does automatic type promotion on inputs)."
        )
    shape = list(avals[0].shape)
    shape[dimension] = sum(a.shape[dimension] for a in avals)
    return ShapedArray(shape, avals[0].dtype, all(a.weak_type for a in avals))


def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> list[Any]:
    from veery.lax import _slicing

    results, start = [], 0
    for x in operands:
        linear = is_undefined_primal(x)
        size = (x.aval.shape if linear else np.shape(x))[dimension]
        results.append(_slicing.slice_in_dim(ct, start, start + size, axis=dimension) if linear else None)
        start += size
    return results


def _concatenate_batch(args: Sequence[Any], dims: Sequence[Dim], *, dimension: int) -> tuple[Any, int]:
    size = batch_size(args, dims)
    return concatenate([bdim_at_front(x, d, size) for x, d in zip(args, dims)], dimension + 1), 0


concatenate_p = Primitive(
    "concatenate",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_concatenate_abstract_eval,
    jvp=LINEAR,
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
    reference=lambda *operands, dimension: np.concatenate(operands, dimension),
)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> Sequence[Array]:
    """Split an array along an axis into pieces of the given sizes.

    Raises:
        ValueError: the sizes do not add up to that of the axis.
    """
    axis = canonicalize_axis(axis, np.ndim(operand))
    return split_p.bind(operand, sizes=canonicalize_shape(sizes), axis=axis)


def _split_abstract_eval(x: ShapedArray, *, sizes: Shape, axis: int) -> list[ShapedArray]:
    if any(size < 0 for size in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    if sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape {list(x.shape)}"
        )
    return [ShapedArray((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype, x.weak_type) for size in sizes]


def _split_transpose(cts: Sequence[Any], x: Any, *, sizes: Shape, axis: int) -> list[Any]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [concatenate([instantiate_zeros(ct) for ct in cts], axis)]


def _split_batch(args: Sequence[Any], dims: Sequence[int], *, sizes: Shape, axis: int) -> tuple[Any, list[int]]:
    (x,), (dim,) = args, dims
    return split(x, sizes, axis + (axis >= dim)), [dim] * len(sizes)


split_p = Primitive(
    "split",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_split_abstract_eval,
    jvp=LINEAR,
    transpose=_split_transpose,
    batch=_split_batch,
    reference=lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis) if sizes else [],
    multiple_results=True,
)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis."""
    if len(operands) == 0:
        raise ValueError("stack requires a non-empty sequence of arrays")
    axis = canonicalize_axis(axis, np.ndim(operands[0]) + 1)
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, without that axis."""
    axis = canonicalize_axis(axis, np.ndim(x))
    return tuple(squeeze(piece, (axis,)) for piece in split(x, (1,) * np.shape(x)[axis], axis))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array along each of its dimensions.

    Args:
        operand: array of any shape.
        reps: number of repetitions of each dimension.

    Raises:
        TypeError: reps has not one entry for each dimension.
    """
    reps, shape = canonicalize_shape(reps), np.shape(operand)
    if len(reps) != len(shape):
        raise TypeError(
            f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and x.ndim={len(shape)}."
        )
    pairs = tuple(d for pair in zip(reps, shape) for d in pair)
    x = broadcast_in_dim(operand, pairs, tuple(range(1, 2 * len(shape), 2)))
    return reshape(x, tuple(r * d for r, d in zip(reps, shape)))


# ---------------------------------------------------------------------------------------------------------------------
# pad, rev


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Pad an array: before, after and between its elements.

    Args:
        operand: array of any shape.
        padding_value: scalar of the same dtype, which a Python number must have by itself.
        padding_config: (low, high, interior) for each dimension; negative low and high crop.

    Raises:
        TypeError: an operand is no array, or the dtypes differ.
        ValueError: the configuration does not fit the shape.

    >>> from veery import lax
    >>> lax.pad(lax.iota('int32', 3), 9, [(1, 0, 1)]).tolist()
    [9, 0, 9, 1, 9, 2]
    """
    for position, x in enumerate((operand, padding_value)):
        check_operand("pad", position, x)
    config = tuple((operator.index(lo), operator.index(hi), operator.index(i)) for lo, hi, i in padding_config)
    return pad_p.bind(operand, padding_value, padding_config=config)


def _pad_abstract_eval(
    x: ShapedArray, value: ShapedArray, *, padding_config: Sequence[tuple[int, int, int]]
) -> ShapedArray:
    if x.dtype != value.dtype:
        raise TypeError(f"pad operand and padding_value must be same dtype: got {x.dtype.name} and {value.dtype.name}.")
    if value.ndim != 0:
        raise ValueError(f"padding_value must be a scalar; got np.shape(padding_value)={value.shape}")
    if len(padding_config) != x.ndim:
        raise ValueError(
            f"length of padding_config must equal the number of axes of operand, got padding_config "
            f"{padding_config} for operand shape {x.shape}"
        )
    if any(i < 0 for _, _, i in padding_config):
        raise ValueError(f"interior padding in padding_config must be nonnegative, got padding_config {padding_config}")
    shape = tuple(lo + hi + (d + (d - 1) * i if d else 0) for d, (lo, hi, i) in zip(x.shape, padding_config))
    if any(d < 0 for d in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, for padding_config "
            f"{padding_config} and operand shape {x.shape}"
        )
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: Sequence[tuple[int, int, int]]) -> list[Any]:
    from veery.lax import _arithmetic, _reduce, _slicing

    # cropping what was padded and taking every (interior + 1)-th element leaves the cotangents of x's elements
    cropped = pad(ct, np.zeros((), aval_of(ct).dtype), [(-lo, -hi, 0) for lo, hi, _ in padding_config])
    shape = np.shape(cropped)
    inner = _slicing.slice(cropped, (0,) * len(shape), shape, tuple(i + 1 for _, _, i in padding_config))
    if not is_undefined_primal(value):
        return [inner, None]
    axes = tuple(range(len(shape)))
    rest = _arithmetic.sub(_reduce.reduce_sum(ct, axes), _reduce.reduce_sum(inner, axes))
    return [inner if is_undefined_primal(x) else None, rest]


def _pad_batch(args: Sequence[Any], dims: Sequence[Dim], *, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    from veery.lax import _compare

    (x, value), (dim, value_dim) = args, dims
    size = batch_size(args, dims)
    x = bdim_at_front(x, dim, size)
    config = ((0, 0, 0), *padding_config)
    if value_dim is None:
        return pad(x, value, config), 0
    # pad takes one value: pad with zeros and put each example's value where the padding is
    padded = pad(x, zeros_like_array(_first(value)), config)
    shape = np.shape(padded)
    inside = pad(full(np.shape(x)[1:], True, np.bool_), np.bool_(False), padding_config)
    inside = broadcast_in_dim(inside, shape, tuple(range(1, len(shape))))
    return _compare.select(inside, padded, broadcast_in_dim(value, shape, (0,))), 0


def _first(x: Any) -> ShapedArray:
    return aval_of(x).update(shape=())


def _pad_reference(x: np.ndarray, value: np.ndarray, *, padding_config: Sequence[tuple[int, int, int]]) -> np.ndarray:
    for axis, (lo, hi, interior) in enumerate(padding_config):
        if not (lo or hi or interior):
            continue
        x = np.moveaxis(x, axis, 0) if axis else x
        n = len(x)
        spread = n + (n - 1) * interior if n else 0
        out = np.empty((builtins.max(lo, 0) + spread + builtins.max(hi, 0), *x.shape[1:]), x.dtype)
        out[...] = value
        start = builtins.max(lo, 0)
        out[start : start + spread : interior + 1] = x
        x = out[builtins.max(-lo, 0) : len(out) - builtins.max(-hi, 0)]
        x = np.moveaxis(x, 0, axis) if axis else x
    return x.copy()


pad_p = Primitive(
    "pad",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_pad_abstract_eval,
    jvp=LINEAR,
    transpose=_pad_transpose,
    batch=_pad_batch,
    reference=_pad_reference,
)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along dimensions."""
    dims = tuple(operator.index(d) for d in dimensions)
    if not dims and isinstance(operand, Array):
        return operand
    return rev_p.bind(operand, dimensions=dims)


def _rev_abstract_eval(x: ShapedArray, *, dimensions: Shape) -> ShapedArray:
    check_shapelike("rev", "dimensions", dimensions)
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if dimensions and builtins.max(dimensions) >= x.ndim:
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {dimensions} for operand ndim {x.ndim}."
        )
    return x


def _rev_batch(args: Sequence[Any], dims: Sequence[int], *, dimensions: Shape) -> tuple[Any, int]:
    return rev(args[0], tuple(d + (d >= dims[0]) for d in dimensions)), dims[0]


rev_p = Primitive(
    "rev",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_rev_abstract_eval,
    jvp=LINEAR,
    transpose=lambda ct, x, *, dimensions: [rev(ct, dimensions)],
    batch=_rev_batch,
    reference=lambda x, *, dimensions: np.flip(x, dimensions).copy(),
)


# ---------------------------------------------------------------------------------------------------------------------
# iota, copy


def iota(dtype: Any, size: int) -> Array:
    """The array 0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Any = None) -> Array:
    """An array whose elements are their own index along `dimension`.

    Raises:
        TypeError: dtype is not numeric.
        ValueError: dimension is out of bounds.
    """
    if out_sharding is not None:
        return laid_out(lambda: broadcasted_iota(dtype, shape, dimension), out_sharding, "broadcasted_iota")
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "iota")
    return iota_p.bind(
        dtype=dtype, shape=canonicalize_shape(shape), dimension=concrete_int(dimension, "iota dimension")
    )


def _iota_abstract_eval(*, dtype: Any, shape: Shape, dimension: int) -> ShapedArray:
    check_shapelike("iota", "shape", shape)
    if not dtypes.issubdtype(dtype, np.number):
        raise TypeError(
            f"iota does not accept dtype {dtype.name}. Accepted dtypes are subtypes of integer, "
            f"floating, complexfloating."
        )
    if not 0 <= dimension < len(shape):
        raise ValueError(
            f"iota dimension must be between 0 and len(shape), got dimension={dimension} for shape={shape}"
        )
    return ShapedArray(shape, dtype)


def _iota_reference(*, dtype: Any, shape: Shape, dimension: int) -> np.ndarray:
    steps = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(steps.reshape([-1 if i == dimension else 1 for i in range(len(shape))]), shape).copy()


iota_p: Primitive = Primitive(
    "iota",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_iota_abstract_eval,
    # without operands there is nothing to differentiate, and one result for all of a batch
    jvp=NONDIFFERENTIABLE,
    batch=lambda args, dims, **params: (iota_p.bind(**params), None),
    reference=_iota_reference,
)


def copy(x: ArrayLike) -> Array:
    """A copy of the array that shares no memory with it."""
    return copy_p.bind(x)


def _copy_batch(args: Sequence[Any], dims: Sequence[int]) -> tuple[Any, int]:
    return copy_p.bind(args[0]), dims[0]


copy_p = Primitive(
    "copy",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=lambda x: x,
    jvp=LINEAR,
    transpose=lambda ct, x: [copy(ct)],
    batch=_copy_batch,
    reference=lambda x: np.array(x),
)
