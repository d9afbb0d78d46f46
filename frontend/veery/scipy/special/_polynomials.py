"""Polynomials on intervals, from which special functions are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veery import lax, numpy as jnp
from veery._core.avals import aval_of
from veery.numpy._promotion import Array


@dataclass(frozen=True)
class Polynomial:
    """A polynomial in t, which runs from -1 to 1 as x does from low to high.

    Its coefficients fall, so that those below the resolution of a dtype are left out.
    """

    low: float
    high: float
    coefficients: tuple[float, ...]

    def __call__(self, x: Array) -> Array:
        """The value at x, for x outside of the interval at its end."""
        t = (jnp.clip(x, self.low, self.high) - (self.low + self.high) / 2) * (2 / (self.high - self.low))
        first, *others = self._needed(aval_of(x).dtype)[::-1]  # type: ignore[attr-defined]
        value = jnp.full_like(t, first)
        for coefficient in others:
            value = lax.add(lax.mul(value, t), coefficient)
        return value

    def _needed(self, dtype: np.dtype) -> Sequence[float]:
        rest = np.cumsum(np.abs(self.coefficients[::-1]))[::-1]
        return self.coefficients[: int(np.sum(rest > abs(self.coefficients[0]) * np.finfo(dtype).eps / 64))]


def piecewise(polynomials: Sequence[Polynomial], x: Array) -> Array:
    """The polynomial whose interval has x, of adjacent intervals in rising order."""
    value = polynomials[0](x)
    for polynomial in polynomials[1:]:
        value = jnp.where(x > polynomial.low, polynomial(x), value)
    return value
