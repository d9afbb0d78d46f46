"""The functions of veery.scipy in float64 against SciPy's, and their derivatives against numerical differences."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from smooth_functions import SMOOTH, a, b, hermitian, image, long, spd, tall, triangle, z
from support.rule_checks import check_backward, check_forward, check_second_order

import veery
import veery.numpy as jnp
from veery.scipy import interpolate, linalg, ndimage

pytestmark = pytest.mark.usefixtures("x64", "references")

# Calls that SciPy's module and veery's take alike.
CALLS: dict[str, list[Callable[[Any], Any]]] = {
    "linalg": [
        lambda m: [m.cholesky(x, lower=lower) for x in (spd, hermitian) for lower in (False, True)],
        lambda m: [m.cho_solve(m.cho_factor(hermitian, lower=lower), z) for lower in (False, True)],
        lambda m: [m.lu_solve(m.lu_factor(x), z, trans=trans) for x in (a, z) for trans in (0, 1, 2)],
        lambda m: [m.lu(x) for x in (a, z, tall, tall.T)],
        lambda m: m.lu(z, permute_l=True),
        lambda m: [m.qr(tall, mode=mode) for mode in ("full", "economic", "r")],
        lambda m: [m.qr(a, mode=mode, pivoting=True) for mode in ("full", "r")],
        lambda m: [m.qr_multiply(tall, x, mode) for x, mode in ((a, "right"), (tall.T, "left"), (b, "right"))],
        lambda m: [m.qr_multiply(z, z, mode, conjugate=True) for mode in ("left", "right")],
        lambda m: [m.svd(x, compute_uv=False) for x in (a, z, tall)],
        lambda m: [m.det(a), m.inv(z), m.eigh(hermitian, eigvals_only=True)],
        lambda m: [m.solve(spd, tall, assume_a="pos"), m.solve(hermitian, b, assume_a="pos"), m.solve(z, b)],
        lambda m: [m.solve_triangular(a, b, trans=t, lower=lower) for t in (0, 1, "C") for lower in (False, True)],
        lambda m: m.solve_triangular(z, tall, trans=2, unit_diagonal=True),
        lambda m: [m.solve_sylvester(a, spd, a), m.solve_sylvester(z, spd[:2, :2], tall)],
        lambda m: [m.expm(x) for x in (a, 1e-3 * a, 30 * a, z, np.stack([a, 5 * a]), np.zeros((2, 2)))],
        lambda m: [m.expm_frechet(a, spd), m.expm_frechet(a, spd, compute_expm=False)],
        lambda m: [m.sqrtm(x) + 0j for x in (spd, z, np.zeros((3, 3)), triangle)],
        lambda m: [m.funm(x, np.exp if m is scipy.linalg else jnp.exp) + 0j for x in (a, z)],
        lambda m: [m.schur(a), m.schur(z, output="complex")],
        lambda m: m.rsf2csf(*scipy.linalg.schur(a)),
        lambda m: [m.hessenberg(a, calc_q=True), m.hessenberg(z)],
        lambda m: [m.polar(x, side=side) for x in (a, z, tall, tall.T) for side in ("right", "left")],
        lambda m: [m.toeplitz(b), m.toeplitz(z[0], z[1, :2]), m.hankel(b), m.hankel(b, b[:2]), m.circulant(b)],
        lambda m: [m.leslie(b, b[1:]), m.companion(b), m.fiedler(b), m.convolution_matrix(b, 3, "same")],
        lambda m: [m.fiedler_companion(x) for x in (b, long[:6], long[:7])],
        lambda m: [m.block_diag(a, tall, b), m.hadamard(8), m.helmert(5), m.helmert(5, full=True)],
        lambda m: [m.hilbert(5), m.invhilbert(7), m.dft(5), m.dft(6, "sqrtn"), m.dft(6, "n")],
        lambda m: [f(6, kind) for f in (m.pascal, m.invpascal) for kind in ("symmetric", "lower", "upper")],
        lambda m: [m.eigh_tridiagonal(long[:9], long[20:28], eigvals_only=True)],
        lambda m: m.eigh_tridiagonal(long[:9], long[20:28], eigvals_only=True, select="i", select_range=(2, 4)),
    ],
    "signal": [
        lambda m: [f(long, b, mode) for f in (m.convolve, m.correlate) for mode in ("full", "same", "valid")],
        lambda m: [f(b, long, mode) for f in (m.convolve, m.correlate) for mode in ("full", "same", "valid")],
        lambda m: [m.fftconvolve(image, z[:3, :3], mode) for mode in ("full", "same", "valid")],
        lambda m: m.fftconvolve(image, image[:, :2], axes=1),
        lambda m: [f(z, a[:2, :3], mode) for f in (m.convolve2d, m.correlate2d) for mode in ("full", "same", "valid")],
        lambda m: [f(a[:2, :3], z, mode) for f in (m.convolve2d, m.correlate2d) for mode in ("full", "same", "valid")],
        lambda m: [m.detrend(long), m.detrend(image, axis=0, type="constant"), m.detrend(long, bp=[11, 12, 30])],
        lambda m: m.stft(long, fs=10.0, nperseg=16, noverlap=11),
        lambda m: m.stft(np.stack([long, -long], 1), window="hamming", nperseg=15, nfft=20, axis=0, detrend="linear"),
        lambda m: [m.stft(long, nperseg=16, boundary=side) for side in ("even", "odd", "constant", None)],
        lambda m: m.stft(long, nperseg=16, padded=False, return_onesided=False),
        lambda m: m.welch(long, nperseg=16, scaling="spectrum"),
        lambda m: m.welch(np.stack([long, long**2]), nperseg=13, average="median", window=("tukey", 0.2)),
        lambda m: m.csd(long, long[:50] ** 2, nperseg=16, detrend=False),
        lambda m: m.csd(long[:50], long, nperseg=16, average="median"),
        lambda m: m.istft(scipy.signal.stft(long, nperseg=16)[2], nperseg=16)[1],
        lambda m: m.istft(scipy.signal.stft(long, nperseg=15, noverlap=11)[2], nperseg=15, noverlap=11)[1],
    ],
    "fft": [
        lambda m: [
            f(x, norm=n) for f in (m.dct, m.idct) for x in (long, b, z, long[:1]) for n in ("ortho", "backward")
        ],
        lambda m: [f(image, n=n, axis=0) for f in (m.dct, m.idct) for n in (3, 8)],
        lambda m: [f(np.stack([image, -image]), axes=(0, 2)) for f in (m.dctn, m.idctn)],
        lambda m: [f(image, s=(3, 9)) for f in (m.dctn, m.idctn)],
    ],
    "integrate": [lambda m: m.trapezoid(image, axis=0, dx=0.5), lambda m: m.trapezoid(b, b**2)],
    "cluster.vq": [lambda m: m.vq(image, image[:3] + 0.1), lambda m: m.vq(long, b)],
}


def flat(x: Any) -> list[np.ndarray]:
    return [y for part in x for y in flat(part)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "place"), [(m, i) for m, calls in CALLS.items() for i in range(len(calls))])
def test_values_are_scipys(module: str, place: int) -> None:
    call = CALLS[module][place]
    expected = flat(call(importlib.import_module(f"scipy.{module}")))
    actual = flat(veery.jit(lambda: call(importlib.import_module(f"veery.scipy.{module}")))())
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * max(1.0, np.max(np.abs(theirs), initial=0.0)))


@pytest.mark.parametrize("mode", ["constant", "nearest", "mirror", "wrap", "reflect"])
def test_coordinates_are_scipys(mode: str) -> None:
    """SciPy has the modes "constant" and "wrap" by another name."""
    import scipy.ndimage

    places = [np.linspace(-9, 12, 50), np.linspace(-13, 16, 50)]
    named = {"constant": "grid-constant", "wrap": "grid-wrap"}.get(mode, mode)
    expected = scipy.ndimage.map_coordinates(image, places, order=1, mode=named, cval=2.0, prefilter=False)
    actual = ndimage.map_coordinates(image, places, order=1, mode=mode, cval=2.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_interpolation_is_scipys(method: str) -> None:
    import scipy.interpolate

    grid = (np.array([0.0, 1, 2.5, 3, 7]), np.array([-2.0, 0, 1, 2, 2.5, 4, 9]))
    points = np.random.default_rng(0).uniform(-3, 10, (40, 2))
    for values in (image, np.stack([image, image**2], -1), image * 1j):
        for fill in (np.nan, 0.5, None):
            arguments = (grid, values, method, False, fill)
            expected = scipy.interpolate.RegularGridInterpolator(*arguments)(points)
            actual = veery.jit(lambda f: f(points))(interpolate.RegularGridInterpolator(*arguments))
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_tridiagonal_eigenvectors_and_clusters() -> None:
    for d, e in ((long[:9], long[20:28]), (np.ones(12), np.zeros(11)), (np.r_[1.0, 1, 5, 5], np.array([0.0, 1e-9, 0]))):
        w, v = linalg.eigh_tridiagonal(d, e)
        matrix = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
        np.testing.assert_allclose(matrix @ v, v * w, atol=1e-12)
        np.testing.assert_allclose(linalg.eigh_tridiagonal(d, e, eigvals_only=True), w, atol=1e-13)
    phases = long[20:28] * np.exp(1j * np.arange(8))
    w, v = linalg.eigh_tridiagonal(long[:9] + 0j, phases)
    matrix = np.diag(long[:9]) + np.diag(phases, 1) + np.diag(phases.conj(), -1)
    np.testing.assert_allclose(matrix @ v, v * w, atol=1e-12)
    np.testing.assert_allclose(linalg.eigh_tridiagonal(long[:9] + 0j, phases, eigvals_only=True), w, atol=1e-12)


def test_where_there_is_no_solution() -> None:
    assert np.isnan(linalg.solve_sylvester(a, -a, a)).all()
    assert np.isnan(linalg.solve_sylvester(a, -a, a, method="eigen")).all()
    assert np.isnan(linalg.expm(1e9 * a)).all()
    assert np.isnan(linalg.expm(np.full((2, 2), np.nan))).all()
    assert np.isnan(linalg.solve(-spd, b, assume_a="pos")).all()
    np.testing.assert_allclose(
        linalg.solve_sylvester(a, spd, a, method="eigen"), scipy.linalg.solve_sylvester(a, spd, a)
    )


NOT_TWICE = {"sqrtm", "sqrtm-complex", "qr_multiply", "expm_frechet"}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_equal_numerical_differences(name: str) -> None:
    fun, operands = SMOOTH[name]
    wanted = range(len(operands))
    check_forward(fun, operands, wanted, 1e-5)
    check_backward(fun, operands, wanted, 1e-8)
    if name not in NOT_TWICE:
        check_second_order(fun, operands, [0], 1e-4)


def test_the_iteration_for_polar_factors_has_a_forward_derivative() -> None:
    """A loop of a number of trips that is found while it runs has no reverse mode."""
    check_forward(lambda x: linalg.polar(x)[0], (a,), [0], 1e-5)


@pytest.mark.parametrize("call", [lambda x: linalg.schur(x)[0], lambda x: linalg.funm(x, jnp.exp)])
def test_the_schur_form_has_no_derivative(call: Callable[[Any], Any]) -> None:
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'schur' not implemented"):
        veery.jvp(call, (a,), (a,))
