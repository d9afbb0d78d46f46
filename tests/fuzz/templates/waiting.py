"""Loops that wait: for what the host computes, or for numbers that other loops end with or that come late."""

from __future__ import annotations

import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, random


@template(half=False, smooth=False)
def samples_in_turn(draw: Draw) -> Made:
    """Rejection, whose trips end when values say so, in each trip of another loop."""
    n, count = draw.size(33), draw.integer(1, 4)
    sample = draw.pick(
        lambda key, a, b: random.gamma(key, a),
        lambda key, a, b: random.beta(key, a, b),
        lambda key, a, b: random.loggamma(key, a) - random.exponential(key, b.shape, b.dtype),
        lambda key, a, b: random.dirichlet(key, jnp.stack([a, b], -1)),
    )
    carried = draw.chance(0.5)

    def fun(words, a, b):
        def step(total, word):
            x = sample(random.wrap_key_data(word), a + total if carried else a, b)
            return total + jnp.abs(x).mean(), (x, x.sum())

        return lax.scan(step, jnp.zeros((), a.dtype), words)

    return fun, (draw.bits(count, 2), draw.positive(n), draw.positive(n))


@template(half=False, reverse=False, smooth=False)
def sorted_until_they_settle(draw: Draw) -> Made:
    """What the host sorts is carried, and used after the loops: by one another, and by a loop around them."""
    n, loops, count = draw.size(33), draw.integer(1, 3), draw.integer(1, 4)
    around = draw.chance(0.6)

    def settle(x, y):
        def step(state):
            trip, x, y = state
            z = jnp.sort(x * 0.5 + y[::-1])
            return trip + 1, z, (jnp.cumsum(z) * 0.1)[::-1] + x * 0.25

        return lax.while_loop(lambda state: (state[0] < 7) & (jnp.abs(state[1]).sum() > 0.5), step, (0, x, y))

    def fun(x, scales):
        def step(c, scale):
            trips, y = [], c * scale
            for _ in range(loops):
                trip, c, y = settle(y, c)
                trips.append(trip)
            return jnp.tanh(c + y), (sum(trips), y, jnp.argsort(c).sum())

        if around:
            return lax.scan(step, x, scales)
        return step(x, scales.sum())

    return fun, (draw.normal(n), draw.positive(count))


@template(half=False, reverse=False, smooth=False)
def solved_until_close(draw: Draw) -> Made:
    """Equations that LAPACK solves in the trips, as many as their solutions ask for, of a loop within another."""
    n, count = draw.size(7), draw.integer(1, 3)

    def fun(a, targets):
        def newton(x, target):
            def step(state):
                trip, x, _ = state
                change = jnp.linalg.solve(a + jnp.diag(x * x), target - a @ x - x**3 / 3)
                return trip + 1, x + change, jnp.abs(change).max()

            trip, x, change = lax.while_loop(lambda s: (s[0] < 9) & (s[2] > 1e-2), step, (0, x, jnp.ones((), x.dtype)))
            return x, (x, trip * (change > -1))

        x, trail = lax.scan(newton, jnp.zeros(n, a.dtype), targets)
        return x @ a, trail

    return fun, (draw.definite(n), draw.normal(count, n) * 0.5)


@template(half=False, smooth=False)
def numbers_in_turn(draw: Draw) -> Made:
    """Numbers and keys that loops begin with are computed; the trips convert them, to types of all widths."""
    n, trips = draw.size(33), draw.integer(1, 6)
    name = draw.pick("float16", "bfloat16", "uint8", "uint16", "uint32", "int8", "float32")
    between = draw.pick("float32", "int32", "uint8", "uint32")
    counted, drawn = draw.chance(0.7), draw.chance(0.5)

    def fun(a, x):
        late = lax.fori_loop(0, 400, lambda i, b: jnp.tanh(b @ a / n) * 0.5 + 0.1, a)
        start = jnp.clip(late.sum() * 10, 0, 99).astype(between)
        key = random.key(start.astype("uint32"))

        def step(trip, key, number, x):
            key, own = random.split(key)
            number = ((number * 3 + 1) % 100).astype(number.dtype)
            line = jnp.cumsum(x) * number.astype(name).astype(x.dtype) * 0.01
            if drawn:
                line = line[jnp.searchsorted(jnp.cumsum(jnp.abs(line)), random.uniform(own, (n,), x.dtype)) % n]
            return trip + 1, key, number, jnp.tanh(line[::-1]) + x * 0.5

        if counted:
            state = lax.fori_loop(0, trips, lambda i, state: step(*state), (0, key, start, x))
        else:
            state = lax.while_loop(lambda state: state[0] != trips, lambda state: step(*state), (0, key, start, x))
        return state[3], (random.key_data(state[1]), state[2])

    return fun, (draw.normal(n, n), draw.normal(n))
