"""Networks, and steps of their training."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp, lax = jax.numpy, jax.lax
    some = Some(jnp, 9)
    images, tokens, batch = some(8, 3, 32, 32), some(4, 32, 64), some(32, 64)
    labels = jnp.asarray(np.eye(10, dtype=np.float32)[np.arange(32) % 10])
    mlp = some.layers(64, 128, 128, 10)
    zeros = jax.tree.map(jnp.zeros_like, mlp)
    transformer = {
        "qkv": some(64, 192) / 8,
        "out": some(64, 64) / 8,
        "up": some(64, 256) / 8,
        "down": some(256, 64) / 16,
    }
    convolutions = [some(16, 3, 3, 3), some(32, 16, 3, 3) / 12, some(32, 10)]
    gru = some(96, 192) / 10
    query, keys, values = some(2, 4, 128, 32), some(2, 4, 128, 32), some(2, 4, 128, 32)

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def dense(w: Any, x: Any) -> Any:
        for a, b in w[:-1]:
            x = jnp.tanh(x @ a + b)
        return x @ w[-1][0] + w[-1][1]

    def loss(w: Any, x: Any, y: Any) -> Any:
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(dense(w, x)) * y, axis=-1))

    def step(w: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, w, gradient)

    def adam(state: Any, x: Any, y: Any) -> Any:
        w, m, v = state
        g = jax.grad(loss)(w, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        return jax.tree.map(lambda w, m, v: w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), w, m, v), m, v

    def cnn(w: Any, x: Any) -> Any:
        for kernel in w[:-1]:
            x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (2, 2), "SAME"))
        return jnp.mean((x.mean((2, 3)) @ w[-1]) ** 2)

    def block(w: Any, x: Any) -> Any:
        q, k, v = jnp.split(norm(x) @ w["qkv"], 3, axis=-1)
        heads = lambda t: t.reshape(*t.shape[:2], 4, -1).swapaxes(1, 2)
        q, k, v = heads(q), heads(k), heads(v)
        scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / 4.0, axis=-1) @ v
        x = x + scores.swapaxes(1, 2).reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 32**0.5, axis=-1) @ v

    def recurrent(w: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            z, r, n = jnp.split(jnp.concatenate([x, h], -1) @ w, 3, axis=-1)
            n = jnp.tanh(n * jax.nn.sigmoid(r))
            h = jax.nn.sigmoid(z) * h + (1 - jax.nn.sigmoid(z)) * n
            return h, h

        return (lax.scan(cell, jnp.zeros((4, 64)), xs)[1] ** 2).mean()

    return {
        "network": (dense, (mlp, batch)),
        "step of a network": (step, (mlp, batch, labels)),
        "step of a network with Adam": (adam, ((mlp, zeros, zeros), batch, labels)),
        "CNN": (cnn, (convolutions, images)),
        "gradient of a CNN": (jax.grad(cnn), (convolutions, images)),
        "attention": (attention, (query, keys, values)),
        "gradient of attention": (jax.grad(lambda *qkv: attention(*qkv).sum(), (0, 1, 2)), (query, keys, values)),
        "transformer block": (block, (transformer, tokens)),
        "gradient of a transformer block": (jax.grad(lambda w, x: block(w, x).mean()), (transformer, tokens)),
        "gradient of a GRU": (jax.grad(recurrent), (gru, some(20, 4, 32))),
    }
