"""Sorting and top_k.

IREE's own sort is not used: it is quadratic (10^4 float32: 0.1 s), unstable, in place, and does not compile when it is
fused with what makes its operands. On the CPU NumPy sorts (10^4: 0.02 ms and 3 to 5 us for the call); elsewhere, and
in programs that must do without the host, a bitonic network with the position as the last key, so that it is stable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.registry import Context, Value, rule


@dataclass(frozen=True)
class HostSort:
    """Stable lexicographic sort of arrays along an axis by the first `num_keys` of them; NaN comes last."""

    axis: int
    num_keys: int

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        if len(arrays) == 1:
            return [_sorted(arrays[0], self.axis)]
        keys = [part for x in arrays[: self.num_keys] for part in _parts(_key(x))]
        if len(keys) == 1:
            order = np.argsort(keys[0], axis=self.axis, kind="stable")
        else:
            order = np.lexsort(keys[::-1], axis=self.axis)
        return [np.take_along_axis(x, order, axis=self.axis) for x in arrays]


def _key(x: np.ndarray) -> np.ndarray:
    """An array that NumPy knows how to order (NaN last) and that orders like x."""
    return x.astype(np.float32) if x.dtype.kind == "V" or x.dtype.num >= 256 and x.dtype.name not in _INTEGERS else x


_INTEGERS = frozenset(("int2", "int4", "uint2", "uint4"))


def _parts(key: np.ndarray) -> list[np.ndarray]:
    """What is compared in turn: a complex number by its real part, then its imaginary part, NaN last in each.

    NumPy's order differs where a NaN is: it puts 1 + nan j after 2.
    """
    return [key.real, key.imag] if key.dtype.kind == "c" else [key]


def _sorted(x: np.ndarray, axis: int) -> np.ndarray:
    key = _key(x)
    if key.dtype.kind == "c" and np.isnan(key).any():
        return np.take_along_axis(x, np.lexsort(_parts(key)[::-1], axis=axis), axis)
    if key.dtype.kind in "fc":
        # Only negative zeros tell a stable order of equal numbers from another: the unstable sort is 8 times faster.
        negative_zeros = (key.view(key.real.dtype) == 0) & np.signbit(key.view(key.real.dtype))
        return np.sort(key, axis=axis, kind="stable" if negative_zeros.any() else None).astype(x.dtype, copy=False)
    return np.sort(x, axis=axis)


@dataclass(frozen=True)
class HostTopK:
    """The k largest along the last axis in descending order and their indices; NaN first, ties by index."""

    k: int
    index_dtype: str

    def __call__(self, x: np.ndarray) -> list[np.ndarray]:
        key = _key(x)
        n = x.shape[-1]
        index = _descending(key)[..., : self.k] if 4 * self.k > n or not self.k else self._from_partition(key)
        return [np.take_along_axis(x, index, axis=-1), index.astype(self.index_dtype)]

    def _from_partition(self, key: np.ndarray) -> np.ndarray:
        """Without a full sort, but for rows with ties at the end: 10 of 10^4 in 100 rows take 8 ms instead of 100."""
        n = key.shape[-1]
        candidates = np.sort(np.argpartition(key, n - self.k, axis=-1)[..., n - self.k :], axis=-1)
        chosen = np.take_along_axis(key, candidates, axis=-1)
        index = np.take_along_axis(candidates, _descending(chosen), axis=-1)
        last = np.take_along_axis(key, index[..., -1:], axis=-1)
        unsure = ((key == last).sum(-1) != (chosen == last).sum(-1)) | (last != last)[..., 0]
        if unsure.any():
            index[unsure] = _descending(key[unsure])[..., : self.k]
        return index


def _descending(key: np.ndarray) -> np.ndarray:
    """The indices that order the last axis from the largest, ties by ascending index."""
    # Twice reversed: ascending and stable in the reversed order is descending with ties by ascending index.
    return key.shape[-1] - 1 - np.argsort(key[..., ::-1], axis=-1, kind="stable")[..., ::-1]


@rule("sort")
def _sort(ctx: Context, *operands: Value, dimension: int, num_keys: int = 1, **_: Any) -> list[Value]:
    return _ordered(list(operands), dimension, num_keys)


@rule("sort", target="cpu")
def _sort_cpu(ctx: Context, *operands: Value, dimension: int, num_keys: int = 1, **_: Any) -> list[Value]:
    shape = hlo.shape_of(operands[0])
    if shape[dimension] < 2 or 0 in shape:
        return list(operands)
    return ctx.host_call(HostSort(dimension, num_keys), operands, ctx.avals_out)


@rule("top_k")
def _top_k(ctx: Context, x: Value, *, k: int, axis: int = -1, **_: Any) -> list[Value]:
    return _top_k_without_host(ctx, x, k, axis)


@rule("top_k", target="cpu")
def _top_k_cpu(ctx: Context, x: Value, *, k: int, axis: int = -1, **_: Any) -> list[Value]:
    rank = len(hlo.shape_of(x))
    if axis % rank != rank - 1:
        return _top_k_without_host(ctx, x, k, axis)
    return ctx.host_call(HostTopK(k, np.dtype(ctx.avals_out[1].dtype).name), [x], ctx.avals_out)


def _top_k_without_host(ctx: Context, x: Value, k: int, axis: int) -> list[Value]:
    shape = hlo.shape_of(x)
    axis %= len(shape)
    index = hlo.iota(ctx.avals_out[1].dtype, shape, axis)
    ordered = _ordered([x, index], axis, 1, descending=True)
    limits = [k if i == axis else n for i, n in enumerate(shape)]
    return [hlo.slice(y, [0] * len(shape), limits) for y in ordered]


def _ordered(operands: list[Value], axis: int, num_keys: int, descending: bool = False) -> list[Value]:
    """Sort without the host."""
    shape = hlo.shape_of(operands[0])
    if shape[axis] < 2 or 0 in shape:
        return operands
    return _by_network(operands, axis, _Order(num_keys, descending))


def _by_network(operands: list[Value], axis: int, order: _Order) -> list[Value]:
    """Bitonic sort: log2(n) * (log2(n) + 1) / 2 exchanges of whole arrays, as one loop so that it compiles fast.

    In each trip element i meets element i xor distance; the loop reads block and distance from tables.
    """
    shape = hlo.shape_of(operands[0])
    length = shape[axis]
    size = 1 << (length - 1).bit_length()
    stages = [(block, d) for block in _powers(2, size) for d in reversed(_powers(1, block // 2))]
    blocks, distances = (hlo.constant(np.array(column, np.int32)) for column in zip(*stages))
    # The sorted axis goes first: what meets is whole rows.
    to_front = [axis, *(i for i in range(len(shape)) if i != axis)]
    rows = [hlo.reshape(hlo.transpose(x, to_front), (length, math.prod(shape) // length)) for x in operands]
    columns = [_pad_end(x, size) for x in rows]
    columns.append(hlo.iota(np.int32, hlo.shape_of(columns[0]), 0))

    def trip(k: Value, *current: Value) -> list[Value]:
        block, distance = (hlo.reshape(hlo.dynamic_slice(x, [k], (1,)), ()) for x in (blocks, distances))
        return [hlo.add(k, hlo.constant(np.int32(1))), *_exchange(current, block, distance, length, order)]

    def more(k: Value, *current: Value) -> Value:
        return hlo.compare(k, hlo.constant(np.int32(len(stages))), "LT")

    columns = hlo.while_([hlo.constant(np.int32(0)), *columns], more, trip)[1:]
    moved = [shape[i] for i in to_front]
    back = [int(i) for i in np.argsort(to_front)]
    kept = [hlo.slice(x, (0, 0), (length, hlo.shape_of(x)[1])) for x in columns[:-1]]
    return [hlo.transpose(hlo.reshape(x, moved), back) for x in kept]


def _powers(first: int, last: int) -> list[int]:
    """first, 2 * first, ... last."""
    return [first << i for i in range((last // first).bit_length())]


def _pad_end(x: Value, size: int) -> Value:
    rows, width = hlo.shape_of(x)
    if rows == size:
        return x
    return hlo.concatenate([x, hlo.full(0, (size - rows, width), hlo.dtype_of(x))], 0)


def _exchange(columns: Sequence[Value], block: Value, distance: Value, length: int, order: _Order) -> list[Value]:
    """Each element takes itself or the one `distance` away, as the direction of its block asks."""
    size, width = hlo.shape_of(columns[0])
    place = hlo.iota(np.int32, (size,), 0)
    distances, blocks = (hlo.broadcast_in_dim(x, (size,), ()) for x in (distance, block))
    partner = hlo.reshape(hlo.xor(place, distances), (size, 1))
    others = [_rows(x, partner) for x in columns]
    zero = hlo.full(0, (size,), np.int32)
    first = hlo.compare(hlo.and_(place, distances), zero, "EQ")
    ascending = hlo.compare(hlo.and_(place, blocks), zero, "EQ")
    wants_less = hlo.broadcast_in_dim(hlo.compare(first, ascending, "EQ"), (size, width), (0,))
    keep = hlo.compare(order.precedes(columns, others, length), wants_less, "EQ")
    return [hlo.select(keep, mine, other) for mine, other in zip(columns, others)]


def _rows(x: Value, index: Value) -> Value:
    """Rows of x [N, W] by an index [N, 1] that is in bounds."""
    return hlo.gather(
        x,
        index,
        offset_dims=(1,),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, hlo.shape_of(x)[1]),
    )


@dataclass(frozen=True)
class _Order:
    """The strict total order of a sort: keys, then positions; places beyond the end come last."""

    num_keys: int
    descending: bool

    def precedes(self, left: Sequence[Value], right: Sequence[Value], length: int) -> Value:
        """Whether each left element comes before the right one; the last columns are the positions."""
        positions = left[-1], right[-1]
        before = hlo.compare(*positions, "LT")
        for a, b in reversed(list(zip(left[: self.num_keys], right[: self.num_keys]))):
            less, equal = _compare(a, b)
            if self.descending:
                less = hlo.not_(hlo.or_(less, equal))
            before = hlo.or_(less, hlo.and_(equal, before))
        end = hlo.full_like(positions[0], length)
        inside = [hlo.compare(position, end, "LT") for position in positions]
        return hlo.and_(inside[0], hlo.or_(hlo.not_(inside[1]), before))


def _compare(a: Value, b: Value) -> tuple[Value, Value]:
    """(a < b, a == b) in the order of a sort: NaNs equal each other and follow all numbers; complex lexicographic."""
    kind = hlo.dtype_of(a).kind
    if kind == "c":
        real_less, real_equal = _compare(hlo.real(a), hlo.real(b))
        imag_less, imag_equal = _compare(hlo.imag(a), hlo.imag(b))
        return hlo.or_(real_less, hlo.and_(real_equal, imag_less)), hlo.and_(real_equal, imag_equal)
    less, equal = hlo.compare(a, b, "LT"), hlo.compare(a, b, "EQ")
    if kind in "biu":
        return less, equal
    a_nan, b_nan = hlo.compare(a, a, "NE"), hlo.compare(b, b, "NE")
    less = hlo.or_(less, hlo.and_(hlo.not_(a_nan), b_nan))
    return less, hlo.or_(equal, hlo.and_(a_nan, b_nan))
