"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import gammainc, gammaincc, xlogy
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log_probability


def _side(
    incomplete: Callable[[Array, Array], Array], ends: tuple[int, int], x: Array, a: Array, loc: Array, scale: Array
) -> Array:
    """An incomplete gamma function of a and (x - loc) / scale; `ends` are its values at 0 and at infinity."""
    y = x - loc
    below, infinite = y < 0, y == np.inf
    inside = incomplete(a, jnp.where(below | infinite, 1, y) / scale)
    value = jnp.where(below, ends[0], jnp.where(infinite, ends[1], inside))
    return jnp.where((a > 0) & (scale > 0), value, np.nan)


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        a: array, the shape parameter, positive.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(pdf(1.0, 2.0)), 4)
    0.3679
    """
    outside = x < loc
    y = jnp.where(outside, 1, (x - loc) / scale)
    inside = xlogy(a - 1, y) - y - lax.lgamma(a) - jnp.log(scale)
    return jnp.where(outside, -np.inf, inside)


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, a, loc, scale))


@real(weak="numbers", refusal=TypeError)
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return _side(gammainc, (0, 1), x, a, loc, scale)


@real(weak="numbers", refusal=TypeError)
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return log_probability(cdf(x, a, loc, scale), sf(x, a, loc, scale))


@real(refusal=TypeError)
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    return _side(gammaincc, (1, 0), x, a, loc, scale)


@real(refusal=TypeError)
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return log_probability(sf(x, a, loc, scale), cdf(x, a, loc, scale))
