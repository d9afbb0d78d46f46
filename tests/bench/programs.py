"""First calls and later calls of programs of many kinds, for one library; run by first_calls.py.

python programs.py veery|jax

Prints a JSON object of name -> [seconds of the first call, median seconds of later ones].
"""

from __future__ import annotations

import functools
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Programs = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
_SECONDS = 0.25  # of later calls that are timed


def programs(jax: Any) -> Programs:
    """The same programs for both libraries: a function that is to be compiled, and its arguments."""
    jnp, lax = jax.numpy, jax.lax
    rng = np.random.default_rng(0)
    some = lambda *shape: jnp.asarray(rng.standard_normal(shape, np.float32))
    x, square, tall, images = some(1000), some(64, 64), some(256, 100), some(8, 3, 32, 32)
    key = jax.random.key(0)
    kernel = some(16, 3, 3, 3)
    layers = lambda *sizes: [(some(m, n) * m**-0.5, jnp.zeros(n)) for m, n in zip(sizes, sizes[1:])]
    mlp = layers(64, 128, 128, 10)

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

    transformer = {
        "qkv": some(64, 192) / 8,
        "out": some(64, 64) / 8,
        "up": some(64, 256) / 8,
        "down": some(256, 64) / 16,
    }
    tokens, batch, labels = (
        some(4, 32, 64),
        some(32, 64),
        jnp.asarray(np.eye(10, dtype=np.float32)[rng.integers(0, 10, 32)]),
    )
    convolutions = [kernel, some(32, 16, 3, 3) / 12, some(32, 10)]
    lstm = some(96, 256) / 10

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ lstm, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), c

    zeros = jax.tree.map(jnp.zeros_like, mlp)
    return {
        "x + 1": (lambda x: x + 1, (x,)),
        "many elementwise": (lambda x: jnp.sin(x) * jnp.exp(-x * x) / (1 + jnp.abs(x)), (x,)),
        "x > 0 and conversions": (lambda x: (x > 0).astype(jnp.int32) + x.astype(jnp.int32), (x,)),
        "sum": (lambda x: x.sum(), (tall,)),
        "mean and deviation of rows": (norm, (tall,)),
        "softmax": (lambda x: jax.nn.softmax(x, axis=-1), (tall,)),
        "argmax": (lambda x: x.argmax(-1), (tall,)),
        "cumsum": (lambda x: jnp.cumsum(x, axis=0), (tall,)),
        "product": (lambda x: x @ x, (square,)),
        "tanh(x @ w).sum()": (lambda x: jnp.tanh(x @ x).sum(), (square,)),
        "batch of products": (lambda x: jnp.einsum("bik,bjk->bij", x, x), (tokens,)),
        "large product": (lambda x: x @ x, (some(600, 600),)),
        "convolution": (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"), (images, kernel)),
        "transposition": (lambda x: x.T + 1, (tall,)),
        "concatenation and slices": (lambda x: jnp.concatenate([x[::2], x[1::2]]) * 2, (x,)),
        "lookup": (lambda x, i: x[i], (tall, jnp.arange(50) * 3)),
        "scatter": (lambda x, i: x.at[i].add(1.0), (tall, jnp.arange(50) * 3)),
        "sort": (jnp.sort, (x,)),
        "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), (x,)),
        "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + 64 * jnp.eye(64)), (square,)),
        "solve": (jnp.linalg.solve, (square, square)),
        "normal numbers": (lambda k: jax.random.normal(k, (1000,)), (key,)),
        "loop": (lambda x: lax.fori_loop(0, 1000, lambda i, y: y * 0.999 + i, x), (x,)),
        "loop on a value": (lambda x: lax.while_loop(lambda y: y[0] < 10, lambda y: y + jnp.abs(y), x), (jnp.abs(x),)),
        "scan of an LSTM": (
            lambda x: lax.scan(cell, (jnp.zeros((4, 64)), jnp.zeros((4, 64))), x)[1], (some(20, 4, 32),)
        ),
        "branch": (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), (x,)),
        "gradient": (jax.grad(lambda x: (jnp.tanh(x) ** 2).mean()), (x,)),
        "Hessian": (jax.hessian(lambda x: (jnp.sin(x) ** 2).sum() * x.prod()), (x[:20],)),
        "vmap of gradients": (jax.vmap(jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), (None, 0)), (some(100), tall)),
        "network": (dense, (mlp, batch)),
        "step of a network": (step, (mlp, batch, labels)),
        "step of a network with Adam": (adam, ((mlp, zeros, zeros), batch, labels)),
        "gradient of a CNN": (jax.grad(cnn), (convolutions, images)),
        "transformer block": (block, (transformer, tokens)),
        "gradient of a transformer block": (jax.grad(lambda w, x: block(w, x).mean()), (transformer, tokens)),
    }  # fmt: skip


def settle(jitted: Any, call: Callable[[], Any]) -> None:
    """Call until veery has found out which of two compilers' programs is faster, where it looks for that."""
    for entry in list(getattr(jitted, "_entries", {}).values()):
        while not getattr(entry.executable, "decided", True):
            call()
            time.sleep(0.01)


def main(library: str) -> None:
    jax = importlib.import_module(library)
    importlib.import_module(f"{library}.numpy")
    jax.block_until_ready(jax.jit(lambda x: x * 3 - 1)(np.ones(5, np.float32)))  # what is done once in a process
    found = {}
    for name, (function, arguments) in programs(jax).items():
        jax.block_until_ready(arguments)
        jitted = jax.jit(lambda *xs, f=function: f(*xs))
        call = functools.partial(jitted, *arguments)
        start = time.perf_counter()
        jax.block_until_ready(call())
        first = time.perf_counter() - start
        settle(jitted, call)
        times: list[float] = []
        while sum(times) < _SECONDS or len(times) < 3:
            start = time.perf_counter()
            jax.block_until_ready(call())
            times.append(time.perf_counter() - start)
        found[name] = [first, statistics.median(times)]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
