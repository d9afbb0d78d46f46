"""References of complex functions that NumPy computes inaccurately, beside exact arithmetic and the real functions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp
from veery.lax import _complex_reference

PARTS = [0.0, 1e-300, 1e-38, 1e-30, 1e-15, 1e-7, 1e-3, 0.3, 0.5, 1.0, 1.5, 3.0, 10.0]
POINTS = np.array([complex(x, y) for a in PARTS for x in (a, -a) for b in PARTS for y in (b, -b)])
# Where 2x + x² + y² all but cancels: near the circle about -1.
CIRCLE = np.array([-1 + np.exp(1j * angle) * (1 + 1e-9) for angle in np.linspace(0.01, 3, 50)])


@pytest.mark.parametrize("points", [POINTS, CIRCLE, POINTS.astype(np.complex64)], ids=["points", "circle", "single"])
def test_logarithms_near_the_unit_circle(points: np.ndarray) -> None:
    points = points.astype(np.complex128)
    excess = [2 * Fraction(z.real) + Fraction(z.real) ** 2 + Fraction(z.imag) ** 2 for z in points.tolist()]
    kept = [float(1 + x) > 0 for x in excess]  # |1 + z|**2, as a number
    log1p = lambda x: math.log1p(x) if x > -0.5 else math.log(1 + x)
    points, exact = points[kept], np.array([log1p(x) / 2 for x, keep in zip(excess, kept) if keep])
    found = _complex_reference.log1p(points)
    np.testing.assert_allclose(found.real, exact, rtol=1e-15, atol=1e-320)
    np.testing.assert_allclose(found.imag, np.arctan2(points.imag, 1 + points.real), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_logarithms_of_the_largest_numbers(dtype: type) -> None:
    """Whose modulus is no number any more. Compiled, too."""
    largest = np.finfo(dtype).max
    points = np.array([complex(x, y) for x in (largest, -largest) for y in (largest, -largest, 1.0, 0.0)], dtype)
    logarithm = math.log(largest) + 0.5 * np.log1p(np.square(points.imag / largest))
    with veery.enable_x64(True):
        compiled = veery.jit(lambda z: jnp.log1p(z * 1))(points)
        for found in (_complex_reference.log1p(points), jnp.log1p(points), compiled):
            np.testing.assert_allclose(np.real(found), logarithm, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("x", [-np.inf, -800.0, -0.0, 1e-20, 3.0, 1000.0, np.inf])
def test_on_the_real_axis_functions_are_the_real_ones(x: float) -> None:
    for y in (0.0, -0.0):
        z = np.array([complex(x, y)])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = _complex_reference.expm1(z)
            assert (found.real == np.expm1(x)).all()
        assert found.imag == 0 and np.signbit(found.imag) == np.signbit(y)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_directions_of_large_and_small_numbers(dtype: type) -> None:
    """Compiled, too."""
    info = np.finfo(dtype)
    parts = [0.0, float(info.tiny), 1e-30, 1.0, 1e30, float(info.max)]
    points = np.array([complex(x, y) for a in parts for x in (a, -a) for y in parts if a or y], dtype)
    with veery.enable_x64(True):
        for found in (_complex_reference.sign(points), veery.jit(jnp.sign)(points), jnp.sign(points)):
            found = np.asarray(found)
            assert found.dtype == dtype
            np.testing.assert_allclose(np.abs(found), 1, rtol=4 * info.eps)
            scaled = points.astype(np.clongdouble) / np.max(np.abs([points.real, points.imag]), axis=0)
            np.testing.assert_allclose(found, scaled / np.abs(scaled), rtol=8 * info.eps, atol=info.tiny)
    infinite = np.array([complex(0, np.inf), complex(-np.inf, 1)], dtype)
    with np.errstate(invalid="ignore"):
        exact = _complex_reference.sign(infinite)
    for found in (exact, np.asarray(veery.jit(jnp.sign)(infinite.astype(np.complex64)))):
        assert found.real[0] == 0 and np.isnan(found.imag[0]) and np.isnan(found.real[1]) and found.imag[1] == 0


def test_angles_of_complex_powers_of_two() -> None:
    y = np.linspace(-3000, 3000, 101)
    found = veery.jit(lax.exp2)((5.5 + 1j * y).astype(np.complex64))
    single = (5.5 + 1j * y.astype(np.float32).astype(np.float64)).astype(np.complex128)
    np.testing.assert_allclose(found, np.exp2(single), rtol=3e-7)


@pytest.mark.parametrize("power", [-1, -2, -3])
def test_powers_whose_reciprocals_overflow(power: int) -> None:
    z = np.array([1 + 3e38j, 3e38, -2e30j, 2 - 1j], np.complex64)
    exact = z.astype(np.complex128) ** power
    for found in (veery.jit(lambda z: lax.integer_pow(z, power))(z), lax.integer_pow(jnp.asarray(z), power)):
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_moduli_of_numbers_whose_squares_are_small(dtype: type) -> None:
    """Of 9e-19 + 1e-19i the smaller part's square is subnormal, and still a hundredth of the whole."""
    rng, info = np.random.default_rng(5), np.finfo(dtype)
    sizes = np.exp2(rng.uniform(info.minexp / 2 - 40, info.minexp / 2 + 40, 4000))
    z = (sizes * (1 + 1j * rng.uniform(-1, 1, 4000)) * rng.choice([1, 1j, -1], 4000)).astype(dtype)
    with veery.enable_x64(True):
        size, root, direction, logarithm = veery.jit(lambda z: [abs(z), jnp.sqrt(z), jnp.sign(z), jnp.log(z)])(z)
    wide = z.astype(np.clongdouble)
    np.testing.assert_allclose(size, np.abs(wide), rtol=4 * info.eps)
    np.testing.assert_allclose(root, np.sqrt(wide), rtol=4 * info.eps)
    np.testing.assert_allclose(direction, wide / np.abs(wide), rtol=4 * info.eps)
    np.testing.assert_allclose(logarithm, np.log(wide), rtol=4 * info.eps)
