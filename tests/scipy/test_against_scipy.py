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


def test_rotations_are_scipys() -> None:
    from scipy.spatial import transform as theirs

    from veery.scipy.spatial import transform as ours

    angles = np.random.default_rng(2).uniform(-3, 3, (7, 3))
    for seq in ("xyz", "ZXY", "zxz", "YXY"):
        a, e = (m.Rotation.from_euler(seq, angles, degrees=True) for m in (ours, theirs))
        np.testing.assert_allclose(a.as_matrix(), e.as_matrix(), atol=1e-12)
        for other in ("xyz", "XZX", "zyx", "YXZ"):
            np.testing.assert_allclose(a.as_euler(other), e.as_euler(other), atol=1e-12)
        np.testing.assert_allclose(a.as_rotvec(degrees=True), e.as_rotvec(degrees=True), atol=1e-10)
        np.testing.assert_allclose(a.as_mrp(), e.as_mrp(), atol=1e-12)
        np.testing.assert_allclose(a.magnitude(), e.magnitude(), atol=1e-12)
        np.testing.assert_allclose(a.as_quat(canonical=True), e.as_quat(canonical=True), atol=1e-12)
        np.testing.assert_allclose((a * a.inv()[0]).as_matrix(), (e * e.inv()[0]).as_matrix(), atol=1e-12)
        np.testing.assert_allclose(a.apply(angles, inverse=True), e.apply(angles, inverse=True), atol=1e-12)
        np.testing.assert_allclose(
            a.mean(angles[:, 0] ** 2).as_matrix(), e.mean(angles[:, 0] ** 2).as_matrix(), atol=1e-12
        )
        times = np.array([0.0, 0.25, 3.0, 5.5, 6.0])
        slerps = (
            m.Slerp(np.arange(7.0), r) if m is theirs else m.Slerp.init(np.arange(7.0), r)
            for m, r in ((ours, a), (theirs, e))
        )
        actual, expected = (slerp(times).as_matrix() for slerp in slerps)
        np.testing.assert_allclose(actual, expected, atol=1e-12)
    tiny = np.array([1e-9, -2e-9, 0.0])
    np.testing.assert_allclose(ours.Rotation.from_rotvec(tiny).as_rotvec(), tiny, rtol=1e-12)
    assert ours.Rotation.identity(3).as_rotvec().shape == (3, 3)


ROSENBROCK = lambda x: ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


@pytest.mark.parametrize("method", ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"])
def test_minima_are_found(method: str) -> None:
    from veery.scipy.optimize import minimize

    ending = {} if method == "BFGS" else {"ftol": 0.0}
    for start in (np.zeros(2), np.array([-1.2, 1.0]), np.full(6, 2.0)):
        found = minimize(ROSENBROCK, start, method=method, tol=1e-7, options={"maxiter": 500, **ending})
        np.testing.assert_allclose(found.x, 1, atol=1e-6)
        np.testing.assert_allclose(found.jac, veery.grad(ROSENBROCK)(found.x), atol=1e-9)
        assert bool(found.success) and int(found.status) == 0 and 20 < int(found.nfev) < 300
    scaled = minimize(
        lambda x, s: (s * (x - s) ** 2).sum(), np.zeros(4), (np.array([1e-2, 1.0, 30.0, 500.0]),), method=method
    )
    np.testing.assert_allclose(scaled.x, [1e-2, 1, 30, 500], atol=1e-2)
    short = minimize(ROSENBROCK, np.zeros(6), method=method, options={"maxiter": 3})
    assert not bool(short.success) and int(short.status) == 1


def test_complex_functions_are_minimized() -> None:
    from veery.scipy.optimize import minimize

    goal = z[0]
    found = minimize(
        lambda x: (jnp.abs(x - goal) ** 2 * (1 + np.arange(4))).sum(),
        np.zeros(4, complex),
        method="l-bfgs-experimental-do-not-rely-on-this",
    )
    np.testing.assert_allclose(found.x, goal, atol=1e-5)


@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres-batched", "gmres-incremental"])
def test_iterations_solve_systems(method: str) -> None:
    from veery.scipy.sparse import linalg as sparse

    n = 30
    lower, band = np.random.default_rng(5).normal(size=(n, n)), np.diag(np.linspace(2, 9, n))
    matrix = band + lower @ lower.T / n if method == "cg" else band + lower / 3
    name, _, kind = method.partition("-")
    options: dict[str, Any] = {"tol": 1e-11} | ({"solve_method": kind, "restart": 7} if kind else {})
    for A, rhs in ((matrix, long[:n]), (matrix + 0j, long[:n] * (1 + 2j))):
        if np.iscomplexobj(A) and method != "cg":
            A = A + 0.3j * lower.T
        expected = np.linalg.solve(A, rhs)
        for M in (None, lambda x, A=A: x / np.diag(A)):
            x, info = getattr(sparse, name)(lambda v, A=A: A @ v, rhs, M=M, **options)
            np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-9)
            assert info is None or int(info) == 0


def test_systems_of_trees() -> None:
    from veery.scipy.sparse import linalg as sparse

    rhs = {"a": b, "b": (image, np.ones(()))}
    for method in (sparse.cg, sparse.bicgstab, sparse.gmres):
        x, _ = method(lambda t: {"a": 2 * t["a"], "b": (3 * t["b"][0], t["b"][1])}, rhs)
        np.testing.assert_allclose(x["a"], b / 2)
        np.testing.assert_allclose(x["b"][0], image / 3)


@pytest.mark.parametrize("method", ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"])
def test_images_keep_constants_and_means(method: str) -> None:
    """The weights of each new pixel add up to 1; halves of a smooth image stay where they were."""
    from veery import image as im

    np.testing.assert_allclose(im.resize(np.full((5, 7), 3.0), (11, 4), method), 3.0, rtol=1e-12)
    smooth = np.sin(np.linspace(0, 3, 40))
    expected = np.sin((np.arange(20) + 0.5) * 2 * 3 / 39 - 1.5 / 39)
    tolerance = 0.02 if method in ("linear", "area") else 0.01
    np.testing.assert_allclose(im.resize(smooth, (20,), method)[3:-3], expected[3:-3], atol=tolerance)
    same = im.scale_and_translate(smooth, (40,), (0,), np.ones(1), np.full(1, 3.0), method)
    np.testing.assert_allclose(same[3:], smooth[:-3], atol=1e-12)
    assert not np.any(same[:3])


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


NOT_TWICE = {"cg-complex", "sqrtm", "sqrtm-complex", "qr_multiply", "expm_frechet"}


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
