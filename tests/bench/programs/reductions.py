"""Sums and their like, along all axes or one."""

from __future__ import annotations

from typing import Any

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    some = Some(jnp, 1)
    tall, large, odd = some(256, 100), some(2000, 1000), some(1500, 777)

    def normalised(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def softmax(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return {
        "sum": (lambda x: x.sum(), (tall,)),
        "sum, large": (lambda x: x.sum(), (large,)),
        "sums of columns": (lambda x: x.sum(0), (large,)),
        "sums of rows": (lambda x: x.sum(1), (large,)),
        "sums of odd rows": (lambda x: x.sum(1), (odd,)),
        "largest of columns": (lambda x: x.max(0), (odd,)),
        "mean and deviation of rows": (normalised, (tall,)),
        "mean and deviation of large rows": (normalised, (large,)),
        "mean of a stack": (lambda x: jnp.stack([x, 2 * x, x**2]).mean(0), (tall,)),
        "softmax": (softmax, (tall,)),
        "softmax, large": (softmax, (some(1500, 1000),)),
        "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=-1), (large,)),
        "argmax": (lambda x: x.argmax(-1), (tall,)),
        "argmax, large": (lambda x: x.argmax(-1), (large,)),
        "cumsum": (lambda x: jnp.cumsum(x, axis=0), (tall,)),
        "cumsum, long": (lambda x: jnp.cumsum(x), (some(1_000_000),)),
        "norms": (lambda x: jnp.sqrt((x * x).sum(-1)), (large,)),
        "variance": (lambda x: x.var(), (large,)),
        "count": (lambda x: (x > 0).sum(0), (large,)),
    }
