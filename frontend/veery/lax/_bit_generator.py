"""Random bits from a state: the generators that XLA has on CPUs, bit for bit.

Threefry2x32 with 20 rounds and Philox4x32 with 10 are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
as easy as 1, 2, 3" (2011). Both hash counters, so that all numbers are computed side by side.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.avals import aval_of
from veery._core.shapes import canonicalize_shape
from veery.lax import _arithmetic as ops, _bitwise as bits, _compare, _convert, _fill, _rng, _shape, _slicing

Array = Any
Words = tuple[Array, Array]

_UINT32, _UINT64 = np.dtype("uint32"), np.dtype("uint64")
_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


class RandomAlgorithm(enum.Enum):
    """The generators of `rng_bit_generator`; the default is Philox."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def rng_bit_generator(
    key: Any,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm | int = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Uniform random bits, and the state after them.

    Args:
        key: the state: uint32[4] (or uint64[2]). The first half chooses a stream, the second is the place in it.
        shape: of the bits.
        dtype: of the bits: uint8, uint16, uint32 or uint64.
        algorithm: the generator; the default is Philox on all devices.
        out_sharding: accepted for compatibility.

    Returns:
        The next state, and the bits. They are those of XLA on CPUs (on other devices its default generators differ).

    Raises:
        TypeError: the state is of another type or shape, or the dtype is no unsigned integer.

    >>> import numpy as np
    >>> from veery import lax
    >>> state, bits = lax.rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (3,))
    >>> bits.tolist(), state.tolist()
    ([512747620, 1298009047, 1267190206], [1, 2, 4, 4])
    """
    dtype = dtypes.canonicalize_dtype(dtype)
    if dtype.name not in ("uint8", "uint16", "uint32", "uint64"):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtype}")
    aval: Any = aval_of(key)
    if (aval.shape, aval.dtype) not in (((4,), _UINT32), ((2,), _UINT64)):
        raise TypeError(f"rng_bit_generator: the state must be uint32[4] or uint64[2], got {aval.str_short()}")
    words = key if aval.dtype == _UINT32 else _shape.reshape(_convert.bitcast_convert_type(key, _UINT32), (4,))
    state = [_shape.squeeze(_slicing.slice_in_dim(words, i, i + 1, axis=0), (0,)) for i in range(4)]
    generate = _threefry if RandomAlgorithm(algorithm) is RandomAlgorithm.RNG_THREE_FRY else _philox
    made, used = generate(state, canonicalize_shape(shape), dtype)
    place = _plus((state[2], state[3]), np.uint32(used))
    after = _shape.concatenate([_shape.reshape(w, (1,)) for w in (*state[:2], *place)], 0)
    if aval.dtype == _UINT64:
        after = _convert.bitcast_convert_type(_shape.reshape(after, (2, 2)), _UINT64)
    return after, made


def _plus(number: Words, addend: Array) -> Words:
    """The sum of a number of 64 bits, its low word first, and one of 32."""
    low = ops.add(*_alike(number[0], addend))
    return low, ops.add(*_alike(number[1], _convert.convert_element_type(_compare.lt(*_alike(low, addend)), _UINT32)))


def _alike(x: Array, y: Array) -> Words:
    """Two operands in the shape of the larger; one of them may be a number."""
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    return tuple(a if np.shape(a) == shape else _shape.broadcast(a, shape) for a in (x, y))  # type: ignore[return-value]


def _wide(low: Array, high: Array) -> Array:
    high = bits.shift_left(_convert.convert_element_type(high, _UINT64), _fill.full_like(high, 32, _UINT64))
    return bits.bitwise_or(_convert.convert_element_type(low, _UINT64), high)


def _threefry(state: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype) -> tuple[Array, int]:
    """Counters are hashed to pairs of words: one number of 64 bits, or two neighbours along the first even axis."""
    if dtype == _UINT64:
        return _wide(*_hashed(state, shape)), math.prod(shape)
    sizes = shape or (1,)
    even = [i for i, size in enumerate(sizes) if size % 2 == 0]
    axis = even[0] if even else sizes.index(max(sizes))
    half = (*sizes[:axis], -(-sizes[axis] // 2), *sizes[axis + 1 :])
    pair = [_shape.expand_dims(word, (axis + 1,)) for word in _hashed(state, half)]
    whole = (*half[:axis], 2 * half[axis], *half[axis + 1 :])
    words = _shape.reshape(_shape.concatenate(pair, axis + 1), whole)
    words = _shape.reshape(_slicing.slice_in_dim(words, 0, sizes[axis], axis=axis), shape)
    return _convert.convert_element_type(words, dtype), math.prod(half)


def _hashed(state: Sequence[Array], shape: tuple[int, ...]) -> Words:
    first, second, *place = state
    positions = _shape.reshape(_shape.iota(_UINT32, math.prod(shape)), shape)
    low, high = _rng.threefry2x32_p.bind(first, second, *_plus((place[0], place[1]), positions))
    return low, high


def _philox(state: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype) -> tuple[Array, int]:
    """Counters of 128 bits, the place in the stream below its number, are hashed to four words each."""
    count = math.prod(shape) * (2 if dtype == _UINT64 else 1)
    blocks = -(-count // 4)
    key: Words = state[0], state[1]
    low, middle = _plus((state[2], state[3]), _shape.iota(_UINT32, blocks))
    overflow = bits.bitwise_and(_compare.lt(*_alike(low, state[2])), _compare.eq(*_alike(middle, np.uint32(0))))
    high, top = _plus(key, _convert.convert_element_type(overflow, _UINT32))
    words = [low, middle, high, _alike(top, low)[0]]
    for i in range(10):
        weyl = [np.uint32(i * w & 0xFFFFFFFF) for w in _WEYL]
        round_key = [ops.add(k, w) for k, w in zip(key, weyl)]
        (m0, m1), (w0, w1, w2, w3) = _MULTIPLIERS, words
        high0, low0 = ops.mulhi(*_alike(w0, m0)), ops.mul(*_alike(w0, m0))
        high1, low1 = ops.mulhi(*_alike(w2, m1)), ops.mul(*_alike(w2, m1))
        mix = lambda x, y, k, like=w0: bits.bitwise_xor(bits.bitwise_xor(x, y), _alike(k, like)[0])
        words = [mix(high1, w1, round_key[0]), low1, mix(high0, w3, round_key[1]), low0]
    columns = [_shape.expand_dims(word, (1,)) for word in words]
    flat = _shape.reshape(_shape.concatenate(columns, 1), (4 * blocks,))
    if dtype == _UINT64:
        pairs = _shape.reshape(flat, (2 * blocks, 2))
        low, high = (_shape.squeeze(_slicing.slice_in_dim(pairs, i, i + 1, axis=1), (1,)) for i in (0, 1))
        flat = _wide(low, high)
    made = _shape.reshape(_slicing.slice_in_dim(flat, 0, math.prod(shape), axis=0), shape)
    return _convert.convert_element_type(made, dtype), blocks
