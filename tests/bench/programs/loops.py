"""Loops, branches, scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp, lax = jax.numpy, jax.lax
    some = Some(jnp, 6)
    x = some(1000)
    lstm, recurrent = some(96, 256) / 10, some(128, 128) / 12
    system = np.eye(4, dtype=np.float32) * np.float32(0.99)

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ lstm, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), c

    def rnn(xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ recurrent + x)
            return h, h

        return lax.scan(step, jnp.zeros((16, 128)), xs)[1]

    def mandelbrot(c: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, y, n = state
            inside = x * x + y * y < 4
            return jnp.where(inside, x * x - y * y + c[0], x), jnp.where(inside, 2 * x * y + c[1], y), n + inside

        return lax.fori_loop(0, 50, step, (c[0], c[1], jnp.zeros(c[0].shape, np.int32)))[2]

    def square_root(x: Any) -> Any:
        far = lambda y: jnp.max(jnp.abs(y * y - x)) > 1e-3
        return lax.while_loop(far, lambda y: 0.5 * (y + x / y), x)

    def orbit(state: Any) -> Any:
        def slope(s: Any) -> Any:
            q, p = s
            return p, -q / jnp.sum(q * q) ** 1.5

        def step(_: Any, s: Any) -> Any:
            a = slope(s)
            b = slope(jax.tree.map(lambda s, k: s + 0.005 * k, s, a))
            return jax.tree.map(lambda s, k: s + 0.01 * k, s, b)

        return lax.fori_loop(0, 500, step, state)

    def kalman(observed: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            m, p = state
            m, p = system @ m, system @ p @ system.T + 0.01 * jnp.eye(4)
            gain = p[:, :1] / (p[0, 0] + 0.1)
            m = m + gain[:, 0] * (z - m[0])
            return (m, p - gain @ p[:1]), m

        return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observed)[1]

    def walks(starts: Any) -> Any:
        visit = jax.vmap(lambda count, i: count.at[i].add(1))
        step = lambda k, c: ((c[0] * 7 + k) % 1000, visit(c[1], c[0]))
        return lax.fori_loop(0, 1000, step, (starts, jnp.zeros((8, 1000))))[1]

    def beam_search(scores: Any) -> Any:
        def step(beam: Any, _: Any) -> Any:
            last, total = beam
            total, place = lax.top_k((total[:, None] + scores[last]).reshape(-1), 5)
            return (place % 50, total), (place // 50, place % 50)

        return lax.scan(step, (jnp.zeros(5, np.int32), jnp.arange(5) * -1e9), None, length=30)

    def lattice_boltzmann(flow: Any) -> Any:
        places = np.array([[x, y] for x in (0, 1, -1) for y in (0, 1, -1)])
        weights = np.prod(np.where(places, 1, 4) / 6, axis=1).astype(np.float32)[:, None, None]

        def step(flow: Any, _: Any) -> Any:
            flow = jnp.stack([jnp.roll(f, (int(x), int(y)), (0, 1)) for f, (x, y) in zip(flow, places)])
            density = flow.sum(0)
            speed = jnp.tensordot(places.T.astype(np.float32), flow, 1) / density
            along = jnp.tensordot(places.astype(np.float32), speed, 1)
            rest = density * weights * (1 + 3 * along + 4.5 * along**2 - 1.5 * (speed**2).sum(0))
            return flow - (flow - rest) / 0.6, None

        return lax.scan(step, weights + 0.01 * jnp.abs(flow), None, length=50)[0]

    grid = jnp.stack(jnp.meshgrid(jnp.linspace(-2, 1, 300), jnp.linspace(-1, 1, 200)))
    return {
        "loop": (lambda x: lax.fori_loop(0, 1000, lambda i, y: y * 0.999 + i, x), (x,)),
        "loop on a value": (lambda x: lax.while_loop(lambda y: y[0] < 10, lambda y: y + jnp.abs(y), x), (jnp.abs(x),)),
        "scan of an LSTM": (
            lambda x: lax.scan(cell, (jnp.zeros((4, 64)), jnp.zeros((4, 64))), x)[1], (some(20, 4, 32),)
        ),
        "scan of a network": (rnn, (some(50, 16, 128),)),
        "branch": (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), (x,)),
        "switch under vmap": (
            jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x)), (some.integers(3, 1000), x)
        ),
        "mandelbrot": (mandelbrot, (grid,)),
        "square root by newton": (square_root, (jnp.abs(some(10_000)) + 1,)),
        "orbit": (orbit, ((jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])),)),
        "kalman filter": (kalman, (some(300),)),
        "associative scan": (lambda x: lax.associative_scan(jnp.multiply, 1 + x * 1e-3), (some(10_000),)),
        "visits of 8 walks": (walks, (some.integers(1000, 8),)),
        "beam search": (beam_search, (some(50, 50),)),
        "lattice boltzmann": (lattice_boltzmann, (some(9, 64, 64),)),
        "map": (lambda x: lax.map(lambda row: jnp.sort(row)[0] + row.sum(), x), (some(50, 40),)),
    }  # fmt: skip
