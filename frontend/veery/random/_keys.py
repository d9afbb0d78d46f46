"""Keys: made from seeds, split, folded, and their words. Both kinds: key arrays, and raw uint32[..., 2] arrays.

Keys of rbg and unsafe_rbg are seeded, split and folded by threefry as well; their bits are Philox's, of the same two
words twice, which is what users see as the four words of such a key.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes, provided, source
from veery._core.array import Array as ArrayType
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.config import config
from veery._core.shapes import canonicalize_shape
from veery._core.trace import trace_state_clean
from veery.lax import _rng
from veery.lax._convert import convert_element_type_p

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer
Shape = Sequence[int]


def is_key(x: Any) -> bool:
    """Whether x is an array of keys."""
    return isinstance(getattr(x, "dtype", None), dtypes.KeyDType)


def check_key(name: str, key: Any, *, allow_batched: bool = False) -> Any:
    """The key, typed or raw.

    Args:
        name: of the public function.
        key: a key array, or the words of a key: uint32[2] (uint32[4] where the default generator is rbg).
        allow_batched: whether it may be an array of keys.

    Raises:
        TypeError: it is no key.
        ValueError: it is an array of keys where one key is expected, or raw where jax_legacy_prng_key forbids it.
    """
    if not is_key(key):
        key = _check_raw_key(key)
    shape = np.shape(key) if is_key(key) else np.shape(key)[:-1]
    if shape and not allow_batched:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {shape} != (). Use jax.vmap for batching."
        )
    return key


def _check_raw_key(key: Any) -> Any:
    aval = maybe_aval_of(key)
    if aval is None:
        raise TypeError(f"unexpected PRNG key type {type(key)}")
    _check_words(aval, default_impl())
    if config.jax_legacy_prng_key != "allow":
        message = (
            "Legacy uint32 key array passed as key to jax.random function. Please create keys using jax.random.key(). "
            'If use of a raw key array was intended, set jax_legacy_prng_key="allow".'
        )
        if config.jax_legacy_prng_key == "error":
            raise ValueError(message)
        warnings.warn(message, stacklevel=source.user_stacklevel())
    return key


def typed(key: Any) -> Array:
    """The key as a key array; for use within jitted functions, so that raw keys cost no program of their own."""
    return key if is_key(key) else _wrapped(key, default_impl())


def default_impl() -> dtypes.KeyDType:
    """The dtype of keys that are not said to be of another generator."""
    return dtypes.key_dtype(config.jax_default_prng_impl)


def _check_words(aval: Any, impl: dtypes.KeyDType) -> None:
    shape = aval.shape
    if impl.words == 4 and shape[-1:] == (4,):
        aval = aval.update(shape=(*shape[:-1], 2))
    elif impl.words == 4 and aval.dtype == np.uint32:
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected key_data.shape to end with (4,); got shape={shape} for "
            f"impl={impl.tag}"
        )
    _rng.random_wrap_p.abstract_eval(aval, impl=impl.tag)  # type: ignore[misc]


def _wrapped(words: Any, impl: dtypes.KeyDType) -> Array:
    """A key array from words; of four words the first two."""
    if impl.words == 4:
        _check_words(aval_of(words), impl)
        words = lax.slice_in_dim(words, 0, 2, axis=-1)
    return _rng.random_wrap_p.bind(words, impl=impl.tag)


def _unwrapped(keys: Array) -> Array:
    """The words of keys."""
    words = _rng.random_unwrap_p.bind(keys)
    return lax.concatenate([words, words], words.ndim - 1) if keys.dtype.words == 4 else words


def raw_like(keys: Array, like: Any) -> Array:
    """Keys as words where `like` is raw."""
    return keys if is_key(like) else _unwrapped(keys)


def check_shape(name: str, shape: Shape, *param_shapes: Shape) -> None:
    """Raise ValueError unless parameters of these shapes broadcast to `shape`."""
    if param_shapes:
        result = lax.broadcast_shapes(shape, *param_shapes)
        if tuple(shape) != tuple(result):
            raise ValueError(
                f"{name} parameter shapes must be broadcast-compatible with shape argument, and the result of "
                f"broadcasting the shapes must equal the shape argument, but got result {result} for shape argument "
                f"{tuple(shape)}."
            )


def broadcast_shape(name: str, shape: Any, *params: ArrayLike) -> tuple[int, ...]:
    """The shape asked for, checked against the parameters; None is the shape in which these broadcast."""
    shapes = [np.shape(p) for p in params]
    if shape is None:
        return lax.broadcast_shapes(*shapes) if shapes else ()
    shape = canonicalize_shape(shape)
    check_shape(name, shape, *shapes)
    return shape


# ---------------------------------------------------------------------------------------------------------------------
# Making keys


def _resolved(impl: Any) -> dtypes.KeyDType:
    """The dtype of keys of a generator, by its name or dtype; None is the default one."""
    if impl is None:
        return default_impl()
    if isinstance(impl, dtypes.KeyDType):
        return impl
    if not isinstance(impl, str):
        raise TypeError(f"unrecognized type {type(impl)} for specifying PRNG implementation.")
    if impl not in (*dtypes.KEY_TAGS, *dtypes.KEY_TAGS.values()):
        known = ", ".join(f'"{name}"' for name in sorted(dtypes.KEY_TAGS))
        raise ValueError(f'unrecognized PRNG implementation "{impl}". Did you mean one of: {known}?')
    return dtypes.key_dtype(impl)


def _key(name: str, seed: Any, impl: Any) -> Array:
    dtype = _resolved(impl)
    if is_key(seed):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if np.ndim(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {np.shape(seed)} != (). Use jax.vmap for "
            "batching"
        )
    if not isinstance(seed, ArrayType):
        seed = np.asarray(np.int64(seed) if isinstance(seed, int) else seed)
        if not np.issubdtype(seed.dtype, np.integer):
            raise TypeError(f"PRNG key seed must be an integer; got {seed!r}")
        seed = seed.astype(dtypes.canonicalize_dtype(seed.dtype))
        seed = seed + seed.dtype.type(config.jax_random_seed_offset)
        if trace_state_clean():
            return provided.backend.array_from_numpy(_rng.seed_words(seed), ShapedArray((), dtype))
    elif config.jax_random_seed_offset:
        seed = lax.add(seed, config.jax_random_seed_offset)
    return _rng.random_seed_p.bind(seed, impl=dtype.tag)


def key(seed: int | ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """A key array of one key from an integer seed.

    Args:
        seed: an integer, possibly traced.
        impl: the generator: "threefry2x32", "rbg" or "unsafe_rbg" (see `veery.random`); by default the one of the
            setting jax_default_prng_impl.
        dtype: instead of impl, the dtype of keys.

    Raises:
        TypeError: the seed is no integer scalar.

    >>> import veery.random
    >>> veery.random.key(0).dtype
    key<fry>
    """
    if dtype is not None and impl is not None:
        raise ValueError("Cannot specify both `impl` and `dtype` arguments to jax.random.key")
    return _key("key", seed, impl if dtype is None else dtype)


def PRNGKey(seed: int | ArrayLike, *, impl: Any = None) -> Array:  # noqa: N802 (JAX's name)
    """A raw key, uint32[2], from an integer seed (a key array where jax_enable_custom_prng is on).

    >>> import veery.random
    >>> veery.random.PRNGKey(42).tolist()
    [0, 42]
    """
    made = _key("PRNGKey", seed, impl)
    return made if config.jax_enable_custom_prng else key_data(made)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys: uint32 of shape (*keys.shape, 2), or (*keys.shape, 4) of those of rbg."""
    keys = check_key("key_data", keys, allow_batched=True)
    if not is_key(keys):
        return keys
    if trace_state_clean():
        words = keys.to_numpy().reshape(keys.shape)
        shown = np.stack(_rng._words(words) * (keys.dtype.words // 2), axis=-1)
        return provided.backend.array_from_numpy(shown, ShapedArray(shown.shape, np.dtype("uint32")))
    return _unwrapped(keys)


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """A key array from the words of keys: uint32[..., 2], or uint32[..., 4] for rbg, of which the first two count."""
    if dtype is not None and impl is not None:
        raise ValueError("Cannot specify both `impl` and `dtype` arguments to jax.random.wrap_key_data")
    return _wrapped(key_bits_array, _resolved(impl if dtype is None else dtype))


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDType:
    """The dtype of keys for a generator; None for the default one.

    >>> key_dtype()
    key<fry>
    """
    return _resolved(impl_spec)


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator that keys are for."""
    keys = check_key("key_impl", keys, allow_batched=True)
    return keys.dtype.impl if is_key(keys) else default_impl().impl


def clone(key: ArrayLike) -> Array:
    """The key once more, for a deliberate second use."""
    return _rng.random_clone_p.bind(key) if is_key(key) else key


def again(key: Array) -> Array:
    """The typed key once more, for a second sampler of which each element takes either."""
    return clone(key) if config.jax_debug_key_reuse else key


# ---------------------------------------------------------------------------------------------------------------------
# Keys from keys


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """New keys from a key, which should not be used any more.

    Args:
        key: one key.
        num: how many, or the shape of the array of them.

    Returns:
        A key array of shape (num,), or raw keys of shape (num, 2) from a raw key.

    >>> import veery.random
    >>> veery.random.split(veery.random.key(0), 3).shape
    (3,)
    """
    if is_key(key) and np.ndim(key):
        raise ValueError(
            f"split accepts a single key, but was given a key array of shape {np.shape(key)} != (). Use jax.vmap for "
            "batching."
        )
    key = check_key("split", key)
    shape = canonicalize_shape(num if isinstance(num, Sequence) else (num,))
    if any(n < 0 for n in shape):
        raise ValueError(f"split makes a nonnegative number of keys, or of a shape of such numbers; got {num}")
    return _split(key, shape=shape)


@jit(static_argnames=("shape",))
def _split(key: Any, *, shape: tuple[int, ...]) -> Array:
    return raw_like(split_typed(typed(key), shape), key)


def split_typed(key: Array, shape: int | tuple[int, ...] = 2) -> Array:
    """An array of new keys from a typed key."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if config.jax_threefry_partitionable:
        return _rng.random_split_p.bind(key, shape=shape)
    words = _sequential_words(key, 2 * math.prod(shape))
    return _rng.random_wrap_p.bind(lax.reshape(words, (*shape, 2)), impl=key.dtype.tag)


def split_in(key: Array, num: int = 2) -> list[Array]:
    """`num` new typed keys from a typed key, one by one."""
    if config.jax_threefry_partitionable and not config.jax_debug_key_reuse:
        # the i-th of the keys that split gives; apart, they need no array to be cut out of, and fuse with what follows
        return [_rng.random_fold_in_p.bind(key, np.uint32(i)) for i in range(num)]
    keys = split_typed(key, num)
    return [lax.squeeze(lax.slice_in_dim(keys, i, i + 1, axis=0), (0,)) for i in range(num)]


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer, such as a step's number.

    Args:
        key: one key.
        data: an integer scalar; its low 32 bits count.

    >>> import veery.random
    >>> veery.random.fold_in(veery.random.PRNGKey(0), 7).shape
    (2,)
    """
    key = check_key("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)} != (). Use jax.vmap for "
            "batching."
        )
    if isinstance(data, (int, np.integer)):
        data = _uint32(data)
    return _fold_in(key, data)


def _uint32(data: Any) -> np.ndarray:
    """The integer as uint32; Python's must fit, NumPy's wrap around."""
    if isinstance(data, np.integer):
        return np.asarray(data).astype(np.uint32)
    return np.asarray(data, np.uint32)


@jit
def _fold_in(key: Any, data: Any) -> Array:
    data = convert_element_type_p.bind(data, new_dtype=np.dtype("uint32"), weak_type=False)
    return raw_like(_rng.random_fold_in_p.bind(typed(key), data), key)


# ---------------------------------------------------------------------------------------------------------------------
# Bits


def bits_of(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    """Random bits of a typed key as unsigned integers."""
    if key.dtype.impl != "threefry2x32":
        return lax.rng_bit_generator(_unwrapped(_used_up(key)), shape, f"uint{bit_width}")[1]
    if config.jax_threefry_partitionable:
        return _rng.random_bits_p.bind(key, bit_width=bit_width, shape=shape)
    return _sequential_bits(key, bit_width, shape)


def _used_up(key: Array) -> Array:
    """The key, which is used by an operation that those who look for uses of keys know nothing of."""
    return lax.optimization_barrier(key) if config.jax_debug_key_reuse else key


def _sequential_words(key: Array, count: int) -> Array:
    """The stream that older JAX used: one run of counters 0, 1, ... for all words, its halves paired."""
    words = _rng.random_unwrap_p.bind(_used_up(key))
    k1, k2 = (lax.squeeze(lax.slice_in_dim(words, i, i + 1, axis=0), (0,)) for i in range(2))
    padded = count + count % 2
    counters = lax.iota(np.uint32, padded)
    if count % 2:
        counters = lax.select(lax.lt(counters, np.uint32(count)), counters, lax.full_like(counters, 0))
    halves = [lax.slice_in_dim(counters, i * padded // 2, (i + 1) * padded // 2, axis=0) for i in range(2)]
    return lax.slice_in_dim(lax.concatenate(_rng.threefry2x32_p.bind(k1, k2, *halves), 0), 0, count, axis=0)


def _sequential_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    size, dtype = math.prod(shape), np.dtype(f"uint{bit_width}")
    words = _sequential_words(key, -(-bit_width * size // 32))
    if bit_width == 64:
        halves = [lax.slice_in_dim(words, i * size, (i + 1) * size, axis=0) for i in (0, 1)]
        high, low = (lax.convert_element_type(half, dtype) for half in halves)
        words = lax.bitwise_or(lax.shift_left(high, dtype.type(32)), low)
    elif bit_width < 32:
        parts = 32 // bit_width
        shifts = lax.mul(lax.broadcasted_iota(np.uint32, (words.size, parts), 1), np.uint32(bit_width))
        spread = lax.broadcast_in_dim(words, (words.size, parts), (0,))
        spread = lax.bitwise_and(lax.shift_right_logical(spread, shifts), np.uint32(2**bit_width - 1))
        flat = lax.reshape(lax.convert_element_type(spread, dtype), (words.size * parts,))
        words = lax.slice_in_dim(flat, 0, size, axis=0)
    return lax.reshape(words, shape)
