"""Linear algebra: solvers, decompositions, Gaussian processes, transport."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, nn


@template()
def sinkhorn(draw: Draw) -> Made:
    n, m, steps = draw.size(17), draw.size(17), draw.integer(1, 5)
    how = draw.pick("scan", "unrolled", "log")

    def fun(cost, a, b):
        a, b = a / a.sum(), b / b.sum()
        if how == "log":
            f, g = jnp.zeros_like(a), jnp.zeros_like(b)
            for _ in range(steps):
                f = jnp.log(a) - nn.logsumexp(g - cost, axis=1)
                g = jnp.log(b) - nn.logsumexp(f[:, None] - cost, axis=0)
            return jnp.exp(f[:, None] + g - cost)
        kernel = jnp.exp(-cost)
        step = lambda uv, _: ((u := a / (kernel @ uv[1]), b / (kernel.T @ u)), None)
        state = (a, b)
        if how == "scan":
            state, _ = lax.scan(step, state, None, length=steps)
        else:
            for _ in range(steps):
                state, _ = step(state, None)
        plan = state[0][:, None] * kernel * state[1]
        return plan, jnp.sum(plan * cost)

    return fun, (draw.positive(n, m), draw.positive(n), draw.positive(m))


@template()
def alternating_normalisation(draw: Draw) -> Made:
    n, m, steps = draw.size(33), draw.size(17), draw.integer(1, 3)

    def fun(x):
        p = jnp.exp(x - x.max())
        for _ in range(steps):
            p = p / p.sum(1, keepdims=True)
            p = p / p.sum(0, keepdims=True)
        return p / p.sum(), (p * p.sum()).sum(1)

    return fun, (draw.normal(n, m),)


@template(half=False)
def gaussian_process(draw: Draw) -> Made:
    n, m, d = draw.size(17), draw.size(7), draw.size(3)
    kind = draw.pick("square", "matern", "periodic")

    def fun(x, y, xs, scale, noise):
        def kernel(a, b):
            r2 = jnp.sum((a[:, None] - b) ** 2, -1) / scale**2
            if kind == "square":
                return jnp.exp(-0.5 * r2)
            if kind == "matern":
                r = jnp.sqrt(r2 + 1e-2)
                return (1 + r) * jnp.exp(-r)
            return jnp.exp(-(jnp.sin(jnp.sqrt(r2 + 1e-2)) ** 2))

        c = jnp.linalg.cholesky(kernel(x, x) + (0.5 + noise) * jnp.eye(n, dtype=x.dtype))
        alpha = lax.linalg.triangular_solve(c, y[:, None], left_side=True, lower=True)
        v = lax.linalg.triangular_solve(c, kernel(x, xs), left_side=True, lower=True)
        likelihood = -0.5 * jnp.sum(alpha**2) - jnp.sum(jnp.log(jnp.diagonal(c)))
        return (v.T @ alpha)[:, 0], 1 - jnp.sum(v**2, 0), likelihood

    return fun, (draw.normal(n, d), draw.normal(n), draw.normal(m, d), draw.positive(), draw.positive())


@template(half=False)
def principal_components(draw: Draw) -> Made:
    n, d = draw.size(33), draw.size(5, least=2)

    def fun(x):
        x = (x - x.mean(0)) * (1 + jnp.arange(d, dtype=x.dtype))
        values, vectors = jnp.linalg.eigh(x.T @ x / n)
        projection = vectors @ vectors.T
        return values, (x @ vectors) ** 2, projection

    return fun, (draw.normal(n + d, d),)


@template(half=False)
def least_squares(draw: Draw) -> Made:
    n, d = draw.size(33, least=5), draw.size(5)
    how = draw.pick("qr", "normal", "ridge")

    def fun(a, b):
        if how == "qr":
            q, r = jnp.linalg.qr(a)
            return lax.linalg.triangular_solve(r, (q.T @ b)[:, None], left_side=True, lower=False)[:, 0]
        extra = 0.1 if how == "ridge" else 0.01
        return jnp.linalg.solve(a.T @ a + extra * jnp.eye(d, dtype=a.dtype), a.T @ b)

    return fun, (draw.normal(n, d), draw.normal(n))


@template(half=False)
def batched_solves(draw: Draw) -> Made:
    b, n, k = draw.size(5), draw.size(5), draw.size(3)
    how = draw.pick("solve", "inv", "det", "slogdet", "map")

    def fun(a, y):
        a = a + 3 * jnp.eye(n, dtype=a.dtype)
        if how == "solve":
            return jnp.linalg.solve(a, y)
        if how == "inv":
            return jnp.linalg.inv(a) @ y
        if how == "det":
            return jnp.linalg.det(a / 3)
        if how == "slogdet":
            return jnp.linalg.slogdet(a)[1]
        return lax.map(lambda x: jnp.linalg.solve(x[0], x[1]).sum(), (a, y))

    return fun, (draw.normal(b, n, n), draw.normal(b, n, k))


@template()
def power_iteration(draw: Draw) -> Made:
    n, steps = draw.size(33), draw.integer(1, 6)

    def fun(a, x):
        s = a @ a.T / n

        def step(_, x):
            y = s @ x
            return y / jnp.sqrt(jnp.sum(y**2) + 0.1)

        x = lax.fori_loop(0, steps, step, x)
        return x, x @ s @ x

    return fun, (draw.normal(n, n), draw.normal(n))


@template()
def conjugate_gradients(draw: Draw) -> Made:
    n, steps = draw.size(17), draw.integer(1, 3)

    def fun(a, b):
        def step(state, _):
            x, r, p = state
            ap = a @ p
            alpha = r @ r / (p @ ap + 0.01)
            new = r - alpha * ap
            return (x + alpha * p, new, new + (new @ new) / (r @ r + 0.01) * p), r @ r

        return lax.scan(step, (jnp.zeros_like(b), b, b), None, length=steps)

    return fun, (draw.definite(n), draw.normal(n))


@template()
def gram_schmidt(draw: Draw) -> Made:
    n, k = draw.size(17, least=3), draw.integer(1, 3)

    def fun(a):
        def step(i, q):
            v = a[:, i] - q @ (q.T @ a[:, i])
            return q.at[:, i].set(v / jnp.sqrt(v @ v + 0.01))

        return lax.fori_loop(0, k, step, jnp.zeros_like(a))

    return fun, (draw.normal(n, k),)


@template()
def elimination_in_place(draw: Draw) -> Made:
    n, m = draw.size(17, least=3), draw.size(13)
    how = draw.pick("loop", "written out", "swapped")

    def fun(a, b):
        def step(i, rows):
            if how == "swapped":
                return rows.at[i].set(rows[i - 1]).at[i - 1].set(rows[i])
            return rows.at[i].set(rows[i] - rows[i - 1] * rows[i, 0] / (jnp.abs(rows[i - 1, 0]) + 1))

        rows = a + b
        if how == "loop":
            return lax.fori_loop(1, n, step, rows)
        for i in range(1, min(n, 5)):
            rows = step(i, rows)
        return rows

    return fun, (draw.normal(n, m), draw.normal(n, m))


@template(half=False)
def matrix_exponential(draw: Draw) -> Made:
    n, terms = draw.size(7), draw.integer(2, 6)

    def fun(a, x):
        total = term = jnp.eye(n, dtype=a.dtype)
        for k in range(1, terms):
            term = term @ a / k
            total = total + term
        return total @ x, jnp.linalg.matrix_power(a / 3, 3), jnp.trace(total)

    return fun, (draw.normal(n, n), draw.normal(n))


@template(half=False)
def multivariate_normal(draw: Draw) -> Made:
    n, d = draw.size(13), draw.size(5)

    def fun(x, mean, a):
        cov = a @ a.T / d + jnp.eye(d, dtype=a.dtype)
        c = jnp.linalg.cholesky(cov)
        z = jax.vmap(lambda r: lax.linalg.triangular_solve(c, r[:, None], left_side=True, lower=True)[:, 0])(x - mean)
        return -0.5 * jnp.sum(z**2, -1) - jnp.sum(jnp.log(jnp.diag(c)))

    return fun, (draw.normal(n, d), draw.normal(d), draw.normal(d, d))


@template()
def kernel_density(draw: Draw) -> Made:
    n, m, d = draw.size(64), draw.size(17), draw.size(3)

    def fun(x, q, h):
        r2 = jnp.sum(((q[:, None] - x[None]) / h) ** 2, -1)
        return nn.logsumexp(-0.5 * r2, axis=1), jnp.sum(jnp.exp(-0.5 * r2), 1) / n

    return fun, (draw.normal(n, d), draw.normal(m, d), draw.positive())


@template(half=False)
def linear_solve_rule(draw: Draw) -> Made:
    n = draw.size(13)

    def fun(diagonal, b, c):
        matvec = lambda x: (2 + diagonal**2) * x + 0.1 * jnp.sum(c * x) * c
        dense = lambda f, b: jnp.linalg.solve(jax.jacfwd(f)(jnp.zeros_like(b)), b)
        return lax.custom_linear_solve(matvec, b, dense, symmetric=True)

    return fun, (draw.normal(n), draw.normal(n), draw.normal(n))


@template()
def non_negative_factors(draw: Draw) -> Made:
    n, m, k = draw.size(17), draw.size(13), draw.size(5)

    def fun(v, w, h):
        h = h * (w.T @ v) / (w.T @ w @ h + 0.1)
        w = w * (v @ h.T) / (w @ h @ h.T + 0.1)
        return w, h, jnp.sum((v - w @ h) ** 2)

    return fun, (draw.positive(n, m), draw.positive(n, k), draw.positive(k, m))


@template(half=False)
def singular_values(draw: Draw) -> Made:
    n, m = draw.size(7), draw.size(5)

    def fun(a):
        u, s, vt = jnp.linalg.svd(a, full_matrices=False)
        return s, jnp.sum(s), (u * jnp.tanh(s)) @ vt

    return fun, (draw.normal(n, m),)


@template()
def tensor_network(draw: Draw) -> Made:
    a, b, c, d = (draw.size(7) for _ in range(4))
    spell = draw.pick("abc,cd,bd->a", "abc,cd,bd->bad", "abc,cd,bd->", "abc,cd,bd->dca")

    def fun(x, y, z):
        return jnp.einsum(spell, x, y, z)

    return fun, (draw.normal(a, b, c), draw.normal(c, d), draw.normal(b, d))


@template()
def robust_covariance(draw: Draw) -> Made:
    n, d = draw.size(33, least=2), draw.size(7)

    def fun(x, weights):
        w = (weights / weights.sum())[:, None]
        mean = (w * x).sum(0)
        cov = ((x - mean) * w).T @ (x - mean)
        std = jnp.sqrt(jnp.diagonal(cov) + 0.1)
        return cov / std[:, None] / std, jnp.median(x, 0)

    return fun, (draw.normal(n, d), draw.positive(n))
