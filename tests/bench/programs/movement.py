"""What moves elements: slices, indices, order."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    some = Some(jnp, 2)
    x, tall, square, long = some(1000), some(256, 100), some(1000, 1000), some(100_000)
    rows = some.integers(1000, 5000)
    segments = some.integers(1000, 100_000)

    def joined(x: Any) -> Any:
        return jnp.pad(jnp.concatenate([x, x[::-1]], axis=1), ((2, 3), (1, 4)))[1:-1, ::2]

    return {
        "transposition": (lambda x: x.T + 1, (tall,)),
        "transposition, large": (lambda x: x.T + 1, (square,)),
        "axes in another order": (lambda x: jnp.transpose(x, (2, 0, 1)) * 2, (some(64, 80, 48),)),
        "concatenation and slices": (lambda x: jnp.concatenate([x[::2], x[1::2]]) * 2, (x,)),
        "concatenation, padding, slices": (joined, (square,)),
        "rolled": (lambda x: jnp.roll(x, 7, axis=1) - x, (square,)),
        "tiles": (lambda x: jnp.tile(x, (3, 2)), (some(300, 200),)),
        "stacked": (lambda x: jnp.stack([x, x + 1, x * 2], axis=-1), (some(300, 300),)),
        "lookup": (lambda x, i: x[i], (tall, jnp.arange(50) * 3)),
        "rows": (lambda x, i: jnp.take(x, i, axis=0), (some(1000, 64), rows)),
        "elements along an axis": (
            lambda x, i: jnp.take_along_axis(x, i, axis=1), (some(1000, 100), some.integers(100, 1000, 10))
        ),
        "update of a slice": (lambda x: x.at[10:20].set(0.0), (square,)),
        "scatter": (lambda x, i: x.at[i].add(1.0), (tall, jnp.arange(50) * 3)),
        "sums of segments": (lambda x, i: jax.ops.segment_sum(x, i, 1000), (long, segments)),
        "sums of segments of rows": (
            lambda x, i: jax.ops.segment_sum(x, i, 100), (some(5000, 32), some.integers(100, 5000))
        ),
        "one-hot": (lambda i: jax.nn.one_hot(i, 100), (some.integers(100, 2000),)),
        "histogram": (lambda i: jnp.bincount(i, length=1000), (segments,)),
        "sort": (lambda x: jnp.sort(x), (x,)),
        "sort, long": (lambda x: jnp.sort(x), (long,)),
        "argsort of rows": (lambda x: jnp.argsort(x, axis=-1), (some(200, 300),)),
        "top_k": (lambda x: jax.lax.top_k(x, 5), (some(200, 1000),)),
        "searchsorted": (lambda x, y: jnp.searchsorted(x, y), (jnp.sort(some(1000)), long)),
        "triangles": (lambda x: jnp.tril(x) + jnp.triu(x, 1) * np.float32(2), (square,)),
    }  # fmt: skip
