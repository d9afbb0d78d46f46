"""References of functions of complex numbers that NumPy loses digits of, overflows in, or gives NaN for.

Each takes real numbers, too, for which it is NumPy's. Formulas: W. Kahan, "Branch cuts for complex elementary
functions, or much ado about nothing's sign bit" (1987); error-free products and sums: T. J. Dekker, "A floating-point
technique for extending the available precision" (1971).
"""

from __future__ import annotations

import numpy as np

_SPLITTER = 2.0**27 + 1
_NEAR = 4.0  # up to here the square of a part is nothing that overflows or outweighs all else


def log1p(z: np.ndarray) -> np.ndarray:
    """Where |1 + z| is near 1 the real part is that of |1 + z|² - 1 = 2x + x² + y², of which nothing is rounded."""
    if z.dtype.kind != "c":
        return np.log1p(z)
    x, y = z.real, z.imag
    is_near = (np.abs(x) < _NEAR) & (np.abs(y) < _NEAR)
    near_x, near_y = np.where(is_near, x, 0), np.where(is_near, y, 0)
    excess = _sum(2 * near_x, *_square(near_x), *_square(near_y))
    is_near &= excess > -0.5
    is_huge = np.maximum(np.abs(x), np.abs(y)) > np.finfo(x.dtype).max / 4  # where |1 + z| may be no number
    scale = np.where(is_huge, 0.25, 1).astype(x.dtype)
    length = np.hypot(scale * (1 + x), scale * y)
    real = np.where(is_near, np.log1p(np.where(is_near, excess, 0)) / 2, np.log(length) - np.log(scale))
    return _complex(np.where((x == 0) & (y == 0), x, real), np.arctan2(y, 1 + x))


def expm1(z: np.ndarray) -> np.ndarray:
    """NumPy's, but on the real axis, where the imaginary part is 0, also of what overflows."""
    if z.dtype.kind != "c":
        return np.expm1(z)
    out = np.expm1(z)
    on_axis = z.imag == 0
    return np.where(on_axis, _complex(np.expm1(z.real), z.imag), out) if on_axis.any() else out


def sign(z: np.ndarray) -> np.ndarray:
    """z / |z|, where |z| may be more or less than there are numbers."""
    wide = z.astype(np.complex128)
    _, exponent = np.frexp(np.maximum(np.abs(wide.real), np.abs(wide.imag)))
    x, y = np.ldexp(wide.real, -exponent), np.ldexp(wide.imag, -exponent)
    length = np.hypot(x, y)
    return np.where(z == 0, wide, _complex(x / length, y / length)).astype(z.dtype)


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Without arithmetic, in which infinities and NaN would meet."""
    out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.result_type(real, np.complex64))
    out.real, out.imag = real, imag
    return out


def _square(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x² as a number and what it lacks."""
    square = x * x
    high = x * _SPLITTER
    high = high - (high - x)
    low = x - high
    return square, ((high * high - square) + 2 * high * low) + low * low


def _sum(first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """A sum, of which each addition's error is added at the end."""
    total, lost = first, np.zeros_like(first)
    for x in others:
        new = total + x
        part = new - total
        lost = lost + ((total - (new - part)) + (x - part))
        total = new
    return total + lost
