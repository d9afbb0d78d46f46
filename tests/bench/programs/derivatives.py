"""Derivatives of small functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    some = Some(jnp, 7)
    x, tall = some(1000), some(256, 100)
    small = some.layers(4, 16, 16, 1)

    def rosenbrock(x: Any) -> Any:
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def energy(positions: Any) -> Any:
        between = positions[:, None] - positions[None]
        return -jnp.sum(1 / jnp.sqrt(jnp.sum(between**2, -1) + 0.01))

    def network(w: Any, x: Any) -> Any:
        for a, b in w[:-1]:
            x = jnp.tanh(x @ a + b)
        return (x @ w[-1][0] + w[-1][1])[..., 0]

    def repeated(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.sin(c) * 1.1, c.sum()), x, None, length=50)[1].sum()

    def circuit(angles: Any) -> Any:
        state = jnp.zeros((2,) * 6, np.complex64).at[(0,) * 6].set(1)
        for layer in angles:
            for i, angle in enumerate(layer):
                cos, sin = jnp.cos(angle / 2), jnp.sin(angle / 2)
                gate = jnp.stack([jnp.stack([cos + 0j, -1j * sin]), jnp.stack([-1j * sin, cos + 0j])])
                state = jnp.moveaxis(jnp.tensordot(gate, state, ((1,), (i,))), 0, i)
            state = state.at[1, :, 1].multiply(-1)
        return (jnp.abs(state[0]) ** 2).sum()

    along = lambda f, x, v: jax.jvp(jax.grad(f), (x,), (v,))[1]
    return {
        "gradient": (jax.grad(lambda x: (jnp.tanh(x) ** 2).mean()), (x,)),
        "Hessian": (jax.hessian(lambda x: (jnp.sin(x) ** 2).sum() * x.prod()), (x[:20],)),
        "Hessian of rosenbrock": (jax.hessian(rosenbrock), (some(50),)),
        "Hessian and vector": (lambda x, v: along(rosenbrock, x, v), (x, some(1000))),
        "vmap of gradients": (jax.vmap(jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), (None, 0)), (some(100), tall)),
        "forces of bodies": (jax.grad(energy), (some(200, 3),)),
        "gradients of a network at points": (jax.vmap(jax.grad(network, 1), (None, 0)), (small, some(500, 4))),
        "Laplacian of a network": (
            lambda w, x: jax.vmap(lambda x: jnp.trace(jax.hessian(network, 1)(w, x)))(x), (small, some(100, 4))
        ),
        "gradient of a quantum circuit": (jax.value_and_grad(circuit), (some(2, 6),)),
        "Jacobian": (jax.jacfwd(lambda x: jnp.fft.fft(x).real * jnp.cumsum(x)), (some(32),)),
        "gradient of a scan": (jax.grad(repeated), (some(100),)),
        "gradient of a solution": (
            jax.grad(lambda a, b: (jnp.linalg.solve(a, b) ** 2).sum()), (some.positive(50), some(50))
        ),
        "gradient of a logarithm of a determinant": (
            jax.grad(lambda a: jnp.linalg.slogdet(a + np.float32(1e-3) * a.T)[1]), (some.positive(50),)
        ),
    }  # fmt: skip
