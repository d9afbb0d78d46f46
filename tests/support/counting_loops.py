"""Loops that count: of one trip and of many, in several ways, with what IREE treats differently in their bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import veery
import veery.numpy as jnp
from veery import lax

W = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32) / 3
X = np.random.default_rng(1).normal(size=5).astype(np.float32)


def _scan(length: int, **options: Any) -> Callable[[Any], Any]:
    def step(carry: Any, x: Any) -> Any:
        h, count = carry
        h = jnp.tanh(h @ W + x)
        return (h, count + 2), (h.sum(), count)

    return lambda x: lax.scan(step, (x, 0), jnp.outer(jnp.arange(length) / 7, x), length=length, **options)


COUNTING = {
    **{f"scan of {n}": _scan(n) for n in (0, 1, 2, 3, 7, 31, 32, 33, 53)},
    "backwards": _scan(21, reverse=True),
    "step of 3": lambda x: lax.while_loop(lambda s: s[0] < 50, lambda s: (s[0] + 3, s[1] * 0.9 + s[0]), (-1, x)),
    "unsigned": lambda x: lax.while_loop(
        lambda s: s[0] < 200, lambda s: (s[0] + np.uint8(9), s[1] + s[0]), (np.uint8(3), x)
    ),
    "nested": lambda x: lax.fori_loop(
        0, 9, lambda i, y: lax.fori_loop(0, 12, lambda j, z: jnp.sin(z[::-1]) + i - j, y), x
    ),
    "bounded by another": lambda x: lax.fori_loop(0, 6, lambda i, y: lax.fori_loop(0, i, lambda j, z: z @ W + j, y), x),
    "exchanged": lambda x: lax.fori_loop(0, 11, lambda i, s: (s[1], s[0] + i), (x, x * 2)),
    "handed on": lambda x: lax.fori_loop(0, 10, lambda i, s: (s[0], s[1] @ W + s[0]), (x, x)),
    "gradient": veery.grad(lambda x: _scan(19)(x)[1][0].sum()),
}
