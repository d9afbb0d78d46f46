"""Reductions over sliding windows and their transposes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.reduce import highest, lowest
from veery_lowering.errors import LoweringError
from veery_lowering.mlir import ir
from veery_lowering.types import is_static

Combine = Callable[[Value, Value], Value]
Pads = Sequence[tuple[int, int]]

MOST_OFFSETS = 4096


def _register(name: str, combine: Combine, neutral: Callable[[np.dtype], Any]) -> None:
    @rule(name, any_shape=True)
    def lower(
        ctx: Context,
        x: Value,
        *,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Pads,
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
        **_: Any,
    ) -> Value:
        dtype = hlo.dtype_of(x)
        wide = np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 4 else dtype
        if 0 in ctx.avals_out[0].shape:
            return hlo.full(0, ctx.avals_out[0].shape, dtype)
        init = hlo.constant(neutral(wide), wide)
        if 0 in ctx.avals_in[0].shape:
            return hlo.convert(hlo.full(neutral(wide), ctx.avals_out[0].shape, wide), dtype)
        dynamic = not all(map(is_static, ctx.avals_in[0].shape))
        window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
        x = hlo.convert(x, wide) if wide != dtype else x
        if dynamic:  # of which IREE has few windows
            elementwise = lambda left, right: [combine(*left, *right)]
            return hlo.convert(place_by_place([x], [init], ctx.avals_out[0].shape, elementwise, *window)[0], dtype)
        # IREE has no windows of unsigned integers, its compiler dies of some complex ones, and dilated ones are wrong
        # from SPIR-V. What windows of one element step over it does not compute, though something else may read it.
        unfit = dtype.kind in "uc" or math.prod(window_dimensions) == 1 or ctx.target == "vulkan"
        slides = _slides_along_rows(ctx.avals_in[0].shape, window_dimensions, window_strides)
        if unfit or (slides and ctx.target == "cpu" and not ctx.emitter.in_loop()):
            return hlo.convert(axis_by_axis(x, init, ctx.avals_out[0].shape, combine, *window), dtype)
        size = len(window_dimensions)
        dilations = zip(base_dilation or [1] * size, window_dilation or [1] * size)
        sizes = zip(ctx.avals_in[0].shape, window_dimensions, ctx.avals_out[0].shape)
        (result,) = hlo.reduce_window(
            [x],
            [init],
            window_dimensions,
            combine,
            window_strides=window_strides,
            base_dilations=base_dilation,
            window_dilations=window_dilation,
            padding=[up_to_the_window(*each) for each in zip(padding, sizes, dilations)],
        )
        return hlo.convert(result, dtype) if wide != dtype else result


def up_to_the_window(
    padding: tuple[int, int], sizes: tuple[Any, int, Any], dilations: tuple[int, int]
) -> tuple[int, int]:
    """The padding of an axis; where there is one window along it, nothing is left behind that.

    IREE 3.13 drops such an axis, and then takes all that is there for the window (`inferred input/output operand #1 has
    shape's dimension #0 to be 4, but found 3`).
    """
    (low, high), (size, width, windows) = padding, sizes
    if windows != 1 or not is_static(size):
        return low, high
    return low, (width - 1) * dilations[1] + 1 - ((size - 1) * dilations[0] + 1) - low


def place_by_place(
    operands: Sequence[Value],
    inits: Sequence[Value],
    out: Sequence[int],
    combine: Callable[[list[Value], list[Value]], list[Value]],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> list[Value]:
    """The reduction of arrays as an elementwise step for each place in the window."""
    padded = [_padded(x, init, padding, base_dilation) for x, init in zip(operands, inits)]
    dilation = window_dilation or [1] * len(window)
    total = [hlo.broadcast_in_dim(init, tuple(out), ()) for init in inits]
    for offset in _offsets(window):
        start = [o * d for o, d in zip(offset, dilation)]
        total = combine(total, [_strided(x, start, out, strides) for x in padded])
    return total


# Elements of a window that are read in one expression.
_MOST_AT_ONCE = 9


def _slides_along_rows(shape: Sequence[int], window: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether windows have several elements of a row, and are small or overlap.

    IREE reads these one by one: 100,000 sums of 5 take 273 us, and as slices 22, of 50 2940 and 61; the largest of 3x3
    of 316x316, at each place, 567 and 70.
    """
    axes = [axis for axis, n in enumerate(shape) if n > 1]
    if not axes or window[axes[-1]] == 1:
        return False
    return math.prod(window) <= _MOST_AT_ONCE or strides[axes[-1]] < window[axes[-1]]


def axis_by_axis(
    x: Value,
    init: Value,
    out: Sequence[int],
    combine: Combine,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> Value:
    """The reduction by an operation whose order does not matter, of slices of the whole array.

    Of wide windows the axes are reduced in turn, and along each one, windows of twice the width in each step: a sum of
    50 elements takes seven additions.
    """
    x = _padded(x, init, padding, base_dilation)
    shape, dilation = list(hlo.shape_of(x)), list(window_dilation or [1] * len(window))
    begin = hlo.broadcast_in_dim(init, tuple(out), ())
    if math.prod(window) <= _MOST_AT_ONCE:
        starts = ([o * d for o, d in zip(offset, dilation)] for offset in _offsets(window))
        return functools.reduce(combine, (_strided(x, start, out, strides) for start in starts), begin)
    for axis in sorted(range(len(shape)), key=lambda axis: out[axis] / shape[axis]):

        def part(value: Value, start: int, count: int, step: int = 1, axis: int = axis) -> Value:
            starts, counts = [0] * len(shape), list(hlo.shape_of(value))
            steps = [1] * len(shape)
            starts[axis], counts[axis], steps[axis] = start, count, step
            return _strided(value, starts, counts, steps)

        apart, step = dilation[axis], strides[axis]
        total, done, width, size = None, 0, 1, shape[axis]
        while True:  # x has windows of this width, the total those of what is done
            if window[axis] & width:
                own = part(x, done * apart, out[axis], step)
                total, done = own if total is None else combine(total, own), done + width
            if 2 * width > window[axis]:
                break
            size -= width * apart
            x, width = combine(part(x, 0, size), part(x, width * apart, size)), 2 * width
        x, shape[axis] = total, out[axis]
    return combine(begin, x)


_register("reduce_window_sum", hlo.add, lambda dtype: np.zeros((), dtype))
_register("reduce_window_max", hlo.maximum, lowest)
_register("reduce_window_min", hlo.minimum, highest)


@rule("reduce_window")
def _reduce_window(
    ctx: Context,
    *operands: Value,
    jaxpr: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
    **_: Any,
) -> list[Value]:
    """A general fold: one elementwise step for each place in the window (IREE has windows for +, *, max, min)."""
    count = len(operands) // 2
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    combine = lambda left, right: _elementwise(ctx, jaxpr, left, right)
    return place_by_place(operands[:count], operands[count:], ctx.avals_out[0].shape, combine, *window)


def _elementwise(ctx: Context, jaxpr: Any, left: list[Value], right: list[Value]) -> list[Value]:
    """A jaxpr on scalars applied to arrays: one map for each result (StableHLO's map has one)."""
    operands = [*left, *right]
    results = []
    for i, value in enumerate(left):

        def body(*scalars: Value, index: int = i) -> Value:
            return ctx.inline(jaxpr, *scalars)[index]

        results.append(hlo.map_(operands, body, ir.RankedTensorType(value.type)))
    return results


def _offsets(window: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if np.prod(window, dtype=np.int64) > MOST_OFFSETS:
        raise LoweringError(f"reduce_window: windows of more than {MOST_OFFSETS} elements are not supported here")
    return itertools.product(*map(range, window))


def _padded(x: Value, value: Value, padding: Pads, base: Sequence[int] | None = None) -> Value:
    low, high = [a for a, _ in padding], [b for _, b in padding]
    interior = [b - 1 for b in base] if base else [0] * len(low)
    return x if not any((*low, *high, *interior)) else hlo.pad(x, value, low, high, interior)


def _strided(x: Value, start: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> Value:
    """Elements start, start + stride, ... along each axis."""
    limits = [s + (n - 1) * step + 1 for s, n, step in zip(start, shape, strides)]
    return hlo.slice(x, start, limits, strides)


@rule("select_and_scatter_add", any_shape=True)
def _select_and_scatter_add(
    ctx: Context,
    source: Value,
    operand: Value,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    **_: Any,
) -> Value:
    """Add each source element to the element of its window that `select_prim` (ge or le) picks, the first of equals.

    IREE compiles `select_and_scatter` for disjoint windows only. So: one strided slice for each place in the window to
    find the place that wins; then each element looks at the windows that it lies in, for whether it is their winner.
    """
    out, shape = (aval.shape for aval in ctx.avals_in)
    if 0 in (*out, *shape):
        return hlo.full(0, shape, hlo.dtype_of(source))
    winner = _winners(operand, shape, out, select_prim, window_dimensions, window_strides, padding)
    extents = [n + low + high for n, (low, high) in zip(shape, padding)]
    blocks = [-(-extent // step) for extent, step in zip(extents, window_strides)]
    # Elements as (block, place in the block) for each axis; blocks are as long as the strides, and the windows that
    # an element lies in begin in its block or in the few before.
    wide = [size for block, step in zip(blocks, window_strides) for size in (block, step)]
    block_axes, place_axes = range(0, len(wide), 2), range(1, len(wide), 2)
    total = hlo.full(0, wide, hlo.dtype_of(source))
    zeros = total
    for back in itertools.product(*(range(-(-w // step)) for w, step in zip(window_dimensions, window_strides))):
        if any(b >= block for b, block in zip(back, blocks)):
            continue
        numbers = hlo.constant(_place_numbers(back, window_dimensions, window_strides))
        begun, value = (_begun_before(x, out, back, blocks, outside) for x, outside in ((winner, -1), (source, 0)))
        begun, value = (hlo.broadcast_in_dim(x, wide, block_axes) for x in (begun, value))
        won = hlo.compare(begun, hlo.broadcast_in_dim(numbers, wide, place_axes), "EQ")
        total = hlo.add(total, hlo.select(won, value, zeros))
    full = hlo.reshape(total, [block * step for block, step in zip(blocks, window_strides)], wide)
    return hlo.slice(full, [low for low, _ in padding], [low + n for n, (low, _) in zip(shape, padding)])


def _place_numbers(back: Sequence[int], window: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """For each place in a block, its number in the window that begins `back` blocks before; -2 outside of that."""
    offsets = np.indices(strides).reshape(len(strides), -1).T + np.multiply(back, strides)
    inside = (offsets < window).all(1)
    numbers = np.ravel_multi_index(tuple(np.minimum(offsets, np.subtract(window, 1)).T), tuple(window))
    return np.where(inside, numbers, -2).astype(np.int32).reshape(strides)


def _begun_before(x: Value, shape: Sequence[int], back: Sequence[int], blocks: Sequence[int], outside: int) -> Value:
    """For each block, the value of the window that begins `back` blocks before it."""
    kept = [min(n, block - b) for n, block, b in zip(shape, blocks, back)]
    x = hlo.slice(x, [0] * len(kept), kept)
    high = [block - b - n for n, block, b in zip(kept, blocks, back)]
    return _padded(x, hlo.constant(np.array(outside, hlo.dtype_of(x))), list(zip(back, high)))


def direction_of(select_prim: Any) -> str:
    """The comparison, in StableHLO's words, by which an element of a window is picked."""
    return str(getattr(select_prim, "name", select_prim)).upper()


def _winners(
    operand: Value,
    shape: Sequence[int],
    out: Sequence[int],
    select_prim: Any,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
) -> Value:
    """The number of the place within each window that is picked; padding never is."""
    direction = direction_of(select_prim)
    dtype = hlo.dtype_of(operand)
    padded = _padded(operand, hlo.constant(np.zeros((), dtype)), padding)
    inside = _padded(hlo.full(True, shape, np.bool_), hlo.constant(np.False_), padding)
    best = taken = winner = None
    for number, offset in enumerate(_offsets(window)):
        value, valid = (_strided(x, offset, out, strides) for x in (padded, inside))
        here = hlo.full(number, out, np.int32)
        if best is None or taken is None or winner is None:
            best, taken, winner = value, valid, here
            continue
        keep = hlo.or_(hlo.and_(taken, hlo.compare(best, value, direction)), hlo.not_(valid))
        best, winner = hlo.select(keep, best, value), hlo.select(keep, winner, here)
        taken = hlo.or_(taken, valid)
    assert winner is not None and taken is not None
    return hlo.select(taken, winner, hlo.full(-1, out, np.int32))


@rule("select_and_gather_add", any_shape=True)
def _select_and_gather_add(
    ctx: Context,
    tangents: Value,
    operand: Value,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    **_: Any,
) -> Value:
    """The tangent of the element of each window that is picked: the derivative of a windowed maximum."""
    out = ctx.avals_out[0].shape
    if 0 in (*out, *ctx.avals_in[1].shape):
        return hlo.full(0, out, hlo.dtype_of(tangents))
    winner = _winners(operand, ctx.avals_in[1].shape, out, select_prim, window_dimensions, window_strides, padding)
    dtype = hlo.dtype_of(tangents)
    padded = _padded(tangents, hlo.constant(np.zeros((), dtype)), padding)
    total = hlo.full(0, out, dtype)
    for number, offset in enumerate(_offsets(window_dimensions)):
        hit = hlo.compare(winner, hlo.full(number, out, np.int32), "EQ")
        total = hlo.select(hit, _strided(padded, offset, out, window_strides), total)
    return total
