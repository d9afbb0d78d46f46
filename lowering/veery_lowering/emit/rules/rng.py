"""Counter-based random bits: threefry2x32 in integer operations, and keys as single 64-bit words.

Counters are made in one flat dimension and the results reshaped at the end, so that generated code runs over long rows
whatever the shape asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.types import is_static

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), table 3 and section 3.3.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_U32, _U64 = np.dtype("uint32"), np.dtype("uint64")


@rule("threefry2x32", any_shape=True)
def _threefry2x32(ctx: Context, *operands: Value, **_: Any) -> list[Value]:
    shape = tuple(ctx.avals_out[0].shape)
    return list(threefry2x32(*(_broadcast(x, shape) for x in operands)))


def threefry2x32(key0: Value, key1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    """Twenty rounds on two uint32 counters under a key of two uint32 words; all operands of one shape."""
    keys = (key0, key1, hlo.xor(hlo.xor(key0, key1), hlo.full_like(key0, _PARITY)))
    x0, x1 = hlo.add(x0, keys[0]), hlo.add(x1, keys[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x0 = hlo.add(x0, x1)
            x1 = hlo.xor(x0, _rotate_left(x1, distance))
        x0 = hlo.add(x0, keys[(group + 1) % 3])
        x1 = hlo.add(hlo.add(x1, keys[(group + 2) % 3]), hlo.full_like(x1, group + 1))
    return x0, x1


def _rotate_left(x: Value, distance: int) -> Value:
    left = hlo.shift_left(x, hlo.full_like(x, distance))
    return hlo.or_(left, hlo.shift_right_logical(x, hlo.full_like(x, 32 - distance)))


def _broadcast(x: Value, shape: tuple[int, ...]) -> Value:
    """NumPy's broadcasting."""
    old = hlo.shape_of(x)
    return x if old == shape else hlo.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(old), len(shape))))


# Keys and their words.


def _words(keys: Value) -> tuple[Value, Value]:
    """The low and the high half of uint64 values: the first and the second word of keys."""
    high = hlo.shift_right_logical(keys, hlo.full_like(keys, 32))
    return hlo.convert(keys, _U32), hlo.convert(high, _U32)


def _pack(low: Value, high: Value) -> Value:
    high = hlo.convert(high, _U64)
    return hlo.or_(hlo.convert(low, _U64), hlo.shift_left(high, hlo.full_like(high, 32)))


@rule("random_wrap")
def _random_wrap(ctx: Context, words: Value, **_: Any) -> Value:
    """uint32[..., 2] to keys[...]: the first word is the low half."""
    return hlo.bitcast_convert(_read_when_called(words), _U64)


def _read_when_called(x: Value) -> Value:
    """Seeds and words that IREE takes for unknown, be they constants.

    Of a known key it computes all numbers when the program is loaded, operation by operation: normals then differ in
    last digits from those of a key passed in, and 96 small programs took 227 s to compile, 45 s with the barrier.
    """
    return hlo.optimization_barrier([x])[0]


@rule("random_unwrap")
def _random_unwrap(ctx: Context, keys: Value, **_: Any) -> Value:
    """keys[...] to uint32[..., 2]."""
    return hlo.bitcast_convert(keys, _U32)


@rule("random_clone", any_shape=True)
def _random_clone(ctx: Context, keys: Value, **_: Any) -> Value:
    return keys


@rule("random_seed", any_shape=True)
def _random_seed(ctx: Context, seeds: Value, **_: Any) -> Value:
    """The seed's high word first; it is 0 for seeds of up to 32 bits, negative ones too."""
    seeds = _read_when_called(seeds)
    dtype = hlo.dtype_of(seeds)
    if dtype.itemsize < 8:
        words = hlo.convert(seeds, _U32) if dtype.kind == "u" else _unsigned(hlo.convert(seeds, np.dtype("int32")))
        return _pack(hlo.full_like(words, 0), words)
    low, high = _words(_unsigned(seeds))
    return _pack(high, low)


def _unsigned(x: Value) -> Value:
    dtype = hlo.dtype_of(x)
    return x if dtype.kind == "u" else hlo.bitcast_convert(x, np.dtype(f"uint{8 * dtype.itemsize}"))


# Streams of keys and bits.


def _stream(keys: Value, key_shape: Sequence[int], count: int) -> tuple[Value, Value]:
    """Both words of the generator for each key and each position below `count`: shape (*key_shape, count)."""
    shape = (*key_shape, count)
    axes = tuple(range(len(key_shape)))
    key0, key1 = (hlo.broadcast_in_dim(word, shape, axes) for word in _words(keys))
    if not is_static(count) or count <= 2**32:  # no more fit into memory where the size is known at run time
        low, high = hlo.iota(_U32, shape, len(axes)), hlo.full(0, shape, _U32)
    else:
        low, high = _words(hlo.iota(_U64, shape, len(axes)))
    return threefry2x32(key0, key1, high, low)


@rule("random_bits", any_shape=True)
def _random_bits(ctx: Context, keys: Value, *, bit_width: int, shape: Sequence[int], **_: Any) -> Value:
    out_shape = tuple(ctx.avals_out[0].shape)
    if 0 in out_shape:
        return hlo.full(0, out_shape, np.dtype(f"uint{bit_width}"))
    key_shape, count = ctx.avals_in[0].shape, math.prod(shape)
    first, second = _stream(keys, key_shape, count)
    bits = _pack(second, first) if bit_width == 64 else hlo.xor(first, second)
    if bit_width < 32:
        bits = hlo.convert(bits, np.dtype(f"uint{bit_width}"))
    return hlo.reshape(bits, out_shape, (*key_shape, count))


@rule("random_split", any_shape=True)
def _random_split(ctx: Context, keys: Value, *, shape: Sequence[int], **_: Any) -> Value:
    out_shape = tuple(ctx.avals_out[0].shape)
    if 0 in out_shape:
        return hlo.full(0, out_shape, _U64)
    key_shape, count = ctx.avals_in[0].shape, math.prod(shape)
    return hlo.reshape(_pack(*_stream(keys, key_shape, count)), out_shape, (*key_shape, count))


@rule("random_fold_in", any_shape=True)
def _random_fold_in(ctx: Context, keys: Value, data: Value, **_: Any) -> Value:
    shape = tuple(ctx.avals_out[0].shape)
    key0, key1 = _words(_broadcast(keys, shape))
    data = _broadcast(data, shape)
    return _pack(*threefry2x32(key0, key1, hlo.full_like(data, 0), data))
