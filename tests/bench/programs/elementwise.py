"""Operations on each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    some = Some(jnp, 0)
    x, long, odd = some(1000), some(1_000_000), some(1001, 999)
    wide, wider = some(2048, 2048), some(2500, 2500)
    whole = some.integers(1 << 30, 1_000_000, dtype=np.uint32)

    def mixed(x: Any) -> Any:
        x = (x ^ (x >> 16)) * np.uint32(0x45D9F3B)
        x = (x ^ (x >> 16)) * np.uint32(0x45D9F3B)
        return x ^ (x >> 16)

    with_transposed = lambda x: (x + x**2 + 3) * (x**2 + x * x.T)
    return {
        "x + 1": (lambda x: x + 1, (x,)),
        "many operations": (lambda x: jnp.sin(x) * jnp.exp(-x * x) / (1 + jnp.abs(x)), (x,)),
        "many operations, 1000000": (lambda x: jnp.sin(x) * jnp.exp(-x * x) / (1 + jnp.abs(x)), (long,)),
        "comparison and conversions": (lambda x: (x > 0).astype(np.int32) + x.astype(np.int32), (x,)),
        "where and clip": (lambda x: jnp.where(x > 0, jnp.clip(x, 0, 1), x * 0.1), (long,)),
        "gelu": (lambda x: jax.nn.gelu(x), (long,)),
        "tanh of odd sizes": (lambda x: jnp.tanh(x), (odd,)),
        "logarithm and power": (lambda x: jnp.log1p(jnp.abs(x)) ** 1.5, (long,)),
        "mixed bits": (mixed, (whole,)),
        "broadcast sum": (lambda x, y: x[:, None] * y[None, :] + x[:, None], (some(1000), some(900))),
        "bfloat16": (lambda x: (x.astype(jnp.bfloat16) * 2 + 1).astype(np.float32), (long,)),
        "with its transpose, 2048": (with_transposed, (wide,)),
        "with its transpose, 2500": (with_transposed, (wider,)),
        "complex products": (lambda x, y: abs((x + 1j * y) * (x - 2j * y)), (long, long[::-1])),
    }
