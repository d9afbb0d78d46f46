"""Functions of veery.scipy that have derivatives, with operands in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.samples import normal_samples

import veery
from veery import image as im
from veery.scipy import cluster, fft, interpolate, linalg, ndimage, signal
from veery.scipy.sparse import linalg as sparse
from veery.scipy.spatial.transform import Rotation, Slerp

random = normal_samples(3)
a, tall, b, spd = random(4, 4), random(4, 2), random(4), random(4, 6) @ random(6, 4)
spd = spd @ spd.T + np.eye(4)
z, long, image = random(4, 4, complex=True), random(60), random(5, 7)
hermitian = z @ z.conj().T + np.eye(4)
triangle = np.triu(a) + 3 * np.eye(4)
grid = (np.array([0.0, 1, 2.5, 3, 7]), np.array([-2.0, 0, 1, 2, 2.5, 4, 9]))
places = np.random.default_rng(1).uniform(0, 7, (8, 2))
SMOOTH: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "cholesky": (lambda x: linalg.cholesky(x @ x.T + np.eye(4)), (a,)),
    "cho_solve": (lambda x, b: linalg.cho_solve(linalg.cho_factor(x @ x.T + np.eye(4)), b), (a, b)),
    "lu_solve": (lambda x, b: linalg.lu_solve(linalg.lu_factor(x), b, trans=1), (a, b)),
    "solve": (lambda x, b: linalg.solve(x @ x.T + np.eye(4), b, assume_a="pos"), (a, tall)),
    "solve-complex": (lambda x, b: linalg.solve(x @ x.conj().T, b, assume_a="pos"), (z + 2 * np.eye(4), z[:, :2])),
    "solve_triangular": (lambda x, b: linalg.solve_triangular(x, b, trans="C"), (triangle, b)),
    "qr_multiply": (lambda x, c: linalg.qr_multiply(x, c)[0], (tall, a)),
    "eigh": (lambda x: linalg.eigh(x, eigvals_only=True), (spd,)),
    "eigh_tridiagonal": (lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True), (long[:5], long[9:13])),
    "expm": (linalg.expm, (a,)),
    "expm-small": (linalg.expm, (1e-3 * a,)),
    "expm-large": (linalg.expm, (np.stack([6 * a, 0 * a]),)),
    "expm-complex": (linalg.expm, (z,)),
    "expm_frechet": (lambda x, e: linalg.expm_frechet(x, e, compute_expm=False), (a, spd)),
    "sqrtm": (linalg.sqrtm, (spd,)),
    "sqrtm-complex": (linalg.sqrtm, (hermitian,)),
    "solve_sylvester": (linalg.solve_sylvester, (a, spd[:2, :2], tall)),
    "solve_sylvester-complex": (linalg.solve_sylvester, (z, hermitian, z)),
    "polar": (lambda x: linalg.polar(x, method="svd")[0], (a,)),
    "toeplitz": (linalg.toeplitz, (b, b[:3])),
    "fiedler_companion": (linalg.fiedler_companion, (b,)),
    "convolve": (lambda x, y: signal.convolve(x, y, "same"), (long[:9], b)),
    "fftconvolve": (lambda x, y: signal.fftconvolve(x, y, "valid"), (image, a[:2, :2])),
    "correlate2d": (lambda x, y: signal.correlate2d(x, y, "same"), (z, z[:2, :3])),
    "detrend": (lambda x: signal.detrend(x, bp=[5]), (long[:12],)),
    "stft": (lambda x: signal.stft(x, nperseg=8, boundary="odd")[2], (long[:20],)),
    "welch": (lambda x: signal.welch(x, nperseg=8)[1], (long[:20],)),
    "csd": (lambda x, y: signal.csd(x, y, nperseg=8)[1], (long[:20], long[20:35])),
    "istft": (veery.jit(lambda x: signal.istft(x, nperseg=6)[1]), (z,)),
    "dct": (lambda x: fft.dct(x, norm="ortho"), (long[:7],)),
    "idctn": (fft.idctn, (image,)),
    "map_coordinates": (lambda x, i, j: ndimage.map_coordinates(x, [i, j], 1, "reflect"), (image, 5 * a, 5 * a.T)),
    "vq": (lambda x, codes: cluster.vq.vq(x, codes)[1], (image, image[:3] + 0.1)),
    "interpolate": (lambda x, p: interpolate.RegularGridInterpolator(grid, x)(p), (image, places)),
    "cg": (lambda x, b: sparse.cg(x @ x.T + spd, b, tol=1e-12)[0], (a, b)),
    "cg-complex": (lambda x, b: sparse.cg(x @ x.conj().T, b, tol=1e-12)[0], (z + 2 * np.eye(4), z[0])),
    "gmres": (lambda x, b: sparse.gmres(x, b, tol=1e-12)[0], (triangle + 0.3 * a, b)),
    "bicgstab": (lambda x, b: sparse.bicgstab(x, b, tol=1e-12)[0], (triangle + 0.3 * a, b)),
    "resize": (lambda x: im.resize(x, (3, 9), "lanczos3"), (image,)),
    "resize-edges": (lambda x: im.resize(x, (7, 3), "cubic-pytorch", antialias=False), (image,)),
    "scale_and_translate": (
        lambda x, s, t: im.scale_and_translate(x, (4, 9), (0, 1), s, t, "cubic"),
        (image, np.array([0.71, 1.3]), np.array([0.21, -0.4])),
    ),
    "rotvec": (lambda v: Rotation.from_rotvec(v).as_matrix(), (a[:, :3],)),
    "rotvec-zero": (lambda v: Rotation.from_rotvec(v).apply(b[:3]), (np.zeros(3),)),
    "as_mrp": (lambda q: Rotation.from_quat(q).as_mrp(), (a,)),
    "as_rotvec": (lambda q: Rotation.from_quat(q).as_rotvec(), (a,)),
    "as_euler": (lambda q: Rotation.from_quat(q).as_euler("zxy"), (a,)),
    "from_euler": (lambda x: Rotation.from_euler("XYZ", x).apply(b[:3]), (a[:, :3],)),
    "from_matrix": (lambda q: Rotation.from_matrix(Rotation.from_quat(q).as_matrix()).quat, (a,)),
    "mrp": (lambda p: Rotation.from_mrp(p).inv().apply(b[:3]), (a[:, :3],)),
    "slerp": (lambda q, t: Slerp.init(np.arange(4.0), Rotation.from_quat(q))(t).as_matrix(), (a, np.array([0.3, 2.6]))),
}
