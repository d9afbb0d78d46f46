"""Running sums, products, extremes and logsumexps along an axis.

In blocks: a running fold within each block of 32, the same for the blocks' totals (recursively), and the two joined.
That is linear in the length; the running fold as one window of the axis' length would be quadratic. 10^6 float32:
0.8 ms on two cores, where doubling steps over the whole axis take 4.1 ms and NumPy 3.4 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.elementwise import maximum, minimum
from veery_lowering.emit.rules.reduce import highest, lowest
from veery_lowering.types import is_static

Combine = Callable[[Value, Value], Value]
Shape = Sequence[Any]

_BLOCK = 32


def _running(
    x: Value, shape: Shape, axis: int, reverse: bool, combine: Combine, neutral: Any, within: Callable[..., Value]
) -> Value:
    length = shape[axis]
    if length <= _BLOCK:
        return within(x, shape, axis, reverse, combine, neutral)
    blocks = -(-length // _BLOCK)
    padding = blocks * _BLOCK - length
    padded = _extend(x, axis, neutral, 0 if not reverse else padding, padding if not reverse else 0)
    resized: Callable[..., tuple[Any, ...]] = lambda *sizes: (*shape[:axis], *sizes, *shape[axis + 1 :])
    split = hlo.reshape(padded, resized(blocks, _BLOCK), resized(blocks * _BLOCK))
    inner = within(split, resized(blocks, _BLOCK), axis + 1, reverse, combine, neutral)
    edge = 0 if reverse else _BLOCK - 1
    last = _take(inner, resized(blocks, _BLOCK), axis + 1, edge, edge + 1)
    totals = hlo.reshape(last, resized(blocks), resized(blocks, 1))
    before = _running(totals, resized(blocks), axis, reverse, combine, neutral, within)
    before = _extend(before, axis, neutral, -1 if reverse else 1, 1 if reverse else -1)
    dims = [i for i in range(len(shape) + 1) if i != axis + 1]
    joined = combine(hlo.broadcast_in_dim(before, resized(blocks, _BLOCK), dims), inner)
    flat = hlo.reshape(joined, resized(blocks * _BLOCK), resized(blocks, _BLOCK))
    start = padding if reverse else 0
    return _take(flat, resized(blocks * _BLOCK), axis, start, start + length)


def _extend(x: Value, axis: int, value: Any, low: int, high: int) -> Value:
    """Pad (or, with negative widths, crop) one axis."""
    if low == high == 0:
        return x
    rank = len(hlo.shape_of(x))
    lows, highs = ([width if i == axis else 0 for i in range(rank)] for width in (low, high))
    return hlo.pad(x, hlo.constant(value, hlo.dtype_of(x)), lows, highs)


def _take(x: Value, shape: Shape, axis: int, start: int, limit: int) -> Value:
    if (start, limit) == (0, shape[axis]):
        return x
    starts = [start if i == axis else 0 for i in range(len(shape))]
    limits = [limit if i == axis else n for i, n in enumerate(shape)]
    return hlo.slice(x, starts, limits)


def _by_window(x: Value, shape: Shape, axis: int, reverse: bool, combine: Combine, neutral: Any) -> Value:
    """One window of the axis' length: fastest for few elements, quadratic."""
    window = [shape[axis] if i == axis else 1 for i in range(len(shape))]
    side = (0, shape[axis] - 1) if reverse else (shape[axis] - 1, 0)
    padding = [side if i == axis else (0, 0) for i in range(len(shape))]
    init = hlo.constant(neutral, hlo.dtype_of(x))
    return hlo.reduce_window([x], [init], window, combine, padding=padding)[0]


def _by_doubling(x: Value, shape: Shape, axis: int, reverse: bool, combine: Combine, neutral: Any) -> Value:
    """Joins with the result of 1, 2, 4, ... places before: for functions that no window operation has."""
    distance = 1
    while distance < shape[axis]:
        low, high = (-distance, distance) if reverse else (distance, -distance)
        x = combine(x, _extend(x, axis, neutral, low, high))
        distance *= 2
    return x


def _by_doubling_to(x: Value, shape: Shape, axis: int, reverse: bool, combine: Combine, neutral: Any) -> Value:
    """As _by_doubling, for a length that is known at run time."""
    length = hlo.scalar_of_size(shape[axis], np.int32)
    place = hlo.iota(np.int32, (shape[axis],), 0)
    spread: Callable[[Any], Any] = lambda number: hlo.broadcast_in_dim(number, (shape[axis],), ())

    def trip(distance: Value, y: Value) -> list[Value]:
        far = hlo.add(place, spread(distance)) if reverse else hlo.subtract(place, spread(distance))
        inside = hlo.compare(far, spread(length), "LT") if reverse else hlo.compare(far, hlo.full_like(far, 0), "GE")
        there = hlo.reshape(hlo.select(inside, far, place), (shape[axis], 1), (shape[axis],))
        others = hlo.take_rows(y, there, shape, axis)
        nothing = hlo.full(neutral, shape, hlo.dtype_of(y))
        others = hlo.select(hlo.broadcast_in_dim(inside, shape, (axis,)), others, nothing)
        return [hlo.add(distance, distance), combine(y, others)]

    more = lambda distance, y: hlo.compare(distance, length, "LT")
    return hlo.while_([hlo.constant(np.int32(1)), x], more, trip)[1]


def _register(name: str, combine: Combine, neutral: Callable[[np.dtype], Any], within: Callable[..., Value]) -> None:
    @rule(name, any_shape=True)
    def lower(ctx: Context, x: Value, *, axis: int, reverse: bool = False, **_: Any) -> Value:
        shape = ctx.avals_in[0].shape
        if 0 in shape:
            return x
        dtype = hlo.dtype_of(x)
        wide = _working_dtype(dtype)
        y = hlo.convert(x, wide) if wide != dtype else x
        if is_static(shape[axis]):
            # IREE has no windows of unsigned integers or dynamic shapes, and dies of complex ones.
            by = within if all(map(is_static, shape)) and wide.kind not in "uc" else _by_doubling
            y = _running(y, shape, axis, reverse, combine, neutral(wide), by)
        else:
            y = _by_doubling_to(y, shape, axis, reverse, combine, neutral(wide))
        return hlo.convert(y, dtype) if wide != dtype else y


def _working_dtype(dtype: np.dtype) -> np.dtype:
    """Half precision would lose digits with every term; bools go through bytes."""
    if dtype == np.bool_:
        return np.dtype(np.int8)
    return np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 4 else dtype


def _log_add_exp(a: Value, b: Value) -> Value:
    top = hlo.maximum(a, b)
    # inf - inf: where both are the same infinity it is the result.
    same = hlo.compare(a, b, "EQ")
    difference = hlo.negate(hlo.abs(hlo.subtract(a, b)))
    difference = hlo.select(same, hlo.full_like(a, 0), difference)
    return hlo.add(top, hlo.log_plus_one(hlo.exponential(difference)))


_register("cumsum", hlo.add, lambda dtype: np.zeros((), dtype), _by_window)
_register("cumprod", hlo.multiply, lambda dtype: np.ones((), dtype), _by_window)
_register("cummax", maximum, lowest, _by_window)
_register("cummin", minimum, highest, _by_window)
_register("cumlogsumexp", _log_add_exp, lowest, _by_doubling)
