"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core.shapes import check_concrete, concrete_int
from veery.numpy._promotion import Array, ensure_arraylike, promote_args_inexact, to_dtype


def _legendre(n: Array, m: Array, theta: Array, n_max: int) -> Array:
    """Associated Legendre functions of cos(theta) for 0 <= m <= n <= n_max, normalised on the sphere.

    By rising degree: along the diagonal as long as the degree is at most m, then by the recurrence of three terms.
    S. A. Holmes and W. E. Featherstone, Journal of Geodesy 76 (2002), 279.
    """
    sine, cosine = jnp.sin(theta), jnp.cos(theta)
    sine = jnp.where(
        sine < 0, -sine, sine
    )  # that of the polar angle with this cosine; differentiable at 0 as abs is not
    order = m.astype(theta.dtype)

    def step(i: Array, state: Any) -> Any:
        before, now = state
        degree = i.astype(theta.dtype)
        diagonal = -jnp.sqrt((2 * degree + 1) / (2 * degree)) * sine * now
        above = degree > order
        gap = jnp.where(above, degree**2 - order**2, 1)
        gap_before = jnp.where(above, (degree - 1) ** 2 - order**2, 0)
        scale = jnp.sqrt((4 * degree**2 - 1) / gap)
        step_back = jnp.sqrt(gap_before / jnp.maximum(4 * (degree - 1) ** 2 - 1, 1))
        after = jnp.where(above, scale * (cosine * now - step_back * before), diagonal)
        going = i <= n
        return jnp.where(going & above, now, before), jnp.where(going, after, now)

    start = jnp.zeros_like(theta), jnp.full_like(theta, math.sqrt(0.25 / math.pi))
    _, value = lax.fori_loop(1, n_max + 1, step, start)
    return jnp.where(m > n, 0, value)


@jit(static_argnames=("n_max",))
def _sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, n_max: int) -> Array:
    theta, phi = promote_args_inexact("sph_harm_y", theta, phi)
    narrow = theta.dtype
    wide = narrow if narrow.itemsize >= 4 else np.dtype(np.float32)
    n, m, theta, phi = jnp.broadcast_arrays(n, m, to_dtype(theta, wide), to_dtype(phi, wide))
    magnitude = jnp.abs(m)
    value = _legendre(n, magnitude, theta, n_max)
    angle = m * phi
    value = jnp.where((m < 0) & (magnitude % 2 == 1), -value, value)
    return lax.complex(value * jnp.cos(angle), value * jnp.sin(angle))


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None) -> Array:
    """Spherical harmonics, with the phase of Condon and Shortley.

    Args:
        n: array of integers, the degrees.
        m: array of integers, the orders, from -n to n; the harmonics of others are 0.
        theta: array of polar angles, from 0 to pi.
        phi: array of azimuths.
        diff_n: must be None.
        n_max: the greatest degree; must be given where n is traced.

    Returns:
        Array of complex numbers, of the shape to which the arguments broadcast.

    Raises:
        NotImplementedError: diff_n is given.
        ConcretizationTypeError: n is traced, and n_max is not given.

    >>> import veery.numpy as jnp
    >>> y = sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.5]), jnp.array([0.1]))
    >>> round(float(y[0].real), 4)
    0.4288
    """
    if diff_n is not None:
        raise NotImplementedError("The 'diff_n' argument to jax.scipy.special.sph_harm_y is not supported.")
    n, m, theta, phi = ensure_arraylike("sph_harm_y", n, m, theta, phi)
    if n_max is None:
        check_concrete(n, "The `n_max` argument of sph_harm_y, which is the greatest of `n` unless it is given,")
        n_max = int(np.max(n))
    n_max = concrete_int(n_max, "The `n_max` argument of sph_harm_y")
    scalar = np.ndim(theta) == 0
    return _sph_harm_y(n, m, jnp.reshape(theta, 1) if scalar else theta, phi, n_max=n_max)
