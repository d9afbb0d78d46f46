"""Decompositions, systems of equations, Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.some import Programs, Some


def programs(jax: Any) -> Programs:
    jnp = jax.numpy
    linalg = jnp.linalg
    some = Some(jnp, 4)
    square, positive, medium = some(64, 64), some.positive(200), some(200, 200)
    many = some(200, 12, 12) + 4 * jnp.eye(12, dtype=np.float32)
    features, labels = some(2000, 20), (some(2000) > 0).astype(np.float32)

    def newton(w: Any, x: Any, y: Any) -> Any:
        p = 1 / (1 + jnp.exp(-x @ w))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * jnp.eye(20, dtype=np.float32)
        return w - linalg.solve(hessian, x.T @ (p - y))

    return {
        "cholesky": (lambda x: linalg.cholesky(x @ x.T + 64 * jnp.eye(64, dtype=np.float32)), (square,)),
        "cholesky, 200": (lambda x: linalg.cholesky(x), (positive,)),
        "solve": (lambda x, y: linalg.solve(x, y), (square, square)),
        "solve, 200": (lambda x, y: linalg.solve(x, y), (positive, medium)),
        "inverses of 200": (lambda x: linalg.inv(x), (many,)),
        "determinants of 200": (lambda x: linalg.det(x), (many,)),
        "eigh": (lambda x: linalg.eigh(x)[0], (some.positive(100),)),
        "svd": (lambda x: linalg.svd(x, compute_uv=False), (some(100, 80),)),
        "qr": (lambda x: linalg.qr(x)[1], (some(150, 100),)),
        "least squares": (lambda x, y: linalg.lstsq(x, y)[0], (some(200, 20), some(200))),
        "newton's step": (newton, (some(20), features, labels)),
        "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), (some(1000),)),
        "fft2": (lambda x: jnp.abs(jnp.fft.fft2(x)), (some(256, 256),)),
        "rfft of rows": (lambda x: jnp.abs(jnp.fft.rfft(x)), (some(64, 2048),)),
    }
