"""Random bits: the threefry2x32 generator and the keys that choose its streams.

A key is two words of 32 bits. Key arrays hold both in one uint64, the first word in the low half, so that operations
on shapes treat keys as any other elements. A stream of bits is the generator applied to the key and to the position of
each element, so elements do not depend on each other, and each is known without those before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, host
from veery._core.ad import NONDIFFERENTIABLE
from veery._core.avals import Shape, ShapedArray
from veery._core.primitive import Primitive
from veery._core.shapes import broadcast_shapes
from veery.lax import _shape

ArrayLike = Any
Array = Any
Dims = Sequence[int | None]

_UINT32 = np.dtype("uint32")
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


# The generator in NumPy.


def threefry2x32_reference(k1: Any, k2: Any, x1: Any, x2: Any) -> list[np.ndarray]:
    """Twenty rounds of threefry on pairs of words, keys and counts broadcast against each other."""
    operands = [np.asarray(x, _UINT32) for x in (k1, k2, x1, x2)]
    shape = np.broadcast(*operands).shape
    if 0 < math.prod(shape) <= _FEW:
        return _threefry_of_few(operands, shape)
    k1, k2, x1, x2 = np.broadcast_arrays(*operands)
    schedule = (k1, k2, k1 ^ k2 ^ _PARITY)
    x1, x2 = x1 + k1, x2 + k2
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x1 = x1 + x2
            x2 = (x2 << np.uint32(distance)) | (x2 >> np.uint32(32 - distance))
            x2 = x1 ^ x2
        x1 = x1 + schedule[(group + 1) % 3]
        x2 = x2 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return [np.asarray(x1), np.asarray(x2)]


_FEW = 64
_PLACES = np.dtype("<u8")  # a word is the lower half of each


def _threefry_of_few(operands: Sequence[np.ndarray], shape: Shape) -> list[np.ndarray]:
    """The same with all words of an operand in one of Python's integers: 1 word in 11 us instead of 69, 64 in 33."""
    n = math.prod(shape)
    ones = _integer(np.ones(n, _PLACES))
    words = ones * 0xFFFFFFFF
    k1, k2, x1, x2 = [
        x.item() * ones if x.size == 1 else _integer(np.broadcast_to(x, shape).astype(_PLACES)) for x in operands
    ]
    schedule = (k1, k2, k1 ^ k2 ^ int(_PARITY) * ones)
    x1, x2 = x1 + k1 & words, x2 + k2 & words
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x1 = x1 + x2 & words
            turned = x2 << distance | x2 >> 32 - distance  # what crosses into another place is in its upper half
            x2 = x1 ^ turned & words
        x1 = x1 + schedule[(group + 1) % 3] & words
        x2 = x2 + schedule[(group + 2) % 3] + (group + 1) * ones & words
    of_bytes = lambda x: np.frombuffer(x.to_bytes(8 * n, "little"), _PLACES).astype(_UINT32).reshape(shape)
    return [of_bytes(x1), of_bytes(x2)]


def _integer(places: np.ndarray) -> int:
    return int.from_bytes(places.tobytes(), "little")


def _words(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys = np.asarray(keys, np.uint64)
    return keys.astype(_UINT32), (keys >> np.uint64(32)).astype(_UINT32)


def _pack(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _stream(keys: np.ndarray, shape: Shape) -> list[np.ndarray]:
    """Both words of the generator for each key and each position of the shape."""
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    k1, k2 = (word.reshape(word.shape + (1,) * len(shape)) for word in _words(keys))
    return threefry2x32_reference(k1, k2, *reversed(_words(counts)))


def _bits_reference(keys: np.ndarray, *, bit_width: int, shape: Shape) -> np.ndarray:
    first, second = _stream(keys, shape)
    if bit_width == 64:
        return _pack(second, first)
    return (first ^ second).astype(f"uint{bit_width}")


def seed_words(seeds: np.ndarray) -> np.ndarray:
    """Keys from integer seeds: the seed's high word first, which is 0 for seeds of up to 32 bits."""
    wide = np.dtype(seeds.dtype).itemsize == 8
    high = seeds.astype(np.uint64) >> np.uint64(32) if wide else np.zeros(seeds.shape, np.uint64)
    return _pack(high, seeds.astype(np.uint64) & np.uint64(0xFFFFFFFF))


# Batching rules.


def _keep_dim(primitive: str) -> Any:
    """Batching of an operation that keeps the dimensions of its operand in front: the batch dimension stays."""

    def batch(args: Sequence[Any], dims: Sequence[int], **params: Any) -> tuple[Any, int]:
        return _primitives[primitive].bind(args[0], **params), dims[0]

    return batch


def _align(args: Sequence[Any], dims: Dims) -> list[Any]:
    """Operands with their batch dimension in front and equal ranks behind it; scalars stay scalars."""
    ndim = max(np.ndim(x) - (d is not None) for x, d in zip(args, dims))
    aligned = []
    for x, d in zip(args, dims):
        if d is None and np.ndim(x) == 0:
            aligned.append(x)
            continue
        x = _shape.bdim_or_one(x, d)
        missing = ndim + 1 - np.ndim(x)
        aligned.append(_shape.expand_dims(x, tuple(range(1, 1 + missing))) if missing else x)
    return aligned


# Keys from seeds and from words, and back.


def _seed_abstract_eval(seeds: ShapedArray, *, impl: str) -> ShapedArray:
    if not dtypes.issubdtype(seeds.dtype, np.integer):
        raise TypeError(f"PRNG key seed must be an integer; got {seeds}")
    return ShapedArray(seeds.shape, dtypes.key_dtype(impl))


random_seed_p = Primitive(
    "random_seed",
    host=host.arithmetic(integers=4),
    abstract_eval=_seed_abstract_eval,
    jvp=NONDIFFERENTIABLE,
    batch=_keep_dim("random_seed"),
    reference=lambda seeds, *, impl: seed_words(np.asarray(seeds)),
)


def _wrap_abstract_eval(words: ShapedArray, *, impl: str) -> ShapedArray:
    if words.dtype != _UINT32:
        raise TypeError(f"JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got {words.dtype}")
    if words.ndim < 1 or words.shape[-1] != 2:
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected key_data.shape to end with (2,); got shape={words.shape} "
            f"for impl={impl}"
        )
    return ShapedArray(words.shape[:-1], dtypes.key_dtype(impl))


def _wrap_batch(args: Sequence[Any], dims: Sequence[int], *, impl: str) -> tuple[Any, int]:
    return random_wrap_p.bind(_shape.moveaxis(args[0], dims[0], 0), impl=impl), 0


random_wrap_p = Primitive(
    "random_wrap",
    host=host.moves(),
    abstract_eval=_wrap_abstract_eval,
    jvp=NONDIFFERENTIABLE,
    batch=_wrap_batch,
    reference=lambda words, *, impl: _pack(words[..., 0], words[..., 1]),
)

random_unwrap_p = Primitive(
    "random_unwrap",
    host=host.moves(),
    abstract_eval=lambda keys: ShapedArray((*_check_keys("random_unwrap", keys).shape, 2), _UINT32),
    jvp=NONDIFFERENTIABLE,
    batch=_keep_dim("random_unwrap"),
    reference=lambda keys: np.stack(_words(keys), axis=-1),
)


def _check_keys(name: str, keys: ShapedArray) -> ShapedArray:
    if not isinstance(keys.dtype, dtypes.KeyDType):
        raise TypeError(f"{name} takes key array operand, got keys.dtype={keys.dtype}")
    return keys


random_clone_p = Primitive(
    "random_clone",
    host=host.moves(),
    abstract_eval=lambda keys: _check_keys("random_clone", keys),
    jvp=NONDIFFERENTIABLE,
    batch=_keep_dim("random_clone"),
    reference=lambda keys: np.array(keys),
)


# Keys from keys.


random_split_p = Primitive(
    "random_split",
    host=host.arithmetic(integers=24),
    abstract_eval=lambda keys, *, shape: ShapedArray((*_check_keys("random_split", keys).shape, *shape), keys.dtype),
    jvp=NONDIFFERENTIABLE,
    batch=_keep_dim("random_split"),
    reference=lambda keys, *, shape: _pack(*_stream(keys, shape)),
)


def _fold_in_abstract_eval(keys: ShapedArray, data: ShapedArray) -> ShapedArray:
    _check_keys("random_fold_in", keys)
    if data.dtype != _UINT32:
        raise TypeError(f"random_fold_in takes data of dtype uint32, got {data.dtype}")
    return ShapedArray(broadcast_shapes(keys.shape, data.shape), keys.dtype)


def _fold_in_batch(args: Sequence[Any], dims: Dims) -> tuple[Any, int]:
    return random_fold_in_p.bind(*_align(args, dims)), 0


def _fold_in_reference(keys: np.ndarray, data: np.ndarray) -> np.ndarray:
    return _pack(*threefry2x32_reference(*_words(keys), np.zeros_like(data), data))


random_fold_in_p = Primitive(
    "random_fold_in",
    host=host.arithmetic(integers=24),
    abstract_eval=_fold_in_abstract_eval,
    jvp=NONDIFFERENTIABLE,
    batch=_fold_in_batch,
    reference=_fold_in_reference,
)


# Bits from keys.


def _bits_abstract_eval(keys: ShapedArray, *, bit_width: int, shape: Shape) -> ShapedArray:
    _check_keys("random_bits", keys)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError("requires 8-, 16-, 32- or 64-bit field width.")
    return ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}"))


random_bits_p = Primitive(
    "random_bits",
    host=host.arithmetic(integers=24),
    abstract_eval=_bits_abstract_eval,
    jvp=NONDIFFERENTIABLE,
    batch=_keep_dim("random_bits"),
    reference=_bits_reference,
)


def _threefry_abstract_eval(*avals: ShapedArray) -> list[ShapedArray]:
    if any(aval.dtype != _UINT32 for aval in avals):
        raise TypeError(f"Arguments to threefry2x32 must have uint32 type, got {avals}")
    shape = broadcast_shapes(*(aval.shape for aval in avals))
    return [ShapedArray(shape, _UINT32)] * 2


def _threefry_batch(args: Sequence[Any], dims: Dims) -> tuple[list[Any], list[int]]:
    return threefry2x32_p.bind(*_align(args, dims)), [0, 0]


threefry2x32_p = Primitive(
    "threefry2x32",
    host=host.arithmetic(integers=24),
    multiple_results=True,
    abstract_eval=_threefry_abstract_eval,
    jvp=NONDIFFERENTIABLE,
    batch=_threefry_batch,
    reference=threefry2x32_reference,
)

_primitives = {
    p.name: p for p in (random_seed_p, random_unwrap_p, random_clone_p, random_split_p, random_bits_p)
}  # fmt: skip
