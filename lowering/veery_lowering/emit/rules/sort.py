"""Sorting and top_k.

IREE's own sort is not used: it is quadratic (10^4 float32: 0.1 s), unstable, in place, and does not compile when it is
fused with what makes its operands. NumPy sorts (10^4: 0.02 ms and 3 to 5 us for the call); in programs that must do
without the host, and in those for many shapes, a bitonic network with the position as the last key, so that it is
stable. On an H200 that took 12 ms for 10^6 numbers, since each of its trips is a dispatch and a condition that the host
reads. Few elements are counted instead: each goes to the place whose number is how many precede it; for CUDA they may
be more, whose threads all count. A few of the largest are looked for one after the other: 30 steps of a beam search
among 250 numbers take 46 us, with calls of the host 1900.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import BY_IREE, Context, Value, rule
from veery_lowering.host import HostSort, HostTopK
from veery_lowering.types import is_static

# Comparisons of a sort by counting at most: as many take a core a few us, as a call of the host does. In a loop, which
# such a call would keep from being a kernel, they may be more.
_MOST_COMPARISONS, _MOST_IN_LOOPS = 1 << 14, 1 << 15
_MOST_SEARCHED = 16  # largest elements that are looked for one after the other: each is text
_MOST_FOR_CUDA = 1 << 30  # whose threads compare as many in the time that a call of the host takes, 0.2 ms
# Of other types a loop is no kernel anyway.
_OF_KERNELS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()
)


@rule("sort", any_shape=True)
def _sort(ctx: Context, *operands: Value, dimension: int, num_keys: int = 1, **_: Any) -> list[Value]:
    return ordered(list(operands), ctx.avals_in[0].shape, dimension, _Order(num_keys))


def _sort_by_host(ctx: Context, *operands: Value, dimension: int, num_keys: int = 1, **_: Any) -> list[Value]:
    shape = ctx.avals_in[0].shape
    if shape[dimension] in (0, 1) or 0 in shape:
        return list(operands)
    if not all(map(is_static, shape)):  # the host is called with arrays of known shapes
        return ordered(list(operands), shape, dimension, _Order(num_keys))
    if _is_counted(ctx, dimension):
        return _counted(operands, list(map(_key, operands[:num_keys])), shape, dimension)
    return ctx.host_call(HostSort(dimension, num_keys), operands, ctx.avals_out)


@rule("top_k", any_shape=True)
def _top_k(ctx: Context, x: Value, *, k: int, axis: int = -1, **_: Any) -> list[Value]:
    return _top_k_without_host(ctx, x, k, axis)


def _top_k_by_host(ctx: Context, x: Value, *, k: int, axis: int = -1, **_: Any) -> list[Value]:
    shape = ctx.avals_in[0].shape
    if 0 in ctx.avals_out[0].shape:
        return [hlo.full(0, aval.shape, aval.dtype) for aval in ctx.avals_out]
    if axis % len(shape) != len(shape) - 1 or not all(map(is_static, shape)):
        return _top_k_without_host(ctx, x, k, axis)
    if _is_searched(ctx, k):
        return _searched(x, shape, k, ctx.avals_out[1].dtype)
    if _is_counted(ctx, axis):
        index = hlo.iota(ctx.avals_out[1].dtype, shape, axis % len(shape))
        # The complement of an integer counts down.
        key = hlo.not_(ranks(x) if hlo.dtype_of(x).kind not in "biu" else x)
        found = _counted([x, index], [key], shape, axis % len(shape))
        limits = [*shape[:-1], k]
        return [hlo.slice(y, [0] * len(shape), limits) for y in found]
    return ctx.host_call(HostTopK(k, np.dtype(ctx.avals_out[1].dtype).name), [x], ctx.avals_out)


for _target in BY_IREE:
    rule("sort", target=_target, any_shape=True)(_sort_by_host)
    rule("top_k", target=_target, any_shape=True)(_top_k_by_host)


def _top_k_without_host(ctx: Context, x: Value, k: int, axis: int) -> list[Value]:
    shape = ctx.avals_in[0].shape
    axis %= len(shape)
    index = hlo.iota(ctx.avals_out[1].dtype, shape, axis)
    floating = hlo.dtype_of(x).kind not in "biu"
    found = ordered([ranks(x) if floating else x, index], shape, axis, _Order(1, descending=True))
    limits = [k if i == axis else n for i, n in enumerate(shape)]
    values, indices = (hlo.slice(y, [0] * len(shape), limits) for y in found)
    return [of_ranks(values, hlo.dtype_of(x)) if floating else values, indices]


def _is_counted(ctx: Context, axis: int) -> bool:
    """Whether a sort is of so few elements that each of them is compared with each."""
    shape, dtypes = ctx.avals_in[0].shape, [np.dtype(aval.dtype) for aval in ctx.avals_in]
    if ctx.target == "cuda":
        most = _MOST_FOR_CUDA
    else:
        most = _MOST_IN_LOOPS if ctx.emitter.in_loop() else _MOST_COMPARISONS if ctx.emitter.kernels else 0
    return math.prod(shape) * shape[axis] <= most and all(dtype.name in _OF_KERNELS for dtype in dtypes)


def _is_searched(ctx: Context, k: int) -> bool:
    """Whether few of the largest are wanted, of few elements: they are looked for one after the other."""
    (x,) = ctx.avals_in
    most = _MOST_IN_LOOPS if ctx.emitter.in_loop() else _MOST_COMPARISONS if ctx.emitter.kernels else 0
    fits = ctx.target == "cpu" and np.dtype(x.dtype).name in _OF_KERNELS and np.dtype(x.dtype).itemsize <= 4
    return fits and k <= _MOST_SEARCHED and k * math.prod(x.shape) <= most


def _searched(x: Value, shape: Sequence[int], k: int, index: np.dtype) -> list[Value]:
    """The k largest of each row, by numbers that have the place in a row, counted from its end, in their lower half."""
    dtype, wide = hlo.dtype_of(x), np.dtype("int64")
    flat, lowest = (math.prod(shape[:-1]), shape[-1]), np.iinfo(wide).min
    keys = hlo.convert(hlo.reshape(x if dtype.kind in "biu" else ranks(x), flat), wide)
    least = np.iinfo(np.int32).min if dtype.kind == "u" else 0  # the upper half has a sign
    keys = hlo.shift_left(hlo.add(keys, hlo.full_like(keys, least)), hlo.full_like(keys, 32))
    places = hlo.broadcast_in_dim(hlo.constant(np.arange(flat[1], dtype=wide)[::-1]), flat, (1,))
    rest = keys = hlo.add(keys, places)
    found: list[Value] = []
    for _ in range(k):
        if found:
            is_left = hlo.compare(keys, hlo.broadcast_in_dim(found[-1], flat, (0,)), "LT")
            rest = hlo.select(is_left, keys, hlo.full_like(keys, lowest))
        found.append(hlo.reduce(rest, hlo.constant(np.array(lowest, wide)), (1,), hlo.maximum))
    best = hlo.concatenate([hlo.reshape(y, (flat[0], 1)) for y in found], 1)
    value = hlo.shift_right_arithmetic(best, hlo.full_like(best, 32))
    value = hlo.subtract(value, hlo.full_like(value, least))
    value = hlo.convert(value, dtype) if dtype.kind in "biu" else of_ranks(hlo.convert(value, np.dtype("int32")), dtype)
    from_end = hlo.and_(best, hlo.full_like(best, 2**32 - 1))
    place = hlo.subtract(hlo.full_like(best, flat[1] - 1), from_end)
    return [hlo.reshape(y, (*shape[:-1], k)) for y in (value, hlo.convert(place, np.dtype(index)))]


def _key(x: Value) -> Value:
    """What orders like x by its integers: zeros equal, NaN last."""
    if hlo.dtype_of(x).kind in "biu":
        return x
    return ranks(hlo.select(hlo.compare(x, hlo.full_like(x, 0), "EQ"), hlo.full_like(x, 0), x))


def _counted(operands: Sequence[Value], keys: Sequence[Value], shape: Sequence[int], axis: int) -> list[Value]:
    """Sort, stably, by keys that are not floats: an element goes to the place whose number is how many precede it."""
    to_back = [*(i for i in range(len(shape)) if i != axis), axis]
    moved, length = [shape[i] for i in to_back], shape[axis]
    flat = (math.prod(moved[:-1]), length)
    each = (flat[0], length, length)  # rows, the elements that may precede, those that they precede
    rows, columns = ([hlo.reshape(hlo.transpose(x, to_back), flat) for x in xs] for xs in (operands, keys))
    place = hlo.iota(np.int32, (length,), 0)
    spread: Callable[[Value, int], Value] = lambda x, axis: hlo.broadcast_in_dim(x, (length, length), (axis,))
    precedes = hlo.broadcast_in_dim(hlo.compare(spread(place, 0), spread(place, 1), "LT"), each, (1, 2))
    for x in reversed(columns):
        other, own = (hlo.broadcast_in_dim(x, each, (0, axis)) for axis in (1, 2))
        less, equal = hlo.compare(other, own, "LT"), hlo.compare(other, own, "EQ")
        precedes = hlo.or_(less, hlo.and_(equal, precedes))
    place = hlo.reduce(hlo.convert(precedes, np.int32), hlo.constant(np.int32(0)), (1,), hlo.add)
    if flat[0] > 1:
        first = hlo.constant(np.arange(0, flat[0] * length, length, dtype=np.int32))
        place = hlo.add(place, hlo.broadcast_in_dim(first, flat, (0,)))
    # Of numbers alone: IREE cannot compile scatters of all types.
    count = flat[0] * length
    index, numbers = hlo.optimization_barrier([hlo.reshape(place, (count, 1), flat), hlo.iota(np.int32, (count, 1), 0)])
    (taken,) = hlo.scatter(
        [hlo.full(0, (count, 1), np.int32)], index, [numbers], lambda old, new: [new],
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
        unique_indices=True,
    )  # fmt: skip
    found = [hlo.take_rows(hlo.reshape(x, (count,), flat), taken, (count,)) for x in rows]
    back = [int(i) for i in np.argsort(to_back)]
    return [hlo.transpose(hlo.reshape(x, moved, (count,)), back) for x in found]


def ranks(x: Value) -> Value:
    """Integers that order like floating-point numbers: -0.0 before 0.0, NaN last."""
    wide = x if hlo.dtype_of(x).itemsize >= 4 else hlo.convert(x, np.dtype("float32"))
    bits = hlo.bitcast_convert(wide, np.dtype(f"int{8 * hlo.dtype_of(wide).itemsize}"))
    most = hlo.full_like(bits, np.iinfo(hlo.dtype_of(bits)).max)
    return hlo.select(hlo.compare(wide, wide, "NE"), most, _mirrored(bits))


def of_ranks(ranks: Value, dtype: np.dtype) -> Value:
    """The numbers of `ranks`."""
    wide = hlo.bitcast_convert(_mirrored(ranks), np.dtype(f"float{8 * hlo.dtype_of(ranks).itemsize}"))
    return hlo.convert(wide, dtype)


def _mirrored(bits: Value) -> Value:
    """Negative numbers are sign and magnitude as floats, and count down as integers: from one to the other."""
    most = hlo.full_like(bits, np.iinfo(hlo.dtype_of(bits)).max)
    return hlo.select(hlo.compare(bits, hlo.full_like(bits, 0), "LT"), hlo.xor(bits, most), bits)


def ordered(operands: list[Value], shape: Sequence[Any], axis: int, order: Order) -> list[Value]:
    """Sort without the host: log2(n) * (log2(n) + 1) / 2 exchanges of whole arrays, in one loop, which compiles fast.

    The bitonic network in which all exchanges put the lesser element first: in each trip element i meets element
    i xor mask, and keeps its own where that is beyond the end. So the length need be no power of two, nor known.
    """
    if shape[axis] in (0, 1) or 0 in shape:
        return operands
    # The sorted axis goes first: what meets is whole rows.
    to_front = [axis, *(i for i in range(len(shape)) if i != axis)]
    moved = [shape[i] for i in to_front]
    flat = (moved[0], math.prod(moved[1:]))
    columns = [hlo.reshape(hlo.transpose(x, to_front), flat, moved) for x in operands]
    columns.append(hlo.iota(np.int32, flat, 0))
    count, masks = _network(moved[0])

    def trip(k: Value, *current: Value) -> list[Value]:
        mask = hlo.reshape(hlo.dynamic_slice(masks, [k], (1,)), ())
        return [hlo.add(k, hlo.constant(np.int32(1))), *_exchange(current, flat, mask, order)]

    columns = hlo.while_([hlo.constant(np.int32(0)), *columns], lambda k, *_: hlo.compare(k, count, "LT"), trip)[1:]
    back = [int(i) for i in np.argsort(to_front)]
    return [hlo.transpose(hlo.reshape(x, moved, flat), back) for x in columns[:-1]]


def _network(length: Any) -> tuple[Value, Value]:
    """The number of trips, and the mask of each (of more than these, where the length is known at run time)."""
    levels = (length - 1).bit_length() if is_static(length) else 31
    # Blocks of 2, 4, 8... elements: sorted halves meet in reverse order, then halves of halves side by side.
    masks = [m for level in range(1, levels + 1) for m in (2**level - 1, *(2**i for i in reversed(range(level - 1))))]
    table = hlo.constant(np.array(masks, np.int32))
    if is_static(length):
        return hlo.constant(np.int32(len(masks))), table
    halves = hlo.constant(2 ** np.arange(levels, dtype=np.int32))  # level i is needed for more than 2**(i - 1) elements
    needed = hlo.compare(hlo.broadcast_in_dim(hlo.scalar_of_size(length, np.int32), (levels,), ()), halves, "GT")
    trips = hlo.select(needed, hlo.constant(np.arange(1, levels + 1, dtype=np.int32)), hlo.full_like(halves, 0))
    return hlo.reduce(trips, hlo.constant(np.int32(0)), (0,), hlo.add), table


def _exchange(columns: Sequence[Value], shape: tuple[Any, Any], mask: Value, order: Order) -> list[Value]:
    """Each element takes itself or the one that it meets: the first of the two the lesser."""
    length = shape[:1]
    place = hlo.iota(np.int32, length, 0)
    met = hlo.xor(place, hlo.broadcast_in_dim(mask, length, ()))
    absent = hlo.compare(met, hlo.broadcast_in_dim(hlo.scalar_of_size(shape[0], np.int32), length, ()), "GE")
    met = hlo.select(absent, place, met)
    others = [hlo.take_rows(x, hlo.reshape(met, (*length, 1), length), shape) for x in columns]
    first = hlo.broadcast_in_dim(hlo.compare(place, met, "LE"), shape, (0,))
    # One that meets itself neither precedes itself nor, as the first of the two, would take the other.
    keep = hlo.compare(order.precedes(others, columns), first, "NE")
    return [hlo.select(keep, mine, other) for mine, other in zip(columns, others)]


class Order(Protocol):
    """A strict total order of rows."""

    def precedes(self, left: Sequence[Value], right: Sequence[Value]) -> Value: ...


@dataclass(frozen=True)
class _Order:
    """The strict total order of a sort: keys, then positions."""

    num_keys: int
    descending: bool = False

    def precedes(self, left: Sequence[Value], right: Sequence[Value]) -> Value:
        """Whether each left element comes before the right one; the last columns are the positions."""
        before = hlo.compare(left[-1], right[-1], "LT")
        for a, b in reversed(list(zip(left[: self.num_keys], right[: self.num_keys]))):
            less, equal = compare_keys(a, b)
            if self.descending:
                less = hlo.not_(hlo.or_(less, equal))
            before = hlo.or_(less, hlo.and_(equal, before))
        return before


def compare_keys(a: Value, b: Value) -> tuple[Value, Value]:
    """(a < b, a == b) in the order of a sort: NaNs equal each other and follow all numbers; complex lexicographic."""
    kind = hlo.dtype_of(a).kind
    if kind == "c":
        real_less, real_equal = compare_keys(hlo.real(a), hlo.real(b))
        imag_less, imag_equal = compare_keys(hlo.imag(a), hlo.imag(b))
        return hlo.or_(real_less, hlo.and_(real_equal, imag_less)), hlo.and_(real_equal, imag_equal)
    less, equal = hlo.compare(a, b, "LT"), hlo.compare(a, b, "EQ")
    if kind in "biu":
        return less, equal
    a_nan, b_nan = hlo.compare(a, a, "NE"), hlo.compare(b, b, "NE")
    less = hlo.or_(less, hlo.and_(hlo.not_(a_nan), b_nan))
    return less, hlo.or_(equal, hlo.and_(a_nan, b_nan))
