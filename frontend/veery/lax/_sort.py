"""Sorting, and the largest elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host
from veery._core.ad import Zero
from veery._core.array import Array
from veery._core.avals import ShapedArray, aval_of
from veery._core.primitive import Primitive
from veery._core.shapes import canonicalize_axis
from veery.lax import _arithmetic, _gather_scatter, _shape
from veery.lax._gather_scatter import GatherDimensionNumbers, GatherScatterMode

ArrayLike = Any


def _take_along(x: Any, indices: Any, axis: int) -> Any:
    """The elements of x at indices along an axis, for each place in the other dimensions; indices are in bounds."""
    ndim = np.ndim(x)
    others = tuple(i for i in range(ndim) if i != axis)
    return _gather_scatter.gather(
        x,
        _shape.expand_dims(indices, (ndim,)),
        GatherDimensionNumbers((), (axis,), (axis,), others, others),
        tuple(1 if i == axis else min(1, d) for i, d in enumerate(np.shape(x))),
        mode=GatherScatterMode.CLIP,
        unique_indices=True,
    )


# ---------------------------------------------------------------------------------------------------------------------
# sort


def sort(
    operand: Array | Sequence[Array], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Sort along a dimension in ascending order; NaN is last.

    Args:
        operand: an array, or several of one shape, all of which are permuted alike.
        dimension: along which to sort.
        is_stable: whether equal elements keep their order. They always do.
        num_keys: how many of the operands are compared, the first ones first.

    Returns:
        An array, or a tuple of them.

    Raises:
        TypeError: there are no operands, or their shapes differ.
        ValueError: the dimension or num_keys is out of bounds.

    >>> from veery import lax
    >>> keys = lax.rev(lax.iota("int32", 3), (0,))
    >>> [x.tolist() for x in lax.sort((keys, lax.iota("int32", 3)))]
    [[0, 1, 2], [2, 1, 0]]
    """
    if not isinstance(operand, (tuple, list)):
        if num_keys != 1:
            raise ValueError(f"num_keys={num_keys} must equal 1 for a single operand.")
        return _sort_bind([operand], dimension, is_stable, 1)[0]
    if len(operand) == 0:
        raise TypeError("Sort requires at least one operand")
    if not 1 <= num_keys <= len(operand):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(operand)}")
    return tuple(_sort_bind(operand, dimension, is_stable, num_keys))


def _sort_bind(operands: Sequence[Any], dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    dimension = canonicalize_axis(dimension, np.ndim(operands[0]))
    return sort_p.bind(*operands, dimension=dimension, is_stable=bool(is_stable), num_keys=operator.index(num_keys))


def sort_key_val(keys: Array, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """The keys sorted along a dimension, and the values in the same order; see sort."""
    sorted_keys, sorted_values = _sort_bind([keys, values], dimension, is_stable, 1)
    return sorted_keys, sorted_values


def _sort_abstract_eval(*avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
    if len({a.shape for a in avals}) > 1:
        shapes = " ".join(str(a.shape) for a in avals)
        raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
    return list(avals)


def _sort_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list[Any], list[Any]]:
    """Tangents take the places of their elements, which a sorted iota tells."""
    places = _shape.broadcasted_iota(np.int32, np.shape(primals[0]), dimension)
    *outs, order = sort_p.bind(*primals, places, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    t_outs = [
        Zero.from_primal_value(out) if type(t) is Zero else _take_along(t, order, dimension)
        for out, t in zip(outs, tangents)
    ]
    return outs, t_outs


def _sort_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, dimension: int, **params: Any
) -> tuple[list[Any], list[int]]:
    size = _shape.batch_size(args, dims)
    xs = [_shape.bdim_at_front(x, d, size) for x, d in zip(args, dims)]
    return sort_p.bind(*xs, dimension=dimension + 1, **params), [0] * len(xs)


def _sort_keys(x: np.ndarray) -> list[np.ndarray]:
    """Arrays whose lexicographic order is that of x: parts of complex numbers, wider types for those NumPy lacks."""
    if x.dtype.kind == "c":
        return [x.real, x.imag]
    if x.dtype.kind == "V" or dtypes.issubdtype(x.dtype, np.floating):
        return [x.astype(np.float64 if dtypes.issubdtype(x.dtype, np.floating) else np.int64)]
    return [x]


def _sort_reference(*xs: np.ndarray, dimension: int, is_stable: bool, num_keys: int) -> list[np.ndarray]:
    keys = [part for x in xs[:num_keys] for part in _sort_keys(x)]
    order = np.lexsort(keys[::-1], axis=dimension)
    return [np.take_along_axis(x, order, dimension) for x in xs]


sort_p = Primitive(
    "sort",
    cost=cost.comparisons,
    host=host.calls(16),
    abstract_eval=_sort_abstract_eval,
    jvp=_sort_jvp,
    batch=_sort_batch,
    reference=_sort_reference,
    multiple_results=True,
)


# ---------------------------------------------------------------------------------------------------------------------
# top_k


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list[Array]:
    """The k largest elements along an axis, in descending order, and their indices. NaN is largest.

    Args:
        operand: array of a real dtype.
        k: how many, at most the size of the axis.
        axis: along which to look.

    Returns:
        A list of the values and their int32 indices; of equal elements the first comes first.

    Raises:
        ValueError: k is negative or too large, or the operand is complex.

    >>> from veery import lax
    >>> [x.tolist() for x in lax.top_k(lax.iota("int32", 5), 2)]
    [[4, 3], [4, 3]]
    """
    k = operator.index(k)
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    return top_k_p.bind(operand, k=k, axis=canonicalize_axis(axis, np.ndim(operand)))


def _top_k_abstract_eval(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError("top_k is not compatible with complex inputs.")
    shape = list(x.shape)
    if shape[axis] < k:
        raise ValueError(
            f"k argument to top_k must be no larger than size along axis; got k={k} with shape={shape} and axis={axis}"
        )
    if isinstance(shape[axis], int) and shape[axis] > 2**31 - 1:
        raise ValueError(
            "top_k returns int32 indices, which will overflow for array dimensions larger than the maximum int32 "
            f"(2147483647). Got operand.shape={x.shape}"
        )
    shape[axis] = k
    return [ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, np.int32)]


def _top_k_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int) -> tuple[list[Any], list[Any]]:
    values, indices = top_k_p.bind(primals[0], k=k, axis=axis)
    return [values, indices], [_take_along(tangents[0], indices, axis), Zero.from_primal_value(indices)]


def _top_k_batch(args: Sequence[Any], dims: Sequence[int], *, k: int, axis: int) -> tuple[list[Any], list[int]]:
    (x,), (dim,) = args, dims
    return top_k_p.bind(x, k=k, axis=axis + (axis >= dim)), [dim, dim]


def _descending_key(x: np.ndarray) -> np.ndarray:
    """Integers whose ascending order is the descending order of x: any NaN first, 0.0 before -0.0."""
    if not dtypes.issubdtype(x.dtype, np.floating):
        return np.invert(x.astype(np.int64) if x.dtype != np.uint64 else x)
    bits = np.where(np.isnan(x), np.nan, x.astype(np.float64)).view(np.int64)
    return np.invert(np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits))


def _top_k_reference(x: np.ndarray, *, k: int, axis: int) -> list[np.ndarray]:
    order = np.argsort(_descending_key(x), axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


top_k_p = Primitive(
    "top_k",
    cost=cost.comparisons,
    host=host.calls(16),
    abstract_eval=_top_k_abstract_eval,
    jvp=_top_k_jvp,
    batch=_top_k_batch,
    reference=_top_k_reference,
    multiple_results=True,
)


def approx_max_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k largest elements along a dimension and their indices: exactly those (a recall of 1), see top_k.

    Args:
        operand: floating-point array.
        k: how many.
        reduction_dimension: along which to look.
        recall_target: in (0, 1]; met by any exact answer.
        reduction_input_size_override: without effect.
        aggregate_to_topk: without effect.

    Raises:
        ValueError: the operand is not floating-point.
    """
    _check_approximate(operand, recall_target)
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k smallest elements along a dimension and their indices, exactly; see approx_max_k."""
    _check_approximate(operand, recall_target)
    values, indices = top_k(_arithmetic.neg(operand), k, axis=reduction_dimension)
    return [_arithmetic.neg(values), indices]


def _check_approximate(operand: Any, recall_target: float) -> None:
    if not dtypes.issubdtype(aval_of(operand).dtype, np.floating):
        raise ValueError("operand must be a floating type")
    if not 0 < recall_target <= 1:
        raise ValueError(f"recall_target must be in (0, 1], got {recall_target}")
