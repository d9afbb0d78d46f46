"""Integrals."""

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike

__all__ = ["trapezoid"]


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of a function given at points, by the trapezoidal rule; see `veery.numpy.trapezoid`.

    Args:
        y: array, the function's values.
        x: the points, an array like y or a vector; by default equidistant ones.
        dx: their distance.
        axis: along which to integrate.

    >>> import veery.numpy as jnp
    >>> trapezoid(jnp.array([1.0, 2.0, 3.0]), dx=2.0).tolist()
    8.0
    """
    return jnp.trapezoid(y, x, dx, axis)
