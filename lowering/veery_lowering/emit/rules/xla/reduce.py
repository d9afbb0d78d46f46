"""Reductions over axes and windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, lookup, rule
from veery_lowering.emit.rules.elementwise import maximum, minimum
from veery_lowering.emit.rules.reduce import fold, highest, lowest
from veery_lowering.emit.rules.window import direction_of

Combine = Callable[[Value, Value], Value]
Pads = Sequence[tuple[int, int]]


@rule("argmax", target="xla")
def _argmax(ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: Any, **_: Any) -> Value:
    return _arg_extreme(x, axes, index_dtype, "GT", lowest)


@rule("argmin", target="xla")
def _argmin(ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: Any, **_: Any) -> Value:
    return _arg_extreme(x, axes, index_dtype, "LT", highest)


def _arg_extreme(
    x: Value, axes: Sequence[int], index_dtype: Any, direction: str, neutral: Callable[[np.dtype], Any]
) -> Value:
    """The lowest index of the extreme value, or of the first NaN, in one pass over values and indices."""
    (axis,) = axes
    if hlo.dtype_of(x) == np.bool_:
        x = hlo.convert(x, np.int8)
    dtype, index_dtype = hlo.dtype_of(x), np.dtype(index_dtype)
    index = hlo.iota(index_dtype, hlo.shape_of(x), axis)

    def body(a: Value, i: Value, b: Value, j: Value) -> list[Value]:
        ahead, same = hlo.compare(a, b, direction), hlo.compare(a, b, "EQ")
        if dtype.kind not in "iu":
            a_nan, b_nan = hlo.compare(a, a, "NE"), hlo.compare(b, b, "NE")
            same = hlo.or_(hlo.and_(a_nan, b_nan), same)
            ahead = hlo.or_(hlo.and_(a_nan, hlo.not_(b_nan)), ahead)
        first = hlo.or_(ahead, hlo.and_(same, hlo.compare(i, j, "LT")))
        return [hlo.select(first, a, b), hlo.select(first, i, j)]

    # That of no element is beyond all: an extreme that equals the neutral one has a lower index.
    nowhere = hlo.constant(np.array(np.iinfo(index_dtype).max, index_dtype))
    inits = [hlo.constant(neutral(dtype), dtype), nowhere]
    found: list[Value] = hlo.reduce([x, index], inits, (axis,), body)
    return found[1]


def _register(name: str, combine: Combine, neutral: Callable[[np.dtype], Any]) -> None:
    @rule(name, target="xla")
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
        (result,) = hlo.reduce_window(
            [hlo.convert(x, wide)],
            [hlo.constant(neutral(wide), wide)],
            window_dimensions,
            combine,
            window_strides=window_strides,
            base_dilations=base_dilation,
            window_dilations=window_dilation,
            padding=padding,
        )
        return hlo.convert(result, dtype)


_register("reduce_window_sum", hlo.add, lambda dtype: np.zeros((), dtype))
_register("reduce_window_max", hlo.maximum, lowest)
_register("reduce_window_min", hlo.minimum, highest)


@rule("reduce_window", target="xla")
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
    count = len(operands) // 2
    return hlo.reduce_window(
        operands[:count],
        operands[count:],
        window_dimensions,
        lambda *scalars: ctx.inline(jaxpr, *scalars),
        window_strides=window_strides,
        base_dilations=base_dilation,
        window_dilations=window_dilation,
        padding=padding,
    )


@rule("select_and_scatter_add", target="xla")
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
    """XLA would let a place of the padding win, which is zero there: the operand is padded by what never does."""
    direction = direction_of(select_prim)
    dtype = hlo.dtype_of(operand)
    shape = hlo.shape_of(operand)
    outside = hlo.constant((lowest if direction[0] == "G" else highest)(dtype), dtype)
    low, high = [a for a, _ in padding], [b for _, b in padding]
    padded = hlo.pad(operand, outside, low, high)
    result = hlo.select_and_scatter(
        padded,
        source,
        hlo.constant(np.zeros((), hlo.dtype_of(source))),
        lambda a, b: hlo.compare(a, b, direction),
        hlo.add,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        padding=[(0, 0)] * len(shape),
    )
    return hlo.slice(result, low, [a + n for a, n in zip(low, shape)])


def _cumulative(name: str, combine: Combine, neutral: Callable[[np.dtype], Any]) -> None:
    general_window = 32

    @rule(name, target="xla")
    def lower(ctx: Context, x: Value, *, axis: int, reverse: bool = False, **_: Any) -> Value:
        """Short axes as one window; longer ones by doubling steps, which XLA computes together."""
        shape = hlo.shape_of(x)
        if 0 in shape:
            return x
        dtype = hlo.dtype_of(x)
        wide = np.dtype(np.int8) if dtype == np.bool_ else dtype
        wide = np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 4 else wide
        y = hlo.convert(x, wide)
        init = hlo.constant(neutral(wide), wide)
        length = shape[axis]
        if length <= general_window and wide.kind != "c":
            window = [length if i == axis else 1 for i in range(len(shape))]
            side = (0, length - 1) if reverse else (length - 1, 0)
            pads = [side if i == axis else (0, 0) for i in range(len(shape))]
            y = hlo.reduce_window([y], [init], window, combine, padding=pads)[0]
        else:
            y = _scanned(y, axis, reverse, combine, init)
        return hlo.convert(y, dtype)


def _scanned(x: Value, axis: int, reverse: bool, combine: Combine, init: Value) -> Value:
    """A running fold in linear work: of pairs, recursively, and from those of the places between.

    Source: Blelloch, "Prefix sums and their applications" (1990).
    """
    shape = list(hlo.shape_of(x))
    length = shape[axis]
    if length == 1:
        return x
    if reverse:
        return hlo.reverse(_scanned(hlo.reverse(x, (axis,)), axis, False, combine, init), (axis,))
    half = math.ceil(length / 2)
    even, odd = (_strided(x, axis, start, length) for start in (0, 1))
    pairs = combine(_strided(x, axis, 0, 2 * (length // 2)), odd)
    ends = _scanned(pairs, axis, False, combine, init)  # of the places 1, 3, 5, ...
    inner = combine(_cut(ends, axis, 0, half - 1), _cut(even, axis, 1, half)) if half > 1 else None
    first = _cut(even, axis, 0, 1)
    starts = first if inner is None else hlo.concatenate([first, inner], axis)  # of the places 0, 2, 4, ...
    return _interleaved(starts, ends, axis, length)


def _strided(x: Value, axis: int, start: int, stop: int) -> Value:
    shape = hlo.shape_of(x)
    starts = [start if i == axis else 0 for i in range(len(shape))]
    limits = [stop if i == axis else n for i, n in enumerate(shape)]
    return hlo.slice(x, starts, limits, [2 if i == axis else 1 for i in range(len(shape))])


def _cut(x: Value, axis: int, start: int, stop: int) -> Value:
    shape = hlo.shape_of(x)
    starts = [start if i == axis else 0 for i in range(len(shape))]
    return hlo.slice(x, starts, [stop if i == axis else n for i, n in enumerate(shape)])


def _interleaved(even: Value, odd: Value, axis: int, length: int) -> Value:
    """Values at places 0, 2, 4, ... and 1, 3, 5, ... in one array."""
    rank = len(hlo.shape_of(even))
    zero = hlo.constant(np.zeros((), hlo.dtype_of(even)))

    def apart(x: Value, low: int) -> Value:
        high = length - low - (2 * hlo.shape_of(x)[axis] - 1)
        at: Callable[[int], list[int]] = lambda n: [n if i == axis else 0 for i in range(rank)]
        return hlo.pad(x, zero, at(low), at(high), at(1))

    place = hlo.iota(np.int32, tuple(length if i == axis else n for i, n in enumerate(hlo.shape_of(even))), axis)
    is_even = hlo.compare(hlo.and_(place, hlo.full_like(place, 1)), hlo.full_like(place, 0), "EQ")
    return hlo.select(is_even, apart(even, 0), apart(odd, 1))


_cumulative("cumsum", hlo.add, lambda dtype: np.zeros((), dtype))
_cumulative("cumprod", hlo.multiply, lambda dtype: np.ones((), dtype))
_cumulative("cummax", maximum, lowest)
_cumulative("cummin", minimum, highest)


@rule("reduce_max", target="xla")
def _reduce_max(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _reduce_extreme(ctx, x, axes, hlo.maximum, lowest)


@rule("reduce_min", target="xla")
def _reduce_min(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _reduce_extreme(ctx, x, axes, hlo.minimum, highest)


def _reduce_extreme(
    ctx: Context, x: Value, axes: Sequence[int], combine: Combine, neutral: Callable[[np.dtype], Any]
) -> Value:
    if hlo.dtype_of(x).kind == "c":
        general = lookup(ctx.primitive, "any")
        assert general is not None
        result: Value = general(ctx, x, axes=axes)
        return result
    return fold(x, axes, combine, neutral(hlo.dtype_of(x)))
