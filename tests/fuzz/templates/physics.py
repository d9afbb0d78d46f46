"""Complex numbers, Fourier transforms, quantum circuits, differential equations, roots."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax


@template(half=False)
def quantum_circuit(draw: Draw) -> Made:
    qubits, layers = draw.integer(1, 4), draw.integer(1, 3)
    kind = draw.pick("einsum", "tensordot", "matrix")

    def gate(theta):
        c, s = jnp.cos(theta / 2), jnp.sin(theta / 2)
        return jnp.stack([jnp.stack([c + 0j, -1j * s]), jnp.stack([-1j * s, c + 0j])])

    def fun(angles, phases):
        state = jnp.zeros((2,) * qubits, phases.dtype).at[(0,) * qubits].set(1)
        for layer in range(layers):
            for q in range(qubits):
                g = gate(angles[layer, q]).astype(phases.dtype)
                if kind == "einsum":
                    letters = "abcdefgh"[:qubits]
                    state = jnp.einsum(f"z{letters[q]},{letters}->{letters.replace(letters[q], 'z')}", g, state)
                elif kind == "tensordot":
                    state = jnp.moveaxis(jnp.tensordot(g, state, ([1], [q])), 0, q)
                else:
                    flat = jnp.moveaxis(state, q, 0).reshape(2, -1)
                    state = jnp.moveaxis((g @ flat).reshape((2,) * qubits), 0, q)
            state = state * jnp.exp(1j * jnp.angle(phases)).reshape(state.shape).astype(phases.dtype)
        weights = jnp.arange(2**qubits).reshape(state.shape)
        return jnp.sum(jnp.abs(state) ** 2 * weights), jnp.real(state)

    return fun, (draw.normal(layers, qubits), draw.normal(2**qubits, dtype=draw.complex))


@template(half=False)
def fourier_filter(draw: Draw) -> Made:
    n, d = draw.size(33, least=2), draw.size(5)
    kind = draw.pick("fft", "rfft", "fft2")

    def fun(x, gains):
        if kind == "rfft":
            spectrum = jnp.fft.rfft(x, axis=0)
            return jnp.fft.irfft(spectrum * gains[: spectrum.shape[0], None], n, axis=0)
        if kind == "fft":
            return jnp.fft.ifft(jnp.fft.fft(x, axis=0) * gains[:, None], axis=0).real
        return jnp.abs(jnp.fft.fft2(x)) ** 2 * gains[:, None]

    return fun, (draw.normal(n, d), draw.normal(n))


@template(half=False)
def complex_layers(draw: Draw) -> Made:
    n, d, k = draw.size(13), draw.size(13), draw.size(7)
    how = draw.pick("modulus", "real", "angle", "holomorphic")

    def fun(z, w, x):
        y = (z + x) @ w / (1 + d)
        if how == "modulus":
            return jnp.sqrt(jnp.abs(y) ** 2 + 0.1)
        if how == "real":
            return jnp.real(y * jnp.conj(y)) + jnp.imag(y)
        if how == "angle":
            return jnp.angle(y + 2)
        return jnp.sin(y) + jnp.exp(y / 3)

    return fun, (draw.normal(n, d, dtype=draw.complex), draw.normal(d, k, dtype=draw.complex), draw.normal(n, d))


@template(half=False)
def mandelbrot_steps(draw: Draw) -> Made:
    n, steps = draw.size(17), draw.integer(1, 5)

    def fun(c):
        step = lambda _, z: jnp.where(jnp.abs(z) < 2, z * z + c, z)
        z = lax.fori_loop(0, steps, step, jnp.zeros_like(c))
        return z, jnp.abs(z) < 2

    return fun, (draw.normal(n, dtype=draw.complex) * 0.4,)


@template()
def runge_kutta(draw: Draw) -> Made:
    d, steps = draw.size(7, least=2), draw.integer(1, 6)
    system = draw.pick("pendulum", "lotka", "linear")

    def fun(y, a, dt):
        dt = 0.1 * jnp.tanh(dt)

        def slope(y):
            if system == "pendulum":
                return jnp.concatenate([y[1:], -jnp.sin(y[:1])])
            if system == "lotka":
                return jnp.tanh(y) * (1 - a @ jnp.tanh(y) / d)
            return a @ y / d

        def step(y, _):
            k1 = slope(y)
            k2 = slope(y + dt / 2 * k1)
            k3 = slope(y + dt / 2 * k2)
            k4 = slope(y + dt * k3)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, y

        return lax.scan(step, y, None, length=steps)

    return fun, (draw.normal(d), draw.normal(d, d), draw.positive())


@template()
def heat_equation(draw: Draw) -> Made:
    n, m, steps = draw.size(17, least=3), draw.size(13, least=3), draw.integer(1, 4)
    edge = draw.pick("wrap", "edge", "constant", "reflect")

    def fun(u, k):
        def step(_, u):
            p = jnp.pad(u, 1, mode=edge)
            laplacian = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
            return u + 0.1 * jnp.tanh(k) * laplacian

        return lax.fori_loop(0, steps, step, u)

    return fun, (draw.normal(n, m), draw.normal(n, m))


@template()
def heat_equation_in_place(draw: Draw) -> Made:
    n, m, steps = draw.size(33, least=3), draw.size(13, least=3), draw.integer(1, 4)
    loop = draw.chance(0.5)
    inner = (slice(1, -1), slice(1, -1)) if draw.chance(0.5) else (slice(1, -1),)
    ahead, behind = (slice(2, None), *inner[1:]), (slice(-2), *inner[1:])

    def fun(u, k):
        def step(_, u):
            return u.at[inner].set(u[inner] + 0.2 * jnp.tanh(k[inner]) * (u[ahead] - 2 * u[inner] + u[behind]))

        u = u * 1.5
        if loop:
            return lax.fori_loop(0, steps, step, u)
        for i in range(steps):
            u = step(i, u)
        return u

    return fun, (draw.normal(n, m), draw.normal(n, m))


@template()
def wave_equation(draw: Draw) -> Made:
    n, steps = draw.size(33), draw.integer(1, 5)

    def fun(u, v):
        def step(state, _):
            u, v = state
            v = v + 0.2 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))
            return (u + 0.2 * v, v), jnp.sum(v**2)

        return lax.scan(step, (u, v), None, length=steps)

    return fun, (draw.normal(n), draw.normal(n))


@template()
def newton_root(draw: Draw) -> Made:
    n, steps = draw.size(17), draw.integer(1, 4)

    def fun(x, a):
        f = lambda x: x**3 + 3 * x - a
        step = lambda _, x: x - f(x) / jax.vmap(jax.grad(lambda x, a: x**3 + 3 * x - a))(x, a)
        return lax.fori_loop(0, steps, step, x)

    return fun, (draw.normal(n), draw.normal(n))


@template(reverse=False)
def newton_until(draw: Draw) -> Made:
    n = draw.size(7)

    def fun(a):
        def one(a):
            go = lambda s: (jnp.abs(s[0] ** 2 - a) > 1e-2) & (s[1] < 20)
            step = lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1)
            return lax.while_loop(go, step, (a, 0))

        root, count = jax.vmap(one)(a)
        return root

    return fun, (draw.positive(n) + 1,)


@template()
def bisection(draw: Draw) -> Made:
    n, steps = draw.size(17), draw.integer(2, 12)

    def fun(a):
        def step(bounds, _):
            low, high = bounds
            mid = (low + high) / 2
            below = mid**3 + mid < a
            return (jnp.where(below, mid, low), jnp.where(below, high, mid)), None

        (low, high), _ = lax.scan(step, (a - 4, a + 4), None, length=steps)
        return (low + high) / 2

    return fun, (draw.normal(n),)


@template()
def lennard_jones(draw: Draw) -> Made:
    n, d = draw.size(13, least=2), draw.integer(1, 3)

    def fun(x):
        def energy(x):
            r2 = jnp.sum((x[:, None] - x) ** 2, -1) + 1 + jnp.eye(n, dtype=x.dtype)
            upper = jnp.triu(jnp.ones((n, n), bool), 1)
            return jnp.sum(jnp.where(upper, r2**-6 - r2**-3, 0))

        value, force = jax.value_and_grad(energy)(x)
        return value, x - 0.1 * force

    return fun, (draw.normal(n, d),)


@template()
def ray_tracing(draw: Draw) -> Made:
    n, k = draw.size(33), draw.size(5)

    def fun(rays, centres, radii):
        d = rays / jnp.sqrt(jnp.sum(rays**2, -1, keepdims=True) + 0.1)
        b = d @ centres.T
        disc = b**2 - (jnp.sum(centres**2, -1) - radii**2)
        hit = disc > 0
        t = jnp.where(hit, b - jnp.sqrt(jnp.where(hit, disc, 1)), 1e3)
        nearest = jnp.argmin(t, -1)
        depth = jnp.take_along_axis(t, nearest[:, None], -1)[:, 0]
        return jnp.where(depth < 1e2, depth, 0), jnp.any(hit, -1)

    return fun, (draw.normal(n, 3), draw.normal(k, 3) * 3, draw.positive(k))


@template()
def spectral_power(draw: Draw) -> Made:
    n, frame, hop = draw.size(64, least=17), 8, draw.integer(2, 5)

    def fun(x, window):
        starts = jnp.arange(0, n - frame + 1, hop)
        frames = x[starts[:, None] + jnp.arange(frame)] * window
        k = jnp.arange(frame)
        angle = 2 * jnp.pi * k[:, None] * k / frame
        re, im = frames @ jnp.cos(angle).astype(x.dtype), frames @ jnp.sin(angle).astype(x.dtype)
        return jnp.log1p(re**2 + im**2)

    return fun, (draw.normal(n), draw.positive(frame))


@template(half=False)
def interpolation(draw: Draw) -> Made:
    n, m = draw.size(17, least=2), draw.size(33)

    def fun(x, steps, values):
        knots = jnp.cumsum(steps)
        return jnp.interp(x, knots, values)

    return fun, (draw.normal(m), draw.positive(n), draw.normal(n))


@template()
def rotations(draw: Draw) -> Made:
    n = draw.size(17)

    def fun(q, v):
        q = q / jnp.sqrt(jnp.sum(q**2, -1, keepdims=True) + 0.1)
        w, u = q[:, :1], q[:, 1:]
        t = 2 * jnp.cross(u, v)
        return v + w * t + jnp.cross(u, t)

    return fun, (draw.normal(n, 4), draw.normal(n, 3))


@template()
def special_functions(draw: Draw) -> Made:
    n = draw.size(100)
    how = draw.pick("erf", "lgamma", "digamma", "logistic", "entropy")

    def fun(x, p):
        if how == "erf":
            return lax.erf(x) + lax.erfc(x / 2)
        if how == "lgamma":
            return lax.lgamma(p + 0.5)
        if how == "digamma":
            return lax.digamma(p + 0.5)
        if how == "logistic":
            return jax.nn.log_sigmoid(x) * jax.nn.softplus(x)
        return -p * jnp.log(p) + jnp.log1p(p) * jnp.expm1(-p)

    return fun, (draw.normal(n), draw.positive(n))
