"""gather and scatter with JAX's out-of-bounds modes; no index reaches memory outside of the operand.

IREE 3.13: a gather of whole rows does not clamp its indices, a scatter out of bounds writes out of bounds, a scatter of
partial windows or of no updates does not compile. So indices are always clamped here, updates that fall outside are
redirected, and windows are expanded to points.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.elementwise import maximum, minimum
from veery_lowering.emit.rules.reduce import highest, lowest
from veery_lowering.passes.stablehlo.drops import mark_dropping, redirect
from veery_lowering.types import is_static

MOST_ROWS = np.iinfo(np.int32).max  # of a scatter

Combine = Callable[[Value, Value], Value]
Shapes = tuple[Sequence[int], Sequence[int], Sequence[int]]  # of the operand, the updates, the batch of index vectors


def fills(mode: Any) -> bool:
    """Whether reading in a mode fills what is out of bounds; CLIP and PROMISE_IN_BOUNDS read the nearest window."""
    return _name_of(mode) == "fill_or_drop"


def drops(mode: Any) -> bool:
    """Whether writing in a mode drops what is out of bounds; only CLIP moves it inside."""
    return _name_of(mode) != "clip"


def _name_of(mode: Any) -> str:
    """The name of a mode, which programs read from StableHLO give in its place."""
    return str(getattr(mode, "name", mode)).lower()


@dataclass(frozen=True)
class Bounded:
    """Start indices that are in bounds, and (for FILL_OR_DROP) which of them were so already.

    indices: [..., K], clamped, int32 (int64 where the operand has an axis beyond it).
    valid: [...] bool, or None if nothing is masked.
    """

    indices: Value
    valid: Value | None


def bound(indices: Value, limits: Sequence[int], mask: bool) -> Bounded:
    """Clamp start indices to 0 <= index <= limit, one limit for each component of the last dimension."""
    dtype = hlo.dtype_of(indices)
    if dtype.itemsize < 4:
        indices, dtype = hlo.convert(indices, np.int32), np.dtype(np.int32)
    shape = hlo.shape_of(indices)
    upper = _upper(limits, shape, dtype)
    zero = hlo.full_like(indices, 0)
    valid = None
    if mask:
        each = hlo.and_(hlo.compare(indices, zero, "GE"), hlo.compare(indices, upper, "LE"))
        valid = _all_of_last(each, shape)
    clamped = hlo.minimum(hlo.maximum(indices, zero), upper)
    wide = max(filter(is_static, limits), default=0) > np.iinfo(np.int32).max
    return Bounded(hlo.convert(clamped, np.int64 if wide else np.int32), valid)


def _all_of_last(x: Value, shape: Sequence[Any]) -> Value:
    """Whether all is true along the last axis."""
    *batch, count = shape
    if not count:
        return hlo.full(True, batch, np.bool_)
    if not all(map(is_static, shape)):
        return hlo.reduce(x, hlo.constant(np.True_), (len(batch),), hlo.and_)
    parts = [hlo.slice(x, [*[0] * len(batch), k], [*batch, k + 1]) for k in range(count)]
    return functools.reduce(hlo.and_, [hlo.reshape(part, batch, (*batch, 1)) for part in parts])


def _upper(limits: Sequence[Any], shape: Sequence[Any], dtype: np.dtype) -> Value:
    """The limits as index vectors of a shape."""
    if all(map(is_static, (*limits, *shape))):
        top = np.iinfo(dtype).max
        each = hlo.constant(np.array([min(max(n, 0), top) for n in limits], dtype))
        return hlo.broadcast_in_dim(each, shape, (len(shape) - 1,))
    parts = [hlo.broadcast_in_dim(hlo.scalar_of_size(n, dtype), (*shape[:-1], 1), ()) for n in limits]
    return parts[0] if len(parts) == 1 else hlo.concatenate(parts, len(shape) - 1)


@rule("gather", any_shape=True)
def _gather(
    ctx: Context,
    operand: Value,
    indices: Value,
    *,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    mode: Any,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    **_: Any,
) -> Value:
    numbers, shape = dimension_numbers, ctx.avals_in[0].shape
    out = tuple(ctx.avals_out[0].shape)
    fill = _fill_value(hlo.dtype_of(operand), fill_value) if fills(mode) else 0
    limits = [shape[axis] - slice_sizes[axis] for axis in numbers.start_index_map]
    if 0 in out or any(n < 0 for n in limits):
        return hlo.full(fill, out, hlo.dtype_of(operand))
    bounded = bound(indices, limits, fills(mode))
    if len(hlo.shape_of(indices)) == 1:
        window = _one_slice(operand, bounded.indices, numbers.start_index_map, slice_sizes)
        result = hlo.reshape(window, out, slice_sizes)
    else:
        result = hlo.gather(
            operand,
            bounded.indices,
            offset_dims=numbers.offset_dims,
            collapsed_slice_dims=numbers.collapsed_slice_dims,
            start_index_map=numbers.start_index_map,
            operand_batching_dims=getattr(numbers, "operand_batching_dims", ()),
            start_indices_batching_dims=getattr(numbers, "start_indices_batching_dims", ()),
            index_vector_dim=len(hlo.shape_of(indices)) - 1,
            slice_sizes=slice_sizes,
            indices_are_sorted=indices_are_sorted,
            shape=out,
        )
    if bounded.valid is None:
        return result
    batch_dims = [axis for axis in range(len(out)) if axis not in numbers.offset_dims]
    valid = hlo.broadcast_in_dim(bounded.valid, out, batch_dims)
    return hlo.select(valid, result, hlo.full(fill, out, hlo.dtype_of(operand)))


def _fill_value(dtype: np.dtype, given: Any) -> Any:
    """What JAX fills with: NaN, the least signed integer, the greatest unsigned one, True."""
    if given is not None:
        return given
    if dtype == np.bool_:
        return True
    if dtype.kind == "u":
        return highest(dtype)
    return lowest(dtype) if dtype.kind == "i" or dtype.name in ("int2", "int4") else np.nan


def _one_slice(operand: Value, index: Value, axes: Sequence[int], sizes: Sequence[int]) -> Value:
    """The slice at one index vector: a dynamic slice is a plain copy, a gather a loop over elements."""
    return hlo.dynamic_slice(operand, _starts(index, axes, len(sizes)), sizes)


def _starts(index: Value, axes: Sequence[int], rank: int) -> list[Value]:
    """The components of an index vector [K] as the starts of all axes."""
    zero = hlo.constant(np.zeros((), hlo.dtype_of(index)))
    components = {axis: hlo.reshape(hlo.slice(index, (k,), (k + 1,)), ()) for k, axis in enumerate(axes)}
    return [components.get(axis, zero) for axis in range(rank)]


@dataclass(frozen=True)
class Combiner:
    """How scatter joins an update with what is there.

    join: (old, update) to new. neutral: for a dtype, the update that changes nothing, or None where there is none.
    """

    join: Combine
    neutral: Callable[[np.dtype], Any] | None


def _scatter_add(a: Value, b: Value) -> Value:
    # `add` on i1 is an exclusive or.
    return hlo.or_(a, b) if hlo.dtype_of(a) == np.bool_ else hlo.add(a, b)


def _scatter_mul(a: Value, b: Value) -> Value:
    return hlo.and_(a, b) if hlo.dtype_of(a) == np.bool_ else hlo.multiply(a, b)


def _minus_zero(dtype: np.dtype) -> Any:
    # 0.0 + -0.0 is 0.0, and -0.0 + -0.0 stays -0.0.
    if dtype.kind == "c":
        return dtype.type(complex(-0.0, -0.0))
    return 0 if dtype.kind in "biu" else -0.0


_COMBINERS = {
    "scatter": Combiner(lambda old, new: new, None),
    "scatter_add": Combiner(_scatter_add, _minus_zero),
    "scatter_sub": Combiner(hlo.subtract, lambda dtype: 0),
    "scatter_mul": Combiner(_scatter_mul, lambda dtype: 1),
    "scatter_min": Combiner(minimum, highest),
    "scatter_max": Combiner(maximum, lowest),
}


def _register(name: str, combiner: Combiner) -> None:
    @rule(name, any_shape=True)
    def lower(
        ctx: Context,
        operand: Value,
        indices: Value,
        updates: Value,
        *,
        dimension_numbers: Any,
        mode: Any,
        unique_indices: bool = False,
        **_: Any,
    ) -> Value:
        shapes = ctx.avals_in[0].shape, ctx.avals_in[2].shape, ctx.avals_in[1].shape[:-1]
        asked = drops(mode), unique_indices, ctx.target == "cpu"
        return _scatter(operand, indices, updates, shapes, combiner, dimension_numbers, *asked)


for _name, _combiner in _COMBINERS.items():
    _register(_name, _combiner)


def _scatter(
    operand: Value,
    indices: Value,
    updates: Value,
    shapes: Shapes,
    combiner: Combiner,
    numbers: Any,
    drop: bool,
    unique: bool,
    marks: bool,
) -> Value:
    shape, update_shape, _ = shapes
    if 0 in update_shape:
        return operand
    window = window_sizes(shape, update_shape, numbers)
    limits = [shape[axis] - window[axis] for axis in numbers.scatter_dims_to_operand_dims]
    if any(n < 0 for n in limits):
        return operand  # no window fits
    bounded = bound(indices, limits, drop)
    if len(hlo.shape_of(indices)) == 1:
        return _update_one(operand, updates, update_shape, bounded, combiner, numbers, window, shape)
    return _Points(operand, updates, shapes, bounded, numbers, window).scatter(combiner, unique, marks)


def window_sizes(shape: Sequence[int], update_shape: Sequence[int], numbers: Any) -> list[int]:
    """The size of the update window along each axis of the operand."""
    absent = {*numbers.inserted_window_dims, *getattr(numbers, "operand_batching_dims", ())}
    sizes = iter([update_shape[axis] for axis in numbers.update_window_dims])
    return [1 if axis in absent else next(sizes) for axis in range(len(shape))]


def _update_one(
    operand: Value,
    updates: Value,
    update_shape: Sequence[int],
    bounded: Bounded,
    combiner: Combiner,
    numbers: Any,
    window: Sequence[int],
    shape: Sequence[int],
) -> Value:
    """One window: read it, combine, write it back; an update that falls outside writes back what was read."""
    starts = _starts(bounded.indices, numbers.scatter_dims_to_operand_dims, len(window))
    update = hlo.reshape(updates, tuple(window), update_shape)
    if combiner.neutral is not None or bounded.valid is not None:
        old = hlo.dynamic_slice(operand, starts, window)
        update = combiner.join(old, update)
        if bounded.valid is not None:
            update = hlo.select(hlo.broadcast_in_dim(bounded.valid, tuple(window), ()), update, old)
    if tuple(window) == tuple(shape):
        return update
    return hlo.dynamic_update_slice(operand, update, starts)


class _Points:
    """A scatter as one of rows [P, R] into [N, R]: N runs over the axes that indices or partial windows address.

    operand, updates, shapes, bounded, numbers, window: as in `_scatter`.
    """

    def __init__(
        self, operand: Value, updates: Value, shapes: Shapes, bounded: Bounded, numbers: Any, window: Sequence[int]
    ):
        self.operand, self.updates, self.numbers, self.window = operand, updates, numbers, window
        self.bounded = bounded
        self.shape, self.update_shape, self.batch = shapes
        # An axis that each window covers wholly is part of the row, the others are addressed.
        rank = len(self.shape)
        self.batching = tuple(getattr(numbers, "operand_batching_dims", ()))
        self.addressed = [i for i in range(rank) if i in self.batching or window[i] != self.shape[i]]
        self.row_axes = [i for i in range(rank) if i not in self.addressed]
        self.count = math.prod(self.shape[i] for i in self.addressed)
        self.row = math.prod(self.shape[i] for i in self.row_axes)
        self.is_wide = is_static(self.count) and self.count > MOST_ROWS
        self.index_dtype = np.dtype(np.int64 if self.is_wide else np.int32)

    def scatter(self, combiner: Combiner, unique: bool, marks: bool) -> Value:
        """The operand with the updates joined in; `marks` where `redirect_dropped` follows."""
        order = [*self.addressed, *self.row_axes]
        moved = hlo.transpose(self.operand, order)
        moved_shape = [self.shape[i] for i in order]
        rows = hlo.reshape(moved, (self.count, self.row), moved_shape)
        if self.count == 1:
            # The compiler dies of a scatter into one row (SIGSEGV).
            rows = hlo.concatenate([rows, hlo.full_like(rows, 0)], 0)
        given = self._points(), self._update_rows(), self._valid()
        if self.is_wide:
            result = self._in_parts(rows, *given, combiner, marks)
        else:
            result = self._joined(rows, *given, combiner, unique, marks)
        if self.count == 1:
            result = hlo.slice(result, (0, 0), (1, self.row))
        back = hlo.reshape(result, moved_shape, (self.count, self.row))
        return hlo.transpose(back, list(np.argsort(order)))

    def _in_parts(
        self, rows: Value, points: Value, updates: Value, valid: Value | None, combiner: Combiner, marks: bool
    ) -> Value:
        """The rows with the updates joined in, of which there are more than IREE 3.13 has numbers for.

        It takes the numbers of rows as int32, whatever they are given as, and writes to memory of others.
        """
        parts = []
        for start in range(0, self.count, MOST_ROWS):
            stop = min(start + MOST_ROWS, self.count)
            first = hlo.full_like(points, start)
            here = hlo.and_(hlo.compare(points, first, "GE"), hlo.compare(points, hlo.full_like(points, stop), "LT"))
            numbers = hlo.convert(hlo.subtract(hlo.select(here, points, first), first), np.int32)
            part = hlo.slice(rows, (start, 0), (stop, self.row))
            here = here if valid is None else hlo.and_(here, valid)
            parts.append(self._joined(part, numbers, updates, here, combiner, False, marks))
        return hlo.concatenate(parts, 0)

    def _joined(
        self,
        rows: Value,
        points: Value,
        updates: Value,
        valid: Value | None,
        combiner: Combiner,
        unique: bool,
        marks: bool,
    ) -> Value:
        """Rows with the updates joined in that are valid."""
        total = math.prod(self._grid())
        marked = False
        if valid is not None:
            if combiner.neutral is not None:
                dtype, wide = hlo.dtype_of(updates), hlo.broadcast_in_dim(valid, (total, self.row), (0,))
                updates = hlo.select(wide, updates, hlo.full(combiner.neutral(dtype), (total, self.row), dtype))
            elif marks and is_static(total):
                points, marked = hlo.select(valid, points, hlo.full_like(points, -1)), True
            else:
                points, updates = redirect(rows, points, updates, valid)
        points = hlo.reshape(points, (total, 1), (total,))
        # Fused into the scatter, whose updates are taken in order, their computation goes through the stack: more than
        # 32 KB of it do not compile.
        points, updates = hlo.optimization_barrier([points, updates])
        (result,) = hlo.scatter(
            [rows],
            points,
            [updates],
            combiner.join,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            unique_indices=unique and valid is None,
        )
        if marked:
            mark_dropping(result.owner)
        return result

    def _grid(self) -> tuple[int, ...]:
        """The shape over which points run: the index batch, then the addressed axes of the window."""
        return (*self.batch, *(self.window[i] for i in self.addressed if i not in self.batching))

    def _points(self) -> Value:
        """The row number of each point, [P]."""
        grid, strides = self._grid(), self._strides()
        total = hlo.full(0, grid, self.index_dtype)

        def add(term: Value, dims: Sequence[int], stride: int) -> None:
            nonlocal total
            wide = hlo.broadcast_in_dim(hlo.convert(term, self.index_dtype), grid, dims)
            total = hlo.add(total, hlo.multiply(wide, self._filled(stride, grid)))

        batch_dims = range(len(self.batch))
        for k, axis in enumerate(self.numbers.scatter_dims_to_operand_dims):
            if axis in strides:
                rank = len(self.batch)
                component = hlo.slice(self.bounded.indices, [*[0] * rank, k], [*self.batch, k + 1])
                add(hlo.reshape(component, self.batch, (*self.batch, 1)), batch_dims, strides[axis])
        for axis, dim in zip(self.batching, getattr(self.numbers, "scatter_indices_batching_dims", ())):
            add(hlo.iota(self.index_dtype, (self.shape[axis],), 0), [dim], strides[axis])
        for position, axis in enumerate(i for i in self.addressed if i not in self.batching):
            if self.window[axis] != 1:
                step = hlo.iota(self.index_dtype, (self.window[axis],), 0)
                add(step, [len(self.batch) + position], strides[axis])
        return hlo.reshape(total, (math.prod(grid),), grid)

    def _filled(self, value: Any, shape: Sequence[int]) -> Value:
        """A size in all places of a shape."""
        if is_static(value):
            return hlo.full(value, shape, self.index_dtype)
        return hlo.broadcast_in_dim(hlo.scalar_of_size(value, self.index_dtype), shape, ())

    def _strides(self) -> dict[int, int]:
        strides, stride = {}, 1
        for axis in reversed(self.addressed):
            strides[axis] = stride
            stride *= self.shape[axis]
        return strides

    def _update_rows(self) -> Value:
        """The updates as [P, R]."""
        window_dims = tuple(self.numbers.update_window_dims)
        rank = len(self.update_shape)
        batch_dims = [i for i in range(rank) if i not in window_dims]
        absent = {*self.numbers.inserted_window_dims, *self.batching}
        present = [axis for axis in range(len(self.shape)) if axis not in absent]
        place = dict(zip(present, window_dims))
        order = [place[axis] for axis in (*self.addressed, *self.row_axes) if axis in place]
        axes = [*batch_dims, *order]
        updates = hlo.transpose(self.updates, axes)
        return hlo.reshape(updates, (math.prod(self._grid()), self.row), [self.update_shape[i] for i in axes])

    def _valid(self) -> Value | None:
        """Whether each point's window is in bounds, [P]."""
        if self.bounded.valid is None:
            return None
        grid = self._grid()
        spread = hlo.broadcast_in_dim(self.bounded.valid, grid, range(len(self.batch)))
        return hlo.reshape(spread, (math.prod(grid),), grid)
