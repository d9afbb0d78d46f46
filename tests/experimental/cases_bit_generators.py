"""Cases of `lax.rng_bit_generator`, and of keys of rbg."""

from __future__ import annotations

import functools

import numpy as np

STATE = np.array([1, 2, 3, 4], np.uint32)
END = np.array([1, 2, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)
SHAPES = [(), (0,), (1,), (5,), (8,), (2, 3), (3, 4), (5, 7)]
DTYPES = ["uint8", "uint16", "uint32", "uint64"]


def generated(algorithm, dtype, jax):
    chosen = getattr(jax.lax.RandomAlgorithm, algorithm)
    with jax.enable_x64(True):
        return [jax.lax.rng_bit_generator(STATE, shape, dtype, chosen) for shape in SHAPES]


def keys(impl, jax):
    random = jax.random
    key = random.key(42, impl=impl)
    return random.key_data(key), str(key.dtype), random.key_impl(key), random.PRNGKey(7, impl=impl)


def from_keys(impl, jax):
    """Words of keys that are split and folded."""
    random = jax.random
    key = random.key(42, impl=impl)
    return random.key_data(random.split(key, 3)), random.key_data(random.fold_in(key, 9))


def numbers(impl, jax):
    random = jax.random
    key = random.key(42, impl=impl)
    return [
        random.bits(key, (5,)),
        random.bits(key, (3, 2), "uint8"),
        random.bits(key, (3,), "uint16"),
        random.uniform(key, (4,)),
        random.normal(key, (4,)),
        random.randint(key, (4,), -5, 100) if impl == "rbg" else (),
        random.permutation(key, 6) if impl == "rbg" else (),
    ]


def default(jax):
    with jax.default_prng_impl("rbg"):
        key = jax.random.PRNGKey(42)
        return key, jax.random.split(key), jax.random.uniform(key, (3,)), str(jax.random.key(1).dtype)


CASES = {
    **{
        f"{algorithm} of {dtype}": functools.partial(generated, algorithm, dtype)
        for algorithm in ("RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT")
        for dtype in (DTYPES if algorithm != "RNG_DEFAULT" else ["uint32"])
    },
    "the end of a counter": lambda jax: [jax.lax.rng_bit_generator(END, (10,), algorithm=a) for a in (1, 2)],
    "a state of wide words": lambda jax: jax.enable_x64(True)(
        lambda: jax.lax.rng_bit_generator(STATE.view(np.uint64), (5,))
    )(),
    "under jit": lambda jax: jax.jit(lambda s: jax.lax.rng_bit_generator(s, (6,)))(STATE),
    "float": lambda jax: jax.lax.rng_bit_generator(STATE, (3,), "float32"),
    "signed": lambda jax: jax.lax.rng_bit_generator(STATE, (3,), "int32"),
    "keys of rbg": functools.partial(keys, "rbg"),
    "keys of unsafe_rbg": functools.partial(keys, "unsafe_rbg"),
    "keys from keys of rbg": functools.partial(from_keys, "rbg"),
    "numbers of rbg": functools.partial(numbers, "rbg"),
    "numbers of unsafe_rbg": functools.partial(numbers, "unsafe_rbg"),
    "rbg by default": default,
    "an unknown generator": lambda jax: jax.random.key(0, impl="mersenne"),
    "words of another shape": lambda jax: jax.random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg"),
    "words": lambda jax: jax.random.key_data(jax.random.wrap_key_data(np.array([5, 6, 5, 6], np.uint32), impl="rbg")),
    "key arrays": lambda jax: jax.random.key_data(
        jax.numpy.stack([jax.random.key(i, impl="rbg") for i in range(2)])[::-1]
    ),
}
