"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import jvp
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


def lpmn(m: int, n: int, z: Any) -> tuple[Array, Array]:
    """Associated Legendre functions of the first kind, with the phase of Condon and Shortley, and their derivatives.

    Args:
        m: the greatest order; must equal n.
        n: the greatest degree.
        z: array of shape (k,), float32 or float64, from -1 to 1.

    Returns:
        The functions, and their derivatives by z: arrays of shape (m + 1, n + 1, k), of z's dtype, by order and degree.
        Those of an order above the degree are 0.

    Raises:
        NotImplementedError: m differs from n.
        TypeError: z has another dtype.
        ValueError: z is not of one dimension, or n is negative.

    >>> import veery.numpy as jnp
    >>> values, slopes = lpmn(2, 2, jnp.array([0.5]))
    >>> values[0, :, 0].tolist(), slopes[0, :, 0].tolist()
    ([1.0, 0.5, -0.125], [0.0, 1.0, 1.5])
    """
    z = _checked(m, n, z, "lpmn")
    return jvp(lambda z: _legendre_table(n, z, False), (z,), (jnp.ones_like(z),))


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Array:
    """Associated Legendre functions of the first kind, with the phase of Condon and Shortley.

    Args:
        m: the greatest order; must equal n.
        n: the greatest degree.
        z: array of shape (k,), float32 or float64, from -1 to 1.
        is_normalized: whether they are scaled so that spherical harmonics are orthonormal.

    Returns:
        Array of shape (m + 1, n + 1, k), of z's dtype, by order and degree. Those of an order above the degree are 0.

    Raises:
        NotImplementedError: m differs from n.
        TypeError: z has another dtype.
        ValueError: z is not of one dimension, or n is negative.

    >>> import veery.numpy as jnp
    >>> lpmn_values(2, 2, jnp.array([0.6]), False)[:, 2, 0].round(4).tolist()
    [0.03999999910593033, -1.440000057220459, 1.9199999570846558]
    """
    z = _checked(m, n, z, "lpmn_values")
    check_concrete(is_normalized, "The `is_normalized` argument of lpmn_values")
    return _legendre_table(n, z, bool(is_normalized))


def _checked(m: int, n: int, z: Any, name: str) -> Array:
    z = ensure_arraylike(name, z)
    m, n = (concrete_int(x, f"The `{letter}` argument of {name}") for x, letter in ((m, "m"), (n, "n")))
    if z.dtype not in (np.float32, np.float64):
        raise TypeError(f"z.dtype={z.dtype} is not supported: {name} takes float32 and float64")
    if z.ndim != 1:
        raise ValueError(f"z must be a 1D array: {name} was given one of shape {z.shape}")
    if m != n:
        raise NotImplementedError(f"Computations for m!=n are not yet supported: {name} was given m={m} and n={n}")
    if n < 0:
        raise ValueError(f"n must be a non-negative integer: {name} was given {n}")
    return jnp.asarray(z)


def _legendre_table(n: int, z: Array, normalized: bool) -> Array:
    """The functions of all orders and degrees up to n: (1 - z^2)^(order / 2) times polynomials.

    These by rising degree, by the recurrence of three terms. So all have their derivatives at -1 and 1, too.
    """
    order, degree = np.arange(n + 1.0), np.arange(1.0, n + 1)[:, None]
    above = degree > order
    if normalized:
        gap = np.where(above, degree**2 - order**2, 1)
        first = np.sqrt((4 * degree**2 - 1) / gap)
        second = first * np.sqrt(np.maximum((degree - 1) ** 2 - order**2, 0) / np.maximum(4 * (degree - 1) ** 2 - 1, 1))
        diagonal = np.cumprod([math.sqrt(0.25 / math.pi), *(-np.sqrt((2 * order[1:] + 1) / (2 * order[1:])))])
    else:
        gap = np.where(above, degree - order, 1)
        first, second = (2 * degree - 1) / gap, (degree + order - 1) / gap
        diagonal = np.cumprod([1.0, *(1 - 2 * order[1:])])
    rows = [np.where(above, x, 0) for x in (first, second)]
    starts = np.diag(diagonal)  # of each degree the function of that order
    before, now = jnp.zeros((n + 1, z.size), z.dtype), jnp.tile(jnp.asarray(starts[0], z.dtype)[:, None], z.size)

    def step(state: Any, row: Any) -> tuple[Any, Array]:
        before, now = state
        first, second, start = (x[:, None] for x in row)
        after = first * z * now - second * before + start
        return (now, after), after

    _, polynomials = lax.scan(step, (before, now), tuple(jnp.asarray(x, z.dtype) for x in (*rows, starts[1:])))
    polynomials = jnp.concatenate([now[None], polynomials])
    # The product is more exact; of this sum the derivative at 1 is no product of 0 and infinity.
    square = 1 - z * z
    square += lax.stop_gradient((1 - z) * (1 + z) - square)
    sines = square ** jnp.asarray(order[1:, None] / 2, z.dtype)
    values = jnp.swapaxes(polynomials, 0, 1) * jnp.concatenate([jnp.ones_like(z)[None], sines])[:, None]
    return jnp.where((order[:, None] <= order)[..., None], values, 0)
