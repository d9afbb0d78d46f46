"""Contractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    some = Some(jnp, 3)
    square = some(64, 64)
    small = lambda *shape: some.integers(100, *shape, dtype=np.int8)
    product = lambda x, y: x @ y
    return {
        "product": (lambda x: x @ x, (square,)),
        "tanh(x @ x).sum()": (lambda x: jnp.tanh(x @ x).sum(), (square,)),
        "100 x 100": (product, (some(100, 100), some(100, 100))),
        "256 x 256": (product, (some(256, 256), some(256, 256))),
        "600 x 600": (product, (some(600, 600), some(600, 600))),
        "1024 x 1024": (product, (some(1024, 1024), some(1024, 1024))),
        "transposed": (lambda x, y: x.T @ y, (some(500, 300), some(500, 200))),
        "transposed, of the second": (lambda x, y: x @ y.T, (some(300, 500), some(200, 500))),
        "few rows": (product, (some(16, 3000), some(3000, 3000))),
        "matrix and vector": (product, (some(3000, 3000), some(3000))),
        "vector and matrix": (product, (some(1000), some(1000, 2000))),
        "dot": (product, (some(1_000_000), some(1_000_000))),
        "outer": (lambda x, y: jnp.outer(x, y), (some(1500), some(2000))),
        "batch": (product, (some(24, 200, 200), some(24, 200, 200))),
        "batch of small ones": (product, (some(500, 8, 8), some(500, 8, 8))),
        "distances": (
            lambda x, y: (x * x).sum(-1)[:, None] - 2 * x @ y.T + (y * y).sum(-1), (some(500, 20), some(400, 20))
        ),
        "einsum": (lambda x: jnp.einsum("bik,bjk->bij", x, x), (some(4, 32, 64),)),
        "bias and relu": (lambda x, w, b: jnp.maximum(x @ w + b, 0), (some(128, 512), some(512, 256), some(256))),
        "bfloat16": (
            lambda x, y: x @ y, (some(256, 256).astype(jnp.bfloat16), some(256, 256).astype(jnp.bfloat16))
        ) if hasattr(jnp, "bfloat16") else (product, (square, square)),
        "integers": (lambda x, y: x.astype(np.int32) @ y.astype(np.int32), (small(128, 256), small(256, 128))),
    }  # fmt: skip
