"""Linear algebra of stacks of matrices by LAPACK: the references of `lax.linalg`, and what runs on the CPU.

A matrix on which an algorithm fails gives NaN, and does not disturb the others of its stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _stacked(
    function: Callable[..., Sequence[Any]], operands: Sequence[np.ndarray], outs: Sequence[tuple[tuple[int, ...], Any]]
) -> list[np.ndarray]:
    """Apply a function to each matrix of stacks; `outs` are the shape and dtype of each result for one matrix."""
    batch = operands[0].shape[:-2]
    results = [np.empty((*batch, *shape), dtype) for shape, dtype in outs]
    for i in np.ndindex(*batch):
        for result, value in zip(results, function(*(x[i] for x in operands))):
            result[i] = value
    return results


def _or_nan(
    function: Callable[[np.ndarray], Any], x: np.ndarray, outs: Sequence[tuple[tuple[int, ...], Any]]
) -> list[np.ndarray]:
    """Apply a function of stacks at once; where that fails to one matrix after the other, NaN for those that fail."""

    def one(matrix: np.ndarray) -> Sequence[Any]:
        try:
            return _sequence(function(matrix))
        except np.linalg.LinAlgError:
            return [np.nan] * len(outs)

    if not x.size:
        return [np.broadcast_to(np.zeros(shape, dtype), (*x.shape[:-2], *shape)).copy() for shape, dtype in outs]
    with np.errstate(all="ignore"):
        try:
            results = _sequence(function(x))
        except np.linalg.LinAlgError:
            return _stacked(one, [x], outs)
        return [np.asarray(y, dtype) for y, (_, dtype) in zip(results, outs)]


def _sequence(x: Any) -> Sequence[Any]:
    return x if isinstance(x, tuple) else (x,)


def cholesky(x: np.ndarray) -> np.ndarray:
    (factor,) = _or_nan(np.linalg.cholesky, x, [(x.shape[-2:], x.dtype)])
    failed = np.isnan(factor).any((-1, -2))  # LAPACK goes on where a NaN was given
    return np.where(failed[..., None, None], np.asarray(np.nan, x.dtype), factor) if failed.any() else factor


def triangular_solve(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> np.ndarray:
    from scipy.linalg import get_blas_funcs

    if not b.size:
        return b.copy()
    if conjugate_a and not transpose_a:
        a = a.conj()
    trsm = get_blas_funcs("trsm", (a, b))
    # BLAS has columns in sequence, NumPy rows: everything is handed over transposed, and b is solved for in place.
    place = {"side": int(left_side), "lower": int(not lower), "diag": int(unit_diagonal)}
    place["trans_a"] = 0 if not transpose_a else 2 if conjugate_a else 1
    return _stacked(lambda a, b: [trsm(1.0, a.T, b.T, **place).T], [a, b], [(b.shape[-2:], b.dtype)])[0]


def lu(x: np.ndarray) -> list[np.ndarray]:
    from scipy.linalg import get_lapack_funcs

    m, n = x.shape[-2:]
    k = min(m, n)
    getrf = get_lapack_funcs("getrf", (x,))

    def one(matrix: np.ndarray) -> list[np.ndarray]:
        factors, pivots, _ = getrf(matrix)
        return [factors, pivots, permutation_of(pivots, m)]

    if not x.size:
        one = lambda matrix: [matrix, np.arange(k), np.arange(m)]
    with np.errstate(all="ignore"):
        return _stacked(one, [x], [((m, n), x.dtype), ((k,), np.int32), ((m,), np.int32)])


def permutation_of(pivots: np.ndarray, size: int) -> np.ndarray:
    """The order of rows after swapping each row i with pivots[i] in turn."""
    order = list(range(size))
    for i, j in enumerate(pivots.tolist()):
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int32)


def lu_pivots_to_permutation(pivots: np.ndarray, *, permutation_size: int) -> np.ndarray:
    rows = [permutation_of(p, permutation_size) for p in pivots.reshape(-1, pivots.shape[-1])]
    return np.array(rows, np.int32).reshape(*pivots.shape[:-1], permutation_size)


def qr(x: np.ndarray, *, full_matrices: bool, pivoting: bool) -> list[np.ndarray]:
    m, n = x.shape[-2:]
    k = m if full_matrices else min(m, n)
    outs: list[Any] = [((m, k), x.dtype), ((k, n), x.dtype)]
    if not pivoting:
        if not x.size:
            q = np.broadcast_to(np.eye(m, k, dtype=x.dtype), (*x.shape[:-2], m, k)).copy()
            return [q, np.zeros((*x.shape[:-2], k, n), x.dtype)]
        with np.errstate(all="ignore"):
            return [np.asarray(y, x.dtype) for y in np.linalg.qr(x, "complete" if full_matrices else "reduced")]
    import scipy.linalg

    outs.append(((n,), np.int32))
    mode = "full" if full_matrices else "economic"
    one = lambda matrix: scipy.linalg.qr(matrix, mode=mode, pivoting=True, check_finite=False)
    if not x.size:
        one = lambda matrix: (np.eye(m, k), np.zeros((k, n)), np.arange(n))
    return _stacked(one, [x], outs)


def householder_product(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    from scipy.linalg import get_lapack_funcs

    if not a.size or not taus.size:
        return np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape).copy()
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    function = get_lapack_funcs(name, (a,))
    one = lambda a, taus: [function(a, taus[:, 0])[0]]
    return _stacked(one, [a, taus[..., None]], [(a.shape[-2:], a.dtype)])[0]


def eigh(x: np.ndarray, *, lower: bool) -> list[np.ndarray]:
    n = x.shape[-1]
    outs = [((n, n), x.dtype), ((n,), x.real.dtype)]
    return _or_nan(lambda y: tuple(np.linalg.eigh(y, "L" if lower else "U"))[::-1], x, outs)


def svd(x: np.ndarray, *, full_matrices: bool, compute_uv: bool) -> list[np.ndarray]:
    m, n = x.shape[-2:]
    k = min(m, n)
    outs: list[Any] = [((k,), x.real.dtype)]
    if not compute_uv:
        return _or_nan(lambda y: np.linalg.svd(y, compute_uv=False), x, outs)
    rows, columns = (m, n) if full_matrices else (k, k)
    outs += [((m, rows), x.dtype), ((columns, n), x.dtype)]
    if not x.size:
        identity = lambda a, b: np.broadcast_to(np.eye(a, b, dtype=x.dtype), (*x.shape[:-2], a, b)).copy()
        return [np.zeros((*x.shape[:-2], k), x.real.dtype), identity(m, rows), identity(columns, n)]

    def factors(y: np.ndarray) -> tuple[np.ndarray, ...]:
        u, s, vh = np.linalg.svd(y, full_matrices)
        return s, u, vh

    return _or_nan(factors, x, outs)


def eig(
    x: np.ndarray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, enable_eigvec_derivs: bool
) -> list[np.ndarray]:
    from scipy.linalg import get_lapack_funcs

    n = x.shape[-1]
    dtype = np.result_type(x.dtype, np.complex64)
    outs = [((n,), dtype), *[((n, n), dtype)] * (compute_left_eigenvectors + compute_right_eigenvectors)]
    geev = get_lapack_funcs("geev", (x,))
    kept = (True, compute_left_eigenvectors, compute_right_eigenvectors)

    def one(matrix: np.ndarray) -> list[Any]:
        if not np.isfinite(matrix).all():
            return [np.nan] * len(outs)
        *w, left, right, info = geev(matrix, compute_vl=kept[1], compute_vr=kept[2])
        if info:
            return [np.nan] * len(outs)
        values = w[0] if len(w) == 1 else w[0] + 1j * w[1]
        found = (values, _eigenvectors(left, values), _eigenvectors(right, values))
        return [y for y, keep in zip(found, kept) if keep]

    return _stacked(one if n else lambda matrix: [()] * len(outs), [x], outs)


def _eigenvectors(v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """LAPACK gives the vectors of two conjugate eigenvalues of a real matrix as their real and imaginary parts."""
    if v.dtype.kind == "c" or v.shape != (len(w), len(w)):
        return v
    out = v.astype(w.dtype)
    for i in np.flatnonzero(w.imag > 0):
        out[:, i] = v[:, i] + 1j * v[:, i + 1]
        out[:, i + 1] = out[:, i].conj()
    return out


def ormqr(a: np.ndarray, taus: np.ndarray, c: np.ndarray, *, left: bool, transpose: bool) -> np.ndarray:
    from scipy.linalg import get_lapack_funcs

    if not c.size or not taus.size:
        return c.copy()
    complex = a.dtype.kind == "c"
    function = get_lapack_funcs("unmqr" if complex else "ormqr", (a,))
    side, operation = "L" if left else "R", "N" if not transpose else "C" if complex else "T"
    k = taus.shape[-1]

    def one(a: np.ndarray, taus: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        size = c.shape[1 if left else 0] * 64  # of the work space; 64 is more than LAPACK's block
        return [function(side, operation, a[:, :k], taus[:, 0], c, size)[0]]

    return _stacked(one, [a, taus[..., None], c], [(c.shape[-2:], c.dtype)])[0]


def schur(x: np.ndarray, *, compute_schur_vectors: bool) -> list[np.ndarray]:
    from scipy.linalg import get_lapack_funcs

    n = x.shape[-1]
    outs = [((n, n), x.dtype)] * (1 + compute_schur_vectors)
    gees = get_lapack_funcs("gees", (x,))

    def one(matrix: np.ndarray) -> list[Any]:
        if not np.isfinite(matrix).all():
            return [np.nan] * len(outs)
        form, _, *_, vectors, _, info = gees(lambda *_: None, matrix, compute_v=compute_schur_vectors)
        return [np.nan] * len(outs) if info else [form, vectors][: len(outs)]

    return _stacked(one if n else lambda matrix: [matrix] * len(outs), [x], outs)


def hessenberg(a: np.ndarray) -> list[np.ndarray]:
    from scipy.linalg import get_lapack_funcs

    n = a.shape[-1]
    gehrd = get_lapack_funcs("gehrd", (a,))
    one = lambda matrix: gehrd(matrix)[:2] if n > 1 else (matrix, [])
    return _stacked(one, [a], [((n, n), a.dtype), ((max(n - 1, 0),), a.dtype)])


def tridiagonal(a: np.ndarray, *, lower: bool) -> list[np.ndarray]:
    from scipy.linalg import get_lapack_funcs

    n = a.shape[-1]
    hetrd = get_lapack_funcs("hetrd" if a.dtype.kind == "c" else "sytrd", (a,))
    one = lambda matrix: hetrd(matrix, lower=lower)[:4]
    real = a.real.dtype
    return _stacked(one, [a], [((n, n), a.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), a.dtype)])


def tridiagonal_solve(
    dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray, *, perturb_singular: bool
) -> np.ndarray:
    from scipy.linalg import get_lapack_funcs

    if not b.size:
        return b.copy()
    gttrf, gttrs = get_lapack_funcs(("gttrf", "gttrs"), (b,))

    n = b.shape[-2]
    more = max(3 - n, 0)  # LAPACK's wrapper wants three rows: those added are of an identity

    def padded(x: np.ndarray, value: int) -> np.ndarray:
        return np.concatenate([x[:, 0], np.full(more, value, x.dtype)])

    def one(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
        low, diagonal, up = padded(dl, 0)[1:], padded(d, 1), padded(du, 0)[:-1]
        up[n - 1 :] = 0
        low, diagonal, up, second, pivots, _ = gttrf(low, diagonal, up)
        if perturb_singular:
            limits = np.finfo(b.dtype)
            largest = max(np.abs(x[:size]).max(initial=0) for x, size in ((diagonal, n), (up, n - 1), (second, n)))
            least = max(limits.eps * largest, limits.tiny)
            diagonal = np.where(np.abs(diagonal) < least, np.copysign(least, diagonal.real), diagonal).astype(b.dtype)
        elif not diagonal.all():
            return [np.full(b.shape, np.nan)]
        right = np.concatenate([b, np.zeros((more, b.shape[1]), b.dtype)])
        return [gttrs(low, diagonal, up, second, pivots, right)[0][:n]]

    with np.errstate(all="ignore"):
        return _stacked(one, [dl[..., None], d[..., None], du[..., None], b], [(b.shape[-2:], b.dtype)])[0]
