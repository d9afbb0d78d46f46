"""Dynamic programming, filters over time, samplers."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, nn


@template()
def hidden_markov_forward(draw: Draw) -> Made:
    t, s, v = draw.size(13), draw.size(7), draw.size(5)

    def fun(start, move, emit, seen):
        a, b = nn.log_softmax(move), nn.log_softmax(emit)[:, seen].T
        step = lambda alpha, e: (nn.logsumexp(alpha[:, None] + a, axis=0) + e,) * 2
        alpha, trail = lax.scan(step, nn.log_softmax(start) + b[0], b[1:])
        return nn.logsumexp(alpha), trail

    return fun, (draw.normal(s), draw.normal(s, s), draw.normal(s, v), draw.integers(0, v, t))


@template()
def viterbi(draw: Draw) -> Made:
    t, s = draw.size(13), draw.size(7)

    def fun(scores, move):
        def forward(best, e):
            total = best[:, None] + move
            return total.max(0) + e, total.argmax(0)

        best, back = lax.scan(forward, scores[0], scores[1:])
        last = jnp.argmax(best)
        _, path = lax.scan(lambda state, pointers: (pointers[state], state), last, back, reverse=True)
        return best.max(), path, last

    return fun, (draw.normal(t, s), draw.normal(s, s))


@template()
def max_plus_scan(draw: Draw) -> Made:
    t, s = draw.size(13), draw.size(7)
    soft = draw.chance(0.3)

    def fun(x, m):
        reduce = nn.logsumexp if soft else jnp.max
        step = lambda c, e: ((c := reduce(c[:, None] + m, axis=0) + e), c.sum())
        return lax.scan(step, jnp.zeros(s, x.dtype), x)

    return fun, (draw.normal(t, s), draw.normal(s, s))


@template()
def edit_distance(draw: Draw) -> Made:
    n, m = draw.size(13), draw.size(13)
    soft = draw.chance(0.5)

    def fun(a, b, gap):
        cost = (a[:, None] != b).astype(gap.dtype)
        first = jnp.arange(m + 1, dtype=gap.dtype) * gap
        smallest = (lambda x, y: -jnp.logaddexp(-x, -y)) if soft else jnp.minimum

        def row(previous, c):
            def cell(left, x):
                up, corner, cost = x
                new = smallest(smallest(left + gap, up + gap), corner + cost)
                return new, new

            start = previous[0] + gap
            _, rest = lax.scan(cell, start, (previous[1:], previous[:-1], c))
            return jnp.concatenate([start[None], rest]), rest[-1]

        return lax.scan(row, first, cost)

    return fun, (draw.integers(0, 4, n), draw.integers(0, 4, m), draw.positive())


@template()
def dynamic_time_warping(draw: Draw) -> Made:
    n, m = draw.size(13), draw.size(7)

    def fun(a, b):
        cost = (a[:, None] - b) ** 2

        def row(previous, c):
            up = jnp.minimum(previous, jnp.concatenate([jnp.full(1, 1e3, c.dtype), previous[:-1]]))
            cell = lambda left, x: ((new := x[1] + jnp.minimum(left, x[0])), new)
            return lax.scan(cell, jnp.asarray(1e3, c.dtype), (up, c))[1], up[0]

        final, _ = lax.scan(row, jnp.cumsum(cost[0]), cost[1:])
        return final[-1]

    return fun, (draw.normal(n), draw.normal(m))


@template()
def knapsack(draw: Draw) -> Made:
    n, capacity = draw.size(7), draw.size(33, least=5)

    def fun(values, weights):
        def item(best, x):
            value, weight = x
            index = jnp.arange(capacity) - weight
            taken = jnp.where(index >= 0, best[jnp.maximum(index, 0)] + value, -1e3)
            return jnp.maximum(best, taken), taken > best

        return lax.scan(item, jnp.zeros(capacity, values.dtype), (values, weights))

    return fun, (draw.positive(n), draw.integers(1, 5, n))


@template()
def ctc_loss(draw: Draw) -> Made:
    t, k, v = draw.size(13, least=5), draw.integer(1, 2), draw.size(7, least=3)

    def fun(logits, labels):
        logp = nn.log_softmax(logits)
        extended = jnp.zeros(2 * k + 1, labels.dtype).at[1::2].set(labels)
        skip = (extended != 0) & (extended != jnp.roll(extended, 2)) & (jnp.arange(2 * k + 1) >= 2)
        low = jnp.asarray(-1e4, logp.dtype)
        start = jnp.full(2 * k + 1, low).at[:2].set(logp[0, extended[:2]])

        def step(alpha, lp):
            one = jnp.pad(alpha, (1, 0), constant_values=low)[:-1]
            two = jnp.where(skip, jnp.pad(alpha, (2, 0), constant_values=low)[:-2], low)
            new = nn.logsumexp(jnp.stack([alpha, one, two]), axis=0) + lp[extended]
            return new, None

        alpha, _ = lax.scan(step, start, logp[1:])
        return -jnp.logaddexp(alpha[-1], alpha[-2])

    return fun, (draw.normal(t, v), draw.integers(1, v, k))


@template(half=False)
def kalman_filter(draw: Draw) -> Made:
    t, n, m = draw.size(7), draw.size(3), draw.size(2)
    how = draw.pick("solve", "inv", "cholesky")

    def fun(f, h, q, r, y):
        def step(state, y):
            x, p = state
            x, p = f @ x, f @ p @ f.T + q
            s = h @ p @ h.T + r
            if how == "inv":
                gain = p @ h.T @ jnp.linalg.inv(s)
            elif how == "solve":
                gain = jnp.linalg.solve(s, h @ p).T
            else:
                gain = _by_cholesky(s, h @ p).T
            e = y - h @ x
            return (x + gain @ e, p - gain @ h @ p), (x, jnp.linalg.slogdet(s)[1])

        return lax.scan(step, (jnp.zeros(n, y.dtype), jnp.eye(n, dtype=y.dtype)), y)

    return fun, (draw.normal(n, n) * 0.5, draw.normal(m, n), draw.definite(n), draw.definite(m), draw.normal(t, m))


def _by_cholesky(s, b):
    c = jnp.linalg.cholesky(s)
    half = lax.linalg.triangular_solve(c, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(c, half, left_side=True, lower=True, transpose_a=True)


@template()
def particle_filter(draw: Draw) -> Made:
    t, n = draw.size(5), draw.size(33)
    how = draw.pick("systematic", "multinomial", "none")

    def fun(y, particles, noise, u):
        def step(x, inputs):
            y, noise, u = inputs
            x = jnp.sin(x) + 0.3 * noise
            logw = -0.5 * (y - x) ** 2
            w = nn.softmax(logw)
            if how == "none":
                index = jnp.arange(n)
            else:
                points = (jnp.arange(n) + u[0]) / n if how == "systematic" else u
                index = jnp.clip(jnp.searchsorted(jnp.cumsum(w), points.astype(w.dtype)), 0, n - 1)
            return x[index], (jnp.sum(w * x), nn.logsumexp(logw), 1 / jnp.sum(w**2))

        return lax.scan(step, particles, (y, noise, u))

    u = draw.mask(t, n).astype(draw.normal().dtype) * 0.5 + 0.25
    return fun, (draw.normal(t), draw.normal(n), draw.normal(t, n), u)


@template()
def hamiltonian_monte_carlo(draw: Draw) -> Made:
    d, steps = draw.size(7), draw.integer(1, 4)

    def fun(x, p, u, scale):
        energy = lambda x: 0.5 * jnp.sum((x * scale) ** 2) + jnp.sum(jnp.cos(x))
        force = jax.grad(energy)

        def leap(_, state):
            x, p = state
            p = p - 0.05 * force(x)
            x = x + 0.1 * p
            return x, p - 0.05 * force(x)

        y, q = lax.fori_loop(0, steps, leap, (x, p))
        change = energy(x) + 0.5 * p @ p - energy(y) - 0.5 * q @ q
        return jnp.where(jnp.log(u) < change, y, x), change

    return fun, (draw.normal(d), draw.normal(d), draw.positive() * 0.4, draw.positive(d))


@template()
def gumbel_softmax(draw: Draw) -> Made:
    n, k = draw.size(33), draw.size(13)

    def fun(logits, u, temperature):
        g = -jnp.log(-jnp.log(u))
        soft = nn.softmax((logits + g) / temperature)
        hard = nn.one_hot(jnp.argmax(soft, -1), k, dtype=soft.dtype)
        return hard - lax.stop_gradient(soft) + soft

    return fun, (draw.normal(n, k), (draw.positive(n, k) * 0.4), draw.positive())


@template(half=False)
def random_sampling(draw: Draw) -> Made:
    n, k = draw.size(33), draw.size(7)
    how = draw.pick("normal", "uniform", "categorical", "permutation", "randint", "exponential", "choice")

    def fun(key, x):
        key = jax.random.wrap_key_data(key)
        a, b = jax.random.split(key)
        noise = jax.random.normal(a, x.shape, x.dtype)
        y = x + 0.1 * noise
        if how == "normal":
            return y, jax.random.normal(b, (n, 3), x.dtype) @ jnp.ones((3, k), x.dtype)
        if how == "uniform":
            return y * jax.random.uniform(b, x.shape, x.dtype, 0.5, 2.0)
        if how == "categorical":
            return y, jax.random.categorical(b, y)
        if how == "permutation":
            return y[jax.random.permutation(b, n)]
        if how == "randint":
            return y[jax.random.randint(b, (5,), 0, n)]
        if how == "choice":
            return y[jax.random.choice(b, n, (3,))]
        return y * jax.random.exponential(b, x.shape, x.dtype)

    return fun, (draw.bits(2), draw.normal(n, k))


@template()
def exponential_smoothing(draw: Draw) -> Made:
    t, d = draw.size(64), draw.size(7)
    axis, reverse = draw.pick(0, 1), draw.chance(0.5)

    def fun(x, rate):
        y = jnp.moveaxis(x, axis, 0)
        step = lambda c, a: ((c := c + nn.sigmoid(rate) * (a - c)), c)
        last, out = lax.scan(step, y[0], y, reverse=reverse)
        return jnp.concatenate([jnp.moveaxis(out, 0, axis), jnp.expand_dims(last, axis)], axis)

    return fun, (draw.normal(t, d), draw.normal())


@template()
def infinite_response_filter(draw: Draw) -> Made:
    t, order = draw.size(33), draw.integer(1, 4)

    def fun(b, a, x):
        def step(z, x):
            y = b[0] * x + z[0]
            z = jnp.append(z[1:], jnp.zeros(1, z.dtype)) + b[1:] * x - 0.2 * jnp.tanh(a) * y
            return z, y

        return lax.scan(step, jnp.zeros(order, x.dtype), x)[1]

    return fun, (draw.normal(order + 1), draw.normal(order), draw.normal(t))


@template()
def cumulative_statistics(draw: Draw) -> Made:
    n, d = draw.size(129), draw.size(5)
    axis, reverse = draw.pick(0, 1), draw.chance(0.4)

    def fun(x):
        run = lax.cumsum(x, axis, reverse=reverse) / 10
        count = jnp.arange(1, x.shape[axis] + 1, dtype=x.dtype)
        count = count[:, None] if axis == 0 else count
        return run / count, lax.cummax(x, axis, reverse=reverse), lax.cumlogsumexp(x, axis, reverse=reverse)

    return fun, (draw.normal(n, d),)


@template()
def beam_search(draw: Draw) -> Made:
    v, beams, t = draw.size(13, least=3), draw.integer(1, 3), draw.integer(1, 4)

    def fun(move, start):
        def step(state, _):
            score, last = state
            total = (score[:, None] + nn.log_softmax(move)[last]).reshape(-1)
            best, index = lax.top_k(total, beams)
            return (best, index % v), (index // v, index % v)

        score, last = lax.top_k(nn.log_softmax(start), beams)
        return lax.scan(step, (score, last), None, length=t)

    return fun, (draw.normal(v, v), draw.normal(v))


@template()
def reachability(draw: Draw) -> Made:
    n, steps = draw.size(17), draw.integer(1, 4)
    boolean = draw.chance(0.5)

    def fun(adjacency, x):
        reach = adjacency | jnp.eye(n, dtype=bool)
        for _ in range(steps):
            if boolean:
                reach = jnp.any(reach[:, :, None] & reach[None], axis=1)
            else:
                reach = reach.astype(x.dtype) @ reach.astype(x.dtype) > 0.5
        return reach, reach.astype(x.dtype) @ x

    return fun, (draw.mask(n, n, share=0.1), draw.normal(n, draw.size(5)))


@template()
def shortest_paths(draw: Draw) -> Made:
    n = draw.size(13)

    def fun(w, mask):
        d = jnp.where(mask, w, 100).astype(w.dtype)
        relax = lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k])
        return lax.fori_loop(0, n, relax, d)

    return fun, (draw.positive(n, n), draw.mask(n, n, share=0.3))


@template(reverse=False)
def collatz_lengths(draw: Draw) -> Made:
    n = draw.size(33)

    def fun(start, x):
        def one(n):
            go = lambda s: (s[0] > 1) & (s[1] < 50)
            step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
            return lax.while_loop(go, step, (n, 0))[1]

        lengths = jax.vmap(one)(start)
        return lengths, x * lengths.astype(x.dtype) / 10

    return fun, (draw.integers(1, 60, n), draw.normal(n))


@template()
def token_sampling(draw: Draw) -> Made:
    n, v, k = draw.size(13), draw.size(33, least=5), draw.integer(1, 5)
    p = draw.pick(0.5, 0.9)

    def fun(logits, u):
        ordered = jnp.sort(logits, axis=-1)[:, ::-1]
        probabilities = nn.softmax(ordered)
        keep = jnp.cumsum(probabilities, -1) - probabilities < p
        floor = jnp.min(jnp.where(keep, ordered, 1e3), -1, keepdims=True)
        cut = jnp.where((logits >= floor) & (logits >= lax.top_k(logits, k)[0][:, -1:]), logits, -1e3)
        cumulative = jnp.cumsum(nn.softmax(cut), -1)
        return jnp.sum(cumulative < u[:, None], -1), nn.log_softmax(cut).max(-1)

    return fun, (draw.normal(n, v), draw.positive(n) * 0.4)


@template()
def history(draw: Draw) -> Made:
    n, d, steps = draw.size(17, least=2), draw.size(7), draw.integer(1, 5)
    newest = draw.pick("last", "first")
    all_of_them = draw.chance(0.5)

    def fun(buffer, xs, weights):
        def step(buffer, x):
            y = jnp.tanh(weights @ buffer)
            if newest == "last":
                buffer = buffer.at[:-1].set(buffer[1:]).at[-1].set(x + y)
            else:
                buffer = buffer.at[1:].set(buffer[:-1]).at[0].set(x + y)
            return buffer, buffer[::2] if all_of_them else y

        return lax.scan(step, buffer * 0.5, xs)

    return fun, (draw.normal(n, d), draw.normal(steps, d), draw.normal(n))
