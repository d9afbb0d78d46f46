"""Cases of arrays of integers below a byte, and of floats of 8 and 4 bits."""

from __future__ import annotations

import functools
import pickle

import numpy as np

INTEGERS = ["int4", "uint4"]
FLOATS = [
    "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz",
]  # fmt: skip


def values(name):
    return np.array([0.0, 1.0, 1.0, 0.5, -1.0, 2.0, 3.0] if "float" in name else [0, 1, 1, 0, 3, 2, 1], np.float32)


def moved(x, jnp, jax):
    """What does not compute."""
    found = [
        x[1],
        x[1:4],
        x[np.array([0, 2])],
        x.reshape(7, 1).T,
        x.at[1].set(x[5]),
        jnp.where(x > x[1], x, x[::-1]),
        x.astype(jnp.float32),
        x.astype(jnp.int8),
        jax.lax.scan(lambda c, y: (y, c), x[0], x),
    ]
    if x.dtype.name in INTEGERS:  # XLA does not come back from joining these
        return found
    return [*found, jnp.concatenate([x, x]), jnp.stack([x, x[::-1]]), jnp.roll(x, 1), jnp.pad(x, 1)]


def computed(x, jnp, jax):
    return [x + x, x * x, x - x[::-1], x + 1, x == x[::-1], x < x[1], jnp.maximum(x, x[::-1]), x.max(), jnp.sort(x)]


def in_one_program(function, name, jax):
    """Arrays go in and come out, and are made within."""
    jnp = jax.numpy
    x = jnp.array(values(name), dtype=name)
    run = jax.jit(lambda x, y: [function(x, jnp, jax), y.astype(name), jnp.ones(2, name), jnp.arange(2).astype(name)])
    return run(x, values(name))


def outside(name, jax):
    jnp = jax.numpy
    x = jnp.array(values(name), dtype=name)
    return [
        x, jnp.zeros((0, 3), name), np.asarray(x), jax.device_put(np.asarray(x)), jax.device_get(x), str(x),
        repr(x), x.nbytes, x.itemsize, str(x.dtype), pickle.loads(pickle.dumps(x)), np.asarray(x[1].item()),
        np.asarray(x.tolist(), np.float32),
    ]  # fmt: skip


def conversions(name, jax):
    """What is out of range, rounded or no number; between each other."""
    given = np.array([100.0, -100.0, 7.6, -8.5, 2.5, 0.3, np.nan, 3.49, -0.5], np.float32)
    integers = np.array([100, -100, 7, -9, 3, 15, 16], np.int32)
    convert = jax.jit(lambda x, i: [x.astype(name), i.astype(name), i.astype(np.int8).astype(name)])
    return convert(given, integers) if name in INTEGERS else convert(given, integers)[:1]


def bits(jax):
    """Words as parts of less than a byte, these as others, and back."""
    cast = jax.lax.bitcast_convert_type

    def casts(words):
        found = []
        for name in ("int2", "uint2", *INTEGERS, FLOATS[0]):
            parts = cast(words, name)
            pairs = parts.reshape(*parts.shape[:-1], -1, parts.shape[-1] // 4)
            others = [] if name.endswith("2") else [cast(parts, other) for other in ("uint2", "int4", FLOATS[0])]
            found.append([parts, cast(parts, np.uint32), cast(pairs, np.int8), *others])
        return found

    words = np.array([0x12345678, 0x9ABCDEF0], np.uint32)
    return casts(words) if jax.__name__ == "jax" else jax.jit(casts)(words)  # XLA refuses it as one program


CASES = {
    **{
        f"{function.__name__} {name}": functools.partial(in_one_program, function, name)
        for function in (moved, computed)
        for name in INTEGERS + FLOATS
    },
    **{f"outside {name}": functools.partial(outside, name) for name in INTEGERS + FLOATS},
    **{f"conversions {name}": functools.partial(conversions, name) for name in INTEGERS + FLOATS},
    "bits": bits,
    "bits of int4": lambda jax: jax.jit(
        lambda x: [jax.lax.shift_right_logical(x, x + 2 - x), jax.lax.population_count(x), ~x]
    )(jax.numpy.array([-8, -1, 0, 5, 7], "int4")),
}
