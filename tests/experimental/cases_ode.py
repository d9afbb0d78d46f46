"""Cases of `experimental.ode`."""

from __future__ import annotations

import numpy as np
from support.recorded import module

TIMES = np.linspace(0.0, 2.0, 5).astype(np.float32)


def odeint(jax):
    return module(jax, "experimental.ode").odeint


def pendulum(jax):
    jnp = jax.numpy

    def slope(y, t, m, g):
        theta, omega = y
        return [omega, -m * omega - g * jnp.sin(theta)]

    return lambda *args, **options: odeint(jax)(slope, [np.float32(2.0), np.float32(0.0)], TIMES, *args, **options)


def oscillator(jax, **options):
    matrix = np.array([[0.0, 1.0], [-1.0, -0.1]], np.float32)
    return lambda y, t=TIMES: odeint(jax)(lambda y, t: matrix @ y, y, t, **options)


def gradients(jax):
    """With respect to the first value, the times, an argument in a dictionary and what is closed over."""
    jnp = jax.numpy

    def loss(y0, t, parameters, closed_over):
        slope = lambda y, t, p: {"y": closed_over * jnp.sin(t) - p["rate"] * y["y"] ** 2}
        y = odeint(jax)(slope, {"y": y0}, t, parameters, rtol=1e-6, atol=1e-6)["y"]
        return jnp.sum(y * jnp.arange(1.0, 1.0 + y.size).reshape(y.shape))

    y0 = np.array([0.5, 1.0], np.float32)
    return jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(y0, TIMES, {"rate": np.float32(0.7)}, np.float32(0.3))


Y0 = np.array([1.0, 0.5], np.float32)

CASES = {
    "a pytree": lambda jax: pendulum(jax)(np.float32(0.25), np.float32(9.8)),
    "a matrix": lambda jax: odeint(jax)(lambda y, t: -y * t, np.ones((2, 3), np.float32), TIMES),
    "tolerances": lambda jax: pendulum(jax)(np.float32(0.25), np.float32(9.8), rtol=1e-3, atol=1e-4),
    "few steps": lambda jax: oscillator(jax, mxstep=2, rtol=1e-4, atol=1e-4)(Y0),
    "short steps": lambda jax: oscillator(jax, hmax=0.05)(Y0),
    "equal times": lambda jax: oscillator(jax)(Y0, np.array([0.0, 1.0, 1.0, 2.0], np.float32)),
    "complex numbers": lambda jax: odeint(jax)(lambda y, t: 1j * y, np.array([1 + 0j, 1j], np.complex64), TIMES),
    "batches": lambda jax: jax.vmap(oscillator(jax))(np.stack([Y0, 2 * Y0, -Y0])),
    "batches of times": lambda jax: jax.vmap(oscillator(jax), (None, 0))(Y0, np.stack([TIMES, TIMES / 2])),
    "gradients": gradients,
    "integers as times": lambda jax: oscillator(jax)(Y0, np.arange(3)),
    "an argument that is no array": lambda jax: odeint(jax)(lambda y, t, a: -y, Y0, TIMES, "a"),
    "forward mode": lambda jax: jax.jvp(oscillator(jax), (Y0,), (Y0,)),
    "another structure": lambda jax: odeint(jax)(lambda y, t: (y, y), Y0, TIMES),
}
