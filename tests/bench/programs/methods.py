"""Whole methods, as people write them: transport, clustering, dynamic programs, simulations, samplers, decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    return {**_fits(jax), **_sequences(jax), **_simulations(jax), **_samplers(jax)}


def _fits(jax: Any) -> Programs:
    jnp, lax = jax.numpy, jax.lax
    some = Some(jnp, 11)
    costs, points = abs(some(200, 200)), some(2000, 8)
    matrix, few = some(100, 50), some(500, 3)

    def transport(costs: Any) -> Any:
        scores, zeros = -costs / 0.1, jnp.zeros(200)

        def step(c: Any, _: Any) -> Any:
            u = -jax.nn.logsumexp(scores + c[1], 1)
            return (u, -jax.nn.logsumexp(scores + u[:, None], 0)), None

        (u, v), _ = lax.scan(step, (zeros, zeros), None, length=50)
        return jnp.sum(jnp.exp(scores + u[:, None] + v) * costs)

    def clusters(points: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            nearest = jnp.argmin(((points[:, None] - c) ** 2).sum(-1), 1)
            chosen = jax.nn.one_hot(nearest, 10)
            return (chosen.T @ points) / jnp.maximum(chosen.sum(0)[:, None], 1), None

        return lax.scan(step, points[:10], None, length=20)[0]

    def lasso(b: Any) -> Any:
        factor = jnp.linalg.cholesky(matrix.T @ matrix + jnp.eye(50))

        def step(c: Any, _: Any) -> Any:
            x, z, u = c
            x = jax.scipy.linalg.cho_solve((factor, True), matrix.T @ b + z - u)
            z = jnp.sign(x + u) * jnp.maximum(abs(x + u) - 1, 0)
            return (x, z, u + x - z), None

        return lax.scan(step, (jnp.zeros(50),) * 3, None, length=100)[0][1]

    def mixture(points: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            means, covariances, weights = c
            factors, apart = jnp.linalg.cholesky(covariances), points - means[:, None]
            solved = jax.vmap(lambda l, d: jax.scipy.linalg.solve_triangular(l, d.T, lower=True))(factors, apart)
            sizes = jnp.log(jnp.diagonal(factors, axis1=1, axis2=2)).sum(1)
            likely = jax.nn.softmax(jnp.log(weights)[:, None] - sizes[:, None] - 0.5 * (solved**2).sum(1), 0)
            counts = likely.sum(1)
            means = likely @ points / counts[:, None]
            apart = points - means[:, None]
            covariances = jnp.einsum("kn,kni,knj->kij", likely, apart, apart) / counts[:, None, None]
            return (means, covariances + 1e-3 * jnp.eye(3), counts / 500), None

        start = points[:4], jnp.tile(jnp.eye(3), (4, 1, 1)), jnp.ones(4) / 4
        return lax.scan(step, start, None, length=20)[0]

    return {
        "optimal transport": (transport, (costs,)),
        "optimal transport, gradient": (jax.grad(transport), (costs,)),
        "k-means": (clusters, (points,)),
        "lasso by ADMM": (lasso, (some(100),)),
        "a mixture of normals": (mixture, (few,)),
    }


def _sequences(jax: Any) -> Programs:
    jnp, lax = jax.numpy, jax.lax
    some = Some(jnp, 12)
    changes, words = some(32, 32), some(100, 64)
    weights = some(64, 192) / 8, some(64, 64) / 8, some(64, 256) / 8, some(256, 64) / 16

    def warping(x: Any, y: Any) -> Any:
        infinite = jnp.full(1, jnp.inf)

        def row(before: Any, costs: Any) -> Any:
            def cell(left: Any, given: Any) -> Any:
                value = given[0] + jnp.minimum(jnp.minimum(left, given[1]), given[2])
                return value, value

            found = lax.scan(cell, jnp.float32(jnp.inf), (costs, before[1:], before[:-1]))[1]
            return jnp.concatenate([infinite, found]), None

        start = jnp.concatenate([jnp.zeros(1), jnp.full(100, jnp.inf)])
        return lax.scan(row, start, (x[:, None] - y) ** 2)[0][-1]

    def likeliest(scores: Any) -> Any:
        def step(c: Any, score: Any) -> Any:
            paths = c[:, None] + changes
            return paths.max(0) + score, paths.argmax(0)

        last, backwards = lax.scan(step, scores[0], scores[1:])
        return lax.scan(lambda t, row: (row[t], row[t]), last.argmax(), backwards, reverse=True)[1]

    def decoder(word: Any) -> Any:
        mix, out, up, down = weights

        def step(c: Any, i: Any) -> Any:
            word, keys, values = c
            x = words[word]
            query, key, value = jnp.split(x @ mix, 3)
            keys, values = keys.at[i].set(key), values.at[i].set(value)
            scores = jnp.einsum("hd,thd->ht", query.reshape(4, 16), keys.reshape(-1, 4, 16)) / 4
            scores = jax.nn.softmax(jnp.where(jnp.arange(64) <= i, scores, -1e9))
            x = x + jnp.einsum("ht,thd->hd", scores, values.reshape(-1, 4, 16)).reshape(64) @ out
            x = x + jax.nn.gelu(x @ up) @ down
            word = jnp.argmax(x @ words.T)
            return (word, keys, values), word

        return lax.scan(step, (word, jnp.zeros((64, 64)), jnp.zeros((64, 64))), jnp.arange(64))[1]

    return {
        "time warping": (warping, (some(100), some(100))),
        "time warping, gradients of 8": (jax.vmap(jax.grad(warping)), (some(8, 100), some(8, 100))),
        "the likeliest path": (likeliest, (some(200, 32),)),
        "64 words with a cache": (decoder, (jnp.int32(3),)),
        "64 words with a cache, 8 texts": (jax.vmap(decoder), (jnp.arange(8),)),
    }


def _simulations(jax: Any) -> Programs:
    jnp, lax = jax.numpy, jax.lax
    some = Some(jnp, 13)
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    speeds = jnp.asarray(np.array(around, np.float32))
    shares = jnp.asarray(np.array([[1, 4, 1], [4, 16, 4], [1, 4, 1]], np.float32).ravel() / 36)
    waves = jnp.asarray(np.fft.fftfreq(128).astype(np.float32) * 128)
    policy = some(4, 32), some(32, 1) / 6

    def life(cells: Any) -> Any:
        def step(_: Any, cells: Any) -> Any:
            count = sum(jnp.roll(cells, d, (0, 1)).astype(jnp.int32) for d in around if d != (0, 0))
            return (count == 3) | (cells & (count == 2))

        return lax.fori_loop(0, 50, step, cells)

    def flow(f: Any) -> Any:
        def step(_: Any, f: Any) -> Any:
            density = f.sum(0)
            velocity = jnp.einsum("qxy,qd->dxy", f, speeds) / density
            along = jnp.einsum("qd,dxy->qxy", speeds, velocity) * 3
            rest = 1 + along + 0.5 * along**2 - 1.5 * (velocity**2).sum(0)
            f = f - 0.6 * (f - density * shares[:, None, None] * rest)
            return jnp.stack([jnp.roll(part, d, (0, 1)) for part, d in zip(f, around)])

        return lax.fori_loop(0, 20, step, f)

    def heat(u: Any) -> Any:
        decay = jnp.exp(-0.001 * (waves[:, None] ** 2 + waves**2))
        step = lambda _, u: jnp.real(jnp.fft.ifft2(jnp.fft.fft2(u - 0.1 * u**3) * decay))
        return lax.fori_loop(0, 20, step, u)

    def pole(state: Any, push: Any) -> Any:
        x, v, angle, turn = state
        force = (10 * jnp.tanh(push) + 0.05 * turn**2 * jnp.sin(angle)) / 1.1
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        change = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        return state + 0.02 * jnp.stack([v, force - 0.05 * change * cosine / 1.1, turn, change])

    def fall(policy: Any, starts: Any) -> Any:
        def run(start: Any) -> Any:
            def step(state: Any, _: Any) -> Any:
                state = pole(state, (jnp.tanh(state @ policy[0]) @ policy[1])[0])
                return state, state[2] ** 2

            return lax.scan(step, start, None, length=100)[1].sum()

        return jax.vmap(run)(starts).mean()

    return {
        "life": (life, (some(128, 128) > 0.5,)),
        "a flow on a lattice": (flow, (abs(some(9, 64, 64)) * 0.01 + shares[:, None, None],)),
        "heat by Fourier transforms": (heat, (some(128, 128),)),
        "a policy's gradient through 32 runs": (jax.value_and_grad(fall), (policy, some(32, 4) * 0.1)),
    }


def _samplers(jax: Any) -> Programs:
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    key = random.key(0)

    def magnets(key: Any) -> Any:
        even = (jnp.indices((64, 64)).sum(0) % 2) == 0

        def step(spins: Any, key: Any) -> Any:
            for half, chance in zip((even, ~even), random.split(key)):
                field = sum(jnp.roll(spins, d, a) for d in (1, -1) for a in (0, 1))
                flips = half & (random.uniform(chance, spins.shape) < jnp.exp(-0.88 * spins * field))
                spins = jnp.where(flips, -spins, spins)
            return spins, spins.mean()

        return lax.scan(step, jnp.ones((64, 64)), random.split(key, 50))[1]

    def chain(key: Any) -> Any:
        energy = lambda x: jnp.sum(x**4) - jnp.sum(x**2)

        def step(x: Any, key: Any) -> Any:
            move, accept = random.split(key)
            new = x + 0.3 * random.normal(move, x.shape)
            x = lax.cond(jnp.log(random.uniform(accept)) < energy(x) - energy(new), lambda: new, lambda: x)
            return x, x

        return lax.scan(step, jnp.zeros(3), random.split(key, 200))[1]

    def option(key: Any) -> Any:
        def path(key: Any) -> Any:
            def step(c: Any, z: Any) -> Any:
                price, variance = c
                price = price * jnp.exp((0.02 - 0.5 * variance) / 252 + jnp.sqrt(variance / 252) * z)
                return (price, abs(variance + 0.1 * (0.04 - variance) / 252)), None

            return lax.scan(step, (jnp.float32(100), jnp.float32(0.04)), random.normal(key, (252,)))[0][0]

        return jnp.mean(jnp.maximum(jax.vmap(path)(random.split(key, 2000)) - 100, 0))

    return {
        "magnets": (magnets, (key,)),
        "50 chains": (jax.vmap(chain), (random.split(key, 50),)),
        "an option's price": (option, (key,)),
    }
