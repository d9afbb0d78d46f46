"""The generator behind keys, for libraries that use it as it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._api.vectorize import vmap
from veery._core.absent import attributes as _attributes
from veery.lax._rng import threefry2x32_p as threefry2x32_p
from veery.random import key as _key

threefry_prng_impl = "threefry2x32"
rbg_prng_impl = "rbg"
unsafe_rbg_prng_impl = "unsafe_rbg"


def random_seed(seeds: Any, impl: Any = threefry_prng_impl) -> Any:
    """Keys from an integer or an array of them.

    >>> import veery.numpy as jnp
    >>> random_seed(jnp.arange(3), impl=threefry_prng_impl).shape
    (3,)
    """
    make = lambda seed: _key(seed, impl=impl)
    for _ in np.shape(seeds):
        make = vmap(make)
    return make(seeds)


def seed_with_impl(impl: Any, seed: Any) -> Any:
    """`random_seed` with its arguments the other way round."""
    return random_seed(seed, impl)


@jit
def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Threefry's hash of counters.

    Args:
        keypair: the two words of a key, each a uint32.
        count: array of uint32; the first half of its elements is paired with the second.

    Returns:
        An array of uint32, of the shape of count.

    Raises:
        TypeError: the words or the counters are not uint32.

    >>> import veery.numpy as jnp
    >>> key = jnp.array([0x13198A2E, 0x03707344], "uint32")
    >>> [hex(word) for word in threefry_2x32(key, jnp.array([0x243F6A88, 0x85A308D3], "uint32")).tolist()]
    ['0xc4923a9c', '0x483df7a0']
    """
    first, second = keypair
    found = [x.dtype.name for x in (first, second, count)]
    if found != ["uint32"] * 3:
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {', '.join(found)}")
    size = math.prod(count.shape)
    half = (size + 1) // 2
    words = lax.pad(lax.reshape(count, (size,)), np.uint32(0), [(0, 2 * half - size, 0)])
    halves = (lax.slice_in_dim(words, start, start + half) for start in (0, half))
    mixed = lax.concatenate(threefry2x32_p.bind(first, second, *halves), 0)
    return lax.reshape(lax.slice_in_dim(mixed, 0, size), count.shape)


__getattr__, __dir__ = _attributes(__name__)
