"""The beta distribution, on [loc, loc + scale]."""

from __future__ import annotations

import numpy as np

from veery import lax, numpy as jnp
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.special import betaln, xlog1py, xlogy
from veery.scipy.special._operands import real
from veery.scipy.stats._logarithms import log_probability


def _betainc(a: Array, b: Array, y: Array) -> Array:
    """The incomplete beta function, with derivatives outside of [0, 1]."""
    outside = (y < 0) | (y > 1)
    inside = lax.betainc(*jnp.broadcast_arrays(a, b, jnp.where(outside, 0.5, y)))
    return jnp.where(outside & ~jnp.isnan(inside), jnp.where(y < 0, 0, 1), inside)


@real(weak="numbers", refusal=TypeError)
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    Args:
        x: array of real numbers.
        a: array, the exponent of x plus 1, positive.
        b: array, the exponent of 1 - x plus 1, positive.
        loc: array, the location.
        scale: array, the scale, positive.

    >>> round(float(pdf(0.5, 2.0, 2.0)), 4)
    1.5
    """
    y = (x - loc) / scale
    outside = (y < 0) | (y > 1)
    safe = jnp.where(outside, 0.5, y)
    inside = xlogy(a - 1, safe) + xlog1py(b - 1, -safe) - betaln(a, b) - jnp.log(scale)
    undefined = (a <= 0) | (b <= 0) | (scale <= 0)
    return jnp.where(undefined, np.nan, jnp.where(outside, -np.inf, inside))


@real(weak="numbers", refusal=TypeError)
def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density; arguments as for logpdf."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


@real(weak="numbers")
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x; arguments as for logpdf."""
    return _betainc(a, b, (x - loc) / scale)


@real(weak="numbers")
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf; arguments as for logpdf."""
    return log_probability(cdf(x, a, b, loc, scale), sf(x, a, b, loc, scale))


@real(weak="numbers")
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x; arguments as for logpdf."""
    y = (x - loc) / scale
    # Where the density exceeds 1, rounding 1 - y costs more than rounding 1 - cdf.
    outside = (y < 0) | (y > 1)
    safe = jnp.where(outside, 0.5, y)
    steep = (xlogy(a - 1, safe) + xlog1py(b - 1, -safe) > betaln(a, b)) | (1 - safe == 1)
    return jnp.where(steep & ~outside & (y < 0.5), 1 - _betainc(a, b, y), _betainc(b, a, 1 - y))


@real(weak="numbers")
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf; arguments as for logpdf."""
    return log_probability(sf(x, a, b, loc, scale), cdf(x, a, b, loc, scale))
