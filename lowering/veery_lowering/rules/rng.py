"""Counter-based random bits: threefry2x32 in integer operations, and keys as single 64-bit words."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.registry import Context, Value, rule

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), table 3 and section 3.3.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


@rule("threefry2x32")
def _threefry2x32(ctx: Context, key0: Value, key1: Value, x0: Value, x1: Value, **_: Any) -> list[Value]:
    return list(threefry2x32(key0, key1, x0, x1))


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


@rule("random_wrap")
def _random_wrap(ctx: Context, words: Value, **_: Any) -> Value:
    """uint32[..., 2] to keys[...]: the first word is the low half."""
    return hlo.bitcast_convert(words, np.uint64)


@rule("random_unwrap")
def _random_unwrap(ctx: Context, keys: Value, **_: Any) -> Value:
    """keys[...] to uint32[..., 2]."""
    return hlo.bitcast_convert(keys, np.uint32)
