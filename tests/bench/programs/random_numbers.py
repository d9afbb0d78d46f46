"""Random numbers, and what is made with them."""

from __future__ import annotations

from typing import Any

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp, random = jax.numpy, jax.random
    some = Some(jnp, 8)
    key = random.key(0)

    def walk(key: Any) -> Any:
        def step(x: Any, key: Any) -> Any:
            a, b = random.split(key)
            new = x + 0.5 * random.normal(a, x.shape)
            ratio = jnp.exp(0.5 * (x**2 - new**2))
            x = jnp.where(random.uniform(b, x.shape) < ratio, new, x)
            return x, x.mean()

        return jax.lax.scan(step, jnp.zeros(100), random.split(key, 100))[1]

    return {
        "normal numbers": (lambda k: random.normal(k, (1000,)), (key,)),
        "normal numbers, many": (lambda k: random.normal(k, (500_000,)), (key,)),
        "uniform numbers": (lambda k: random.uniform(k, (500_000,)), (key,)),
        "permutation": (lambda k: random.permutation(k, 10_000), (key,)),
        "categories": (lambda k, x: random.categorical(k, x), (key, some(500, 50))),
        "gamma numbers": (lambda k: random.gamma(k, 2.5, (1000,)), (key,)),
        "keys": (lambda k: random.key_data(random.split(k, 1000)), (key,)),
        "dropout": (lambda k, x: jnp.where(random.bernoulli(k, 0.9, x.shape), x / 0.9, 0), (key, some(500, 400))),
        "metropolis": (walk, (key,)),
    }
