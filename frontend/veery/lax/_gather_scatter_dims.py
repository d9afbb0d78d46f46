"""Which dimension is what in a gather or scatter: the numbers, the modes, and the checks that they fit the operands."""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes
from veery._core.avals import Shape, ShapedArray


class GatherDimensionNumbers(NamedTuple):
    """Which dimension is what in a gather.

    Index vectors lie along the last dimension of the indices.

    Attributes:
        offset_dims: dimensions of the result that run over a window; the others are those of the indices.
        collapsed_slice_dims: dimensions of the operand in which windows have size 1 and which the result lacks.
        start_index_map: for each entry of an index vector, the dimension of the operand that it is for.
        operand_batching_dims: dimensions of the operand that go along with dimensions of the indices,
        start_indices_batching_dims: these.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which dimension is what in a scatter: the mirror image of GatherDimensionNumbers.

    Attributes:
        update_window_dims: dimensions of the updates that run over a window.
        inserted_window_dims: dimensions of the operand in which windows have size 1 and which the updates lack.
        scatter_dims_to_operand_dims: for each entry of an index vector, the dimension of the operand that it is for.
        operand_batching_dims: dimensions of the operand that go along with dimensions of the indices,
        scatter_indices_batching_dims: these.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """What happens to windows that are not inside the operand.

    CLIP moves them inside. FILL_OR_DROP fills what is read with a value and drops what is written. With
    PROMISE_IN_BOUNDS there are none (reading moves them inside, writing drops them, and derivatives are wrong).
    ONE_HOT reads zeros.
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of that name: "clip", "fill" or "drop" (also None), "promise_in_bounds", "one_hot".

        Raises:
            ValueError: there is none.
        """
        if isinstance(s, GatherScatterMode):
            return s
        modes = {
            "clip": GatherScatterMode.CLIP,
            None: GatherScatterMode.FILL_OR_DROP,
            "fill": GatherScatterMode.FILL_OR_DROP,
            "drop": GatherScatterMode.FILL_OR_DROP,
            "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
            "one_hot": GatherScatterMode.ONE_HOT,
        }
        if s not in modes:
            raise ValueError(f'Unknown gather mode "{s}"')
        return modes[s]


def normal(numbers: Any) -> Any:
    """The dimension numbers as tuples of ints."""
    return type(numbers)(*(tuple(operator.index(d) for d in dims) for dims in numbers))


# ---------------------------------------------------------------------------------------------------------------------
# checks


def _check_dims(op: str, name: str, dims: Sequence[int], rank: int, ordered: bool = True) -> None:
    """Raise TypeError unless the dimensions are distinct, below rank, and sorted if they are to be."""
    if ordered and list(dims) != sorted(dims):
        raise TypeError(f"{name} in {op} op must be sorted; got {dims}")
    for d in dims:
        if not 0 <= d < rank:
            raise TypeError(f"Invalid {name} set in {op} op; valid range is [0, {rank}); got: {d}.")
    if len(set(dims)) != len(dims):
        raise TypeError(f"{name} in {op} op must not repeat; got: {dims}.")


def _check_disjoint(op: str, first: tuple[str, Sequence[int]], second: tuple[str, Sequence[int]]) -> None:
    if set(first[1]) & set(second[1]):
        raise TypeError(f"{first[0]} and {second[0]} in {op} op must be disjoint; got: {first[1]} and {second[1]}.")


def _check_index_map(op: str, name: str, index_map: Sequence[int], x: ShapedArray, indices: ShapedArray) -> None:
    last = indices.ndim - 1
    if len(index_map) != indices.shape[last]:
        raise TypeError(
            f"{op.capitalize()} op has {len(index_map)} elements in {name} and the bound of dimension "
            f"index_vector_dim={last} of indices is {indices.shape[last]}. These two numbers must be equal."
        )
    for i, d in enumerate(index_map):
        if not 0 <= d < x.ndim:
            mapping = name if op == "gather" else f"{name} mapping"
            raise TypeError(f"Invalid {mapping}; domain is [0, {x.ndim}), got: {i}->{d}.")
    _check_dims(op, name, index_map, x.ndim, ordered=False)


def _check_batching(
    op: str, x: ShapedArray, indices: ShapedArray, dims: Sequence[int], index_dims: Sequence[int], index_name: str
) -> None:
    """Raise TypeError unless the batching dimensions of operand and indices correspond."""
    _check_dims(op, "operand_batching_dims", dims, x.ndim)
    _check_dims(op, index_name, index_dims, indices.ndim, ordered=False)
    if indices.ndim - 1 in index_dims:
        raise TypeError(
            f"{op.capitalize()} op cannot have the index vector dimension as a batching dimension; got {index_dims}."
        )
    if len(dims) != len(index_dims):
        raise TypeError(
            f"{op.capitalize()} op requires equal numbers of operand_batching_dims and {index_name}, got {dims} and "
            f"{index_dims}."
        )
    shapes = tuple(x.shape[d] for d in dims), tuple(indices.shape[d] for d in index_dims)
    if shapes[0] != shapes[1]:
        raise TypeError(
            f"{op.capitalize()} op requires operand batching dimensions and indices batching dimensions to have the "
            f"same shape, got {shapes[0]} and {shapes[1]}."
        )


def _check_indices(op: str, indices: ShapedArray) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError("indices must have an integer type")
    if indices.ndim < 1:
        name = {"gather": "Gather", "scatter": "Scatter"}[op]
        raise TypeError(
            f"{name} index leaf dimension must be within [0, rank(indices) + 1). rank(indices) is {indices.ndim} and "
            f"{op} index leaf dimension is {indices.ndim - 1}."
        )


def gather_aval(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **_params: Any,
) -> ShapedArray:
    """The aval of a gather; TypeError or ValueError where its operands do not fit its dimension numbers."""
    offset_dims, collapsed, index_map, batching, index_batching = dimension_numbers
    _check_indices("gather", indices)
    _check_offset_dims(offset_dims, len(offset_dims) + indices.ndim - 1)
    _check_index_map("gather", "start_index_map", index_map, x, indices)
    _check_dims("gather", "collapsed_slice_dims", collapsed, x.ndim)
    _check_batching("gather", x, indices, batching, index_batching, "start_indices_batching_dims")
    named = ("operand_batching_dims", batching)
    _check_disjoint("gather", ("collapsed_slice_dims", collapsed), named)
    _check_disjoint("gather", ("start_index_map", index_map), named)
    _check_slice_sizes(x, indices, slice_sizes, dimension_numbers)
    removed = (*collapsed, *batching)
    windows = iter([n for i, n in enumerate(slice_sizes) if i not in removed])
    batch = iter(indices.shape[:-1])
    shape = [next(windows if i in offset_dims else batch) for i in range(len(offset_dims) + indices.ndim - 1)]
    return ShapedArray(shape, x.dtype, x.weak_type)


def _check_offset_dims(offset_dims: Sequence[int], rank: int) -> None:
    if list(offset_dims) != sorted(offset_dims):
        raise TypeError(f"offset_dims in gather op must be sorted; got {offset_dims}")
    if len(set(offset_dims)) != len(offset_dims):
        raise TypeError(f"offset_dims in gather op must not repeat; got: {offset_dims}.")
    for i, d in enumerate(offset_dims):
        if not 0 <= d < rank:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {d}, but should have been in [0, {rank})"
            )


def _check_slice_sizes(x: ShapedArray, indices: ShapedArray, sizes: Shape, numbers: GatherDimensionNumbers) -> None:
    if x.ndim != len(sizes):
        raise TypeError(
            f"Gather op must have one slice size for every input dimension; got: len(slice_sizes)={len(sizes)}, "
            f"input_shape.rank={x.ndim}"
        )
    offset_dims, collapsed, _, batching, _ = numbers
    if len(sizes) != len(offset_dims) + len(collapsed) + len(batching):
        raise TypeError(
            f"All components of the offset index in a gather op must either be a offset dimension or explicitly "
            f"collapsed/batching; got len(slice_sizes)={len(sizes)}, output_slice_sizes={offset_dims}, "
            f"collapsed_slice_dims={collapsed}, operand_batching_dims={batching}."
        )
    for i, (n, d) in enumerate(zip(sizes, x.shape)):
        if indices.size and not 0 <= n <= d:
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within [0, {d} + 1), got {n}."
            )
    for i, d in enumerate(collapsed):
        if sizes[d] != 1:
            raise TypeError(
                f"Gather op can only collapse slice dims with bound 1, but bound is {sizes[d]} for index {d} at "
                f"position {i}."
            )
    for i, d in enumerate(batching):
        if sizes[d] > 1:
            raise TypeError(
                f"Gather op can only have operand batching dims with bound 0/1, but bound is {sizes[d]} for index {d} "
                f"at position {i}."
            )


def scatter_aval(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, *, dimension_numbers: Any, **_params: Any
) -> ShapedArray:
    """The aval of a scatter; TypeError or ValueError where its operands do not fit its dimension numbers."""
    windows, inserted, index_map, batching, index_batching = dimension_numbers
    _check_indices("scatter", indices)
    if x.dtype != updates.dtype:
        raise TypeError(
            f"lax.scatter requires arguments to have the same dtypes, got {x.dtype.name}, {updates.dtype.name}."
        )
    rank = indices.ndim - 1 + len(windows)
    if updates.ndim != rank:
        raise TypeError(f"Updates tensor must be of rank {rank}; got {updates.ndim}.")
    _check_dims("scatter", "update_window_dims", windows, updates.ndim)
    _check_dims("scatter", "inserted_window_dims", inserted, x.ndim)
    _check_batching("scatter", x, indices, batching, index_batching, "scatter_indices_batching_dims")
    named = ("operand_batching_dims", batching)
    _check_disjoint("scatter", ("inserted_window_dims", inserted), named)
    _check_disjoint("scatter", ("scatter_dims_to_operand_dims", index_map), named)
    size = len(windows) + len(inserted) + len(batching)
    if x.ndim != size:
        raise TypeError(f"Scatter op has window of size {size}; doesn't match operand of rank {x.ndim}.")
    _check_index_map("scatter", "scatter_dims_to_operand_dims", index_map, x, indices)
    _check_update_shape(x, indices, updates, dimension_numbers)
    return x


def _check_update_shape(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, numbers: ScatterDimensionNumbers
) -> None:
    removed = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    bounds = [d for i, d in enumerate(x.shape) if i not in removed]
    for bound, dim in zip(bounds, numbers.update_window_dims):
        if updates.shape[dim] > bound:
            raise TypeError(
                f"Bounds of the window dimensions of updates must not exceed the bounds of the corresponding "
                f"dimensions of operand. For dimension {dim}, updates bound is {updates.shape[dim]}, operand bound is "
                f"{bound}."
            )
    scatter_dims = [i for i in range(updates.ndim) if i not in numbers.update_window_dims]
    for dim, bound in zip(scatter_dims, indices.shape[:-1]):
        if updates.shape[dim] != bound:
            raise TypeError(
                f"Bounds of the scatter dimensions of updates must be the same as the bounds of the corresponding "
                f"dimensions of scatter indices. For scatter dimension {dim}, updates bound is {updates.shape[dim]}, "
                f"indices bound is {bound}."
            )
