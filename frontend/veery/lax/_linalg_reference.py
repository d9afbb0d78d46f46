"""Linear algebra of stacks of matrices by LAPACK: the references of `lax.linalg`, and what runs on the CPU.

A matrix on which an algorithm fails gives NaN, and does not disturb the others of its stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery.lax import _lapack as lapack
from veery.lax._reference import aligned_copy, aligned_empty, silently, widen


def _count(x: np.ndarray) -> int:
    """The number of matrices of a stack."""
    return math.prod(x.shape[:-2])


def _stacked(
    function: Callable[..., Sequence[Any] | None],
    operands: Sequence[np.ndarray],
    outs: Sequence[tuple[tuple[int, ...], Any]],
) -> list[np.ndarray]:
    """Apply a function, which gives None where it fails, to each matrix of stacks; `outs` are the shape and dtype of
    each result for one matrix."""
    batch = operands[0].shape[:-2]
    results = [np.empty((*batch, *shape), dtype) for shape, dtype in outs]
    with lapack.threads_for(*operands[0].shape):
        for i in np.ndindex(*batch):
            values = function(*(x[i] for x in operands))
            for k, result in enumerate(results):
                result[i] = _nan(result) if values is None else values[k]
    return results


_SMALL = 32 * 32  # numbers of a matrix


def _is_small(x: np.ndarray) -> bool:
    """Whether matrices are so small that NumPy, whose loops are in C, takes less time between Python and LAPACK:
    cholesky of one of 24x24 12 us instead of 16, of 200 of 12x12 145 instead of 330."""
    return 0 < x.shape[-2] * x.shape[-1] <= _SMALL and bool(np.isfinite(x).all())


# NumPy's loops over stacks, without what its functions do before and after: eigenvalues of 4x4 take 2 us for 6. They
# compute in double precision, as those do, and where an algorithm fails the matrix becomes NaN.
_LOOPS = getattr(np.linalg, "_umath_linalg", None)


def _looped(name: str, *operands: np.ndarray) -> Any:
    """What a loop of NumPy's gives, an array or a tuple of them; None if this NumPy has none of the name."""
    loop, dtype = getattr(_LOOPS, name, None), operands[0].dtype
    if loop is None:
        return None
    found = silently(loop, *map(widen, operands))
    narrow = lambda x: x.astype(dtype if x.dtype.kind == dtype.kind else np.finfo(dtype).dtype, copy=False)
    return tuple(map(narrow, found)) if isinstance(found, tuple) else narrow(found)


def _columns(x: np.ndarray) -> np.ndarray:
    """The matrices with their columns in sequence, as LAPACK has them: in a copy of the transposed ones."""
    return np.array(x.swapaxes(-1, -2), order="C")


def _nan_where(failed: np.ndarray, *arrays: np.ndarray) -> None:
    """Write NaN where the algorithm failed for a matrix of a stack."""
    if failed.any():
        for x in arrays:
            x[failed] = _nan(x)


def _nan(x: np.ndarray) -> Any:
    return complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan


def _placeholder(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array that nobody reads."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def _not_finite(x: np.ndarray, part: Callable[[np.ndarray], np.ndarray] = np.asarray) -> np.ndarray:
    """Of which matrices LAPACK is not told, since it need not come to an end: they have NaN or infinity in a part."""
    if np.isfinite(silently(x.sum)):
        return np.zeros(x.shape[:-2], bool)
    return ~np.isfinite(part(x)).all((-1, -2))


def _without(x: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """The columns of matrices, some of which become zeros."""
    columns = _columns(x)
    columns[left_out] = 0
    return columns


def cholesky(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    if _is_small(x):
        found: np.ndarray | None = _looped("cholesky_lo", x)
        if found is not None:
            return _lower_nan_where(np.isnan(found[..., -1, -1]), found)
    factor = aligned_empty(x.shape, x.dtype)
    factor[...] = 0
    if not x.size:
        return factor
    # The rows of the lower triangle are the columns of the upper one of the transposed matrix.
    count, info = _count(x), np.zeros(x.shape[:-2], np.int32)
    with lapack.threads_for(n, n):
        lapack.call("lacpy", x.dtype, count, b"U", n, n, np.ascontiguousarray(x), n, factor, n)
        lapack.call("potrf", x.dtype, count, b"U", n, factor, n, info)
    # LAPACK goes on where a NaN was given, which comes to the last element of the diagonal.
    return _lower_nan_where((info != 0) | np.isnan(factor[..., -1, -1]), factor)


def _lower_nan_where(failed: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Lower triangular matrices with NaN in the triangle of those that failed."""
    if failed.any():
        factor[failed] = np.where(np.tri(factor.shape[-1], dtype=bool), _nan(factor), 0)
    return factor


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
    solution = aligned_copy(b)
    if not b.size:
        return solution
    a = np.ascontiguousarray(a.conj() if conjugate_a and not transpose_a else a)
    # BLAS has columns in sequence, NumPy rows: everything is handed over transposed.
    side, triangle = b"R" if left_side else b"L", b"U" if lower else b"L"
    operation = b"N" if not transpose_a else b"C" if conjugate_a else b"T"
    place = side, triangle, operation, b"U" if unit_diagonal else b"N"
    (rows, columns), n = b.shape[-2:], a.shape[-1]
    with lapack.threads_for(n, max(rows, columns)):
        if rows * columns == n and operation in _OTHER_SIDE:  # one right side: 50 equations in half the time
            operation = operation if not left_side else _OTHER_SIDE[operation]
            unit = place[3]
            lapack.call("trsv", b.dtype, _count(b), triangle, operation, unit, n, a, n, solution, 1)
            return solution
        lapack.call("trsm", b.dtype, _count(b), *place, columns, rows, lapack.one(b.dtype), a, n, solution, columns)
    return solution


_OTHER_SIDE = {b"N": b"T", b"T": b"N"}


def lu(x: np.ndarray) -> list[np.ndarray]:
    m, n = x.shape[-2:]
    if not x.size:
        pivots = np.zeros((*x.shape[:-2], min(m, n)), np.int32) + np.arange(min(m, n), dtype=np.int32)
        return [x.copy(), pivots, lu_pivots_to_permutation(pivots, permutation_size=m)]
    factors, pivots = _factors(x)
    return [factors.swapaxes(-1, -2), pivots - np.int32(1), _permutations(pivots, m)]


def _factors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `lu` gives, as LAPACK has it: columns in sequence, and pivots counted from 1."""
    m, n = x.shape[-2:]
    factors, pivots = _columns(x), np.empty((*x.shape[:-2], min(m, n)), np.int32)
    with lapack.threads_for(m, n):
        lapack.call("getrf", x.dtype, _count(x), m, n, factors, m, pivots, lapack.IGNORED)
    np.maximum(pivots, 1, out=pivots)  # of NaN OpenBLAS may give others
    return factors, pivots


def lu_pivots_to_permutation(pivots: np.ndarray, *, permutation_size: int) -> np.ndarray:
    return _permutations(np.clip(pivots, 0, permutation_size - 1) + np.int32(1), permutation_size)


def _permutations(pivots: np.ndarray, m: int) -> np.ndarray:
    """The orders of m elements after each element i was exchanged with element pivots[i], counted from 1, in turn.

    They are exchanged as float32, which LAPACK moves but does not compute with.
    """
    *batch, k = pivots.shape
    count = math.prod(batch)
    if count == 1 and k <= _LITTLE:  # in half the time
        given = [*range(m)]
        for i, pivot in enumerate(pivots.reshape(k).tolist()):
            given[i], given[pivot - 1] = given[pivot - 1], given[i]
        return np.array(given, np.int32).reshape(*batch, m)
    order = np.arange(m, dtype=np.int32) if count == 1 else np.tile(np.arange(m, dtype=np.int32), count)
    if k and order.size:
        if count > 1:  # one call for all, laid end to end
            whole = np.arange(1, count * m + 1, dtype=np.int32).reshape(count, m)
            whole[:, :k] = pivots.reshape(count, k) + (whole[:, :1] - 1)
            pivots = whole
        lapack.call("laswp", np.dtype(np.float32), 1, 1, order, order.size, 1, pivots.size, pivots, 1)
    return order.reshape(*batch, m)


def determinant(x: np.ndarray) -> np.ndarray:
    if _is_small(x) and x.dtype.char in "fF":  # NumPy computes it by logarithms, for which double precision is enough
        found = _looped("det", x)
        if found is not None:
            return np.asarray(found)
    if not x.size:
        return np.ones(x.shape[:-2], x.dtype)
    factors, pivots = _factors(x)
    odd = np.count_nonzero(pivots != np.arange(1, x.shape[-1] + 1, dtype=np.int32), -1) & 1
    product = silently(np.multiply.reduce, factors.diagonal(axis1=-2, axis2=-1), -1, x.dtype)
    return np.asarray(np.where(odd, -product, product), x.dtype)


def lu_solution(
    factors: np.ndarray, pivots: np.ndarray, permutation: np.ndarray, b: np.ndarray, *, transposed: bool
) -> np.ndarray:
    """The solution of systems whose matrices `lu` has factored, or of the transposed ones."""
    n, columns = b.shape[-2:]
    if not b.size:
        return aligned_copy(b)
    upside = np.ascontiguousarray(factors.swapaxes(-1, -2))  # as `lu` has them: a view
    count, dtype, letter = _count(b), b.dtype, b"T" if transposed else b"N"
    with lapack.threads_for(n, max(n, columns)):
        if columns == 1:
            x = aligned_copy(b)
            lapack.call("getrs", dtype, count, letter, n, 1, upside, n, pivots + np.int32(1), x, n, lapack.IGNORED)
            return x
        x = aligned_copy(b) if transposed else _rows(b, permutation)
        steps = [(b"L", b"T", b"U"), (b"U", b"T", b"N")]  # of the transposed factors, on the right: BLAS has columns
        if transposed:
            steps = [(b"U", b"N", b"N"), (b"L", b"N", b"U")]
        for triangle, operation, diagonal in steps:
            places = b"R", triangle, operation, diagonal
            lapack.call("trsm", dtype, count, *places, columns, n, lapack.one(dtype), upside, n, x, columns)
        return _rows(x, np.argsort(permutation, axis=-1)) if transposed else x


def solution(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of systems by elimination."""
    n, columns = b.shape[-2:]
    if n <= _LITTLE and b.size:
        found: np.ndarray | None = _looped("solve", a, b)  # 200 of 12x12 in 530 us instead of 860
        if found is not None and np.isfinite(found).all():
            return found
    if columns > 1 or a.ndim > 2 or not b.size:
        factors, pivots, permutation = lu(a)
        return lu_solution(factors, pivots, permutation, b, transposed=False)
    factors, pivots, x = _columns(a), np.empty(n, np.int32), aligned_copy(b)
    with lapack.threads_for(n, n):
        lapack.call("getrf", b.dtype, 1, n, n, factors, n, pivots, lapack.IGNORED)
        np.maximum(pivots, 1, out=pivots)
        lapack.call("getrs", b.dtype, 1, b"N", n, 1, factors, n, pivots, x, n, lapack.IGNORED)
    return x


_LITTLE = 16


def _rows(x: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The rows of each matrix in some order."""
    return x.take(chosen, 0) if x.ndim == 2 else np.take_along_axis(x, chosen[..., None], -2)


def qr(x: np.ndarray, *, full_matrices: bool, pivoting: bool, with_q: bool = True) -> list[np.ndarray]:
    """The factors; without Q, whose place is held, in three quarters of the time."""
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    if not x.size:
        q = np.broadcast_to(np.eye(m, k, dtype=x.dtype), (*batch, m, k)).copy()
        order = np.broadcast_to(np.arange(n, dtype=np.int32), (*batch, n)).copy()
        return [q, np.zeros((*batch, k, n), x.dtype), order][: 2 + pivoting]
    if pivoting:
        import scipy.linalg

        outs = [((m, k), x.dtype), ((k, n), x.dtype), ((n,), np.int32)]
        mode = "full" if full_matrices else "economic"
        one = lambda matrix: scipy.linalg.qr(matrix, mode=mode, pivoting=True, check_finite=False)
        return _stacked(one, [x], outs)
    if _is_small(x):
        return _small_qr(x, k)
    reflections, count = _columns(x), _count(x)
    taus, r = np.empty((*batch, min(m, n)), x.dtype), np.zeros((*batch, n, k), x.dtype)
    with lapack.threads_for(m, n):
        work = _work_space(n, x.dtype)
        lapack.call("geqrf", x.dtype, count, m, n, reflections, m, taus, *work, lapack.IGNORED)
        lapack.call("lacpy", x.dtype, count, b"U", k, n, reflections, m, r, k)
    if not with_q:
        return [_placeholder((*batch, m, k), x.dtype), r.swapaxes(-1, -2)]
    q = np.zeros((*batch, k, m), x.dtype)
    q[..., : min(m, n), :] = reflections[..., : min(m, n), :]
    _multiply(q, taus)
    return [q.swapaxes(-1, -2), r.swapaxes(-1, -2)]


def _small_qr(x: np.ndarray, k: int) -> list[np.ndarray]:
    """By NumPy in double precision, with the first k columns of Q."""
    m, n = x.shape[-2:]
    wide = widen(x)
    factor, product = (getattr(_LOOPS, name, None) for name in ("qr_r_raw", "qr_complete" if k > n else "qr_reduced"))
    if factor is None or product is None:
        return [*np.linalg.qr(x, "complete" if k == m else "reduced")]
    q = silently(product, wide, silently(factor, wide))
    return [q.astype(x.dtype), (wide[..., :k, :] * np.tri(n, k, dtype=bool).T).astype(x.dtype)]


def _multiply(reflections: np.ndarray, taus: np.ndarray) -> None:
    """Put the columns of the product of reflections in their place."""
    (k, m), size, dtype = reflections.shape[-2:], taus.shape[-1], taus.dtype
    arguments = m, k, size, reflections, m, taus, *_work_space(k, dtype), lapack.IGNORED
    with lapack.threads_for(m, k):
        lapack.call("orgqr/ungqr", dtype, _count(reflections), *arguments)


def _work_space(size: int, dtype: Any) -> tuple[Any, int]:
    """Of an algorithm in blocks of columns, and how large it is; 64 is more than LAPACK's block."""
    return lapack.shared(np.empty(64 * size, dtype)), 64 * size


def householder_product(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    if not a.size or not taus.size:
        return np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape).copy()
    columns = _columns(a)
    _multiply(columns, np.ascontiguousarray(taus))
    return columns.swapaxes(-1, -2)


def eigh(x: np.ndarray, *, lower: bool, with_vectors: bool = True) -> list[np.ndarray]:
    """The vectors and values; without vectors, whose place is held, in a third of the time."""
    n = x.shape[-1]
    values = np.zeros(x.shape[:-1], x.real.dtype)
    if not x.size:
        return [x.copy(), values]
    if _is_small(x):
        kind, end = "eigh" if with_vectors else "eigvalsh", "lo" if lower else "up"
        found = _looped(f"{kind}_{end}", x)
        if found is not None:
            return [found[1], found[0]] if with_vectors else [_placeholder(x.shape, x.dtype), found]
    failed = _not_finite(x, np.tril if lower else np.triu)
    vectors, info = _without(x, failed), np.zeros(x.shape[:-2], np.int32)
    # As large as LAPACK asks for at most, for all its ways to go: 1 + 6n + 2n^2 numbers, complex ones 2n + n^2.
    size, real_size, integer_size = 1 + 64 * n + 2 * n * n, 1 + 5 * n + 2 * n * n, 3 + 5 * n
    work = [lapack.shared(np.empty(size, x.dtype)), size]
    if x.dtype.kind == "c":
        work += [lapack.shared(np.empty(real_size, values.dtype)), real_size]
    work += [lapack.shared(np.empty(integer_size, np.int32)), integer_size]
    with lapack.threads_for(n, n):
        triangle = b"L" if lower else b"U"
        job = b"V" if with_vectors else b"N"
        lapack.call("syevd/heevd", x.dtype, _count(x), job, triangle, n, vectors, n, values, *work, info)
    _nan_where(failed | (info != 0), vectors, values)
    return [vectors.swapaxes(-1, -2), values]


def svd(x: np.ndarray, *, full_matrices: bool, compute_uv: bool) -> list[np.ndarray]:
    *batch, m, n = x.shape
    k, most = min(m, n), max(m, n)
    values = np.zeros((*batch, k), x.real.dtype)
    rows, columns = (m, n) if full_matrices else (k, k)
    if not x.size:
        identity = lambda a, b: np.broadcast_to(np.eye(a, b, dtype=x.dtype), (*batch, a, b)).copy()
        return [values, identity(m, rows), identity(columns, n)] if compute_uv else [values]
    found = _looped("svd" if not compute_uv else "svd_f" if full_matrices else "svd_s", x) if _is_small(x) else None
    if found is not None:
        return [found[1], found[0], found[2]] if compute_uv else [found]
    if m > n:  # 1000x30 as LAPACK's columns take half of the time that they take as its rows
        turned = np.swapaxes(x, -1, -2)
        values, *factors = svd(turned, full_matrices=full_matrices, compute_uv=compute_uv)
        return [values, *(np.ascontiguousarray(np.swapaxes(y, -1, -2)) for y in reversed(factors))]
    failed = _not_finite(x)
    # As LAPACK sees the matrices they are transposed, and so are the factors, which change places: as they are wanted.
    matrices, info = np.array(x, order="C"), np.zeros(batch, np.int32)
    matrices[failed] = 0
    factors = [np.empty((*batch, m, rows), x.dtype), np.empty((*batch, columns, n), x.dtype)] if compute_uv else []
    # Enough for blocks of 64 columns: LAPACK's own formulas have 4k^2 + 7k and what the steps before need.
    size = 4 * k * k + 7 * k + 64 * (2 * k + most) + (rows * rows + columns * columns)
    work = [lapack.shared(np.empty(size, x.dtype)), size]
    if x.dtype.kind == "c":
        work.append(lapack.shared(np.empty(max(5 * k * k + 7 * k, 2 * most * k + 2 * k * k + k), values.dtype)))
    work.append(lapack.shared(np.empty(8 * k, np.int32)))
    job = b"N" if not compute_uv else b"A" if full_matrices else b"S"
    u, vh = factors or [lapack.shared(np.empty(1, x.dtype))] * 2
    with lapack.threads_for(m, n):
        lapack.call("gesdd", x.dtype, _count(x), job, n, m, matrices, n, values, vh, n, u, rows, *work, info)
    _nan_where(failed | (info != 0), values, *factors)
    return [values, *factors]


def eig(
    x: np.ndarray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, enable_eigvec_derivs: bool
) -> list[np.ndarray]:
    from scipy.linalg import get_lapack_funcs

    n = x.shape[-1]
    dtype = np.result_type(x.dtype, np.complex64)
    outs = [((n,), dtype), *[((n, n), dtype)] * (compute_left_eigenvectors + compute_right_eigenvectors)]
    geev = get_lapack_funcs("geev", (x,))
    kept = (True, compute_left_eigenvectors, compute_right_eigenvectors)

    def one(matrix: np.ndarray) -> list[Any] | None:
        if not np.isfinite(matrix).all():
            return None
        *w, left, right, info = geev(matrix, compute_vl=kept[1], compute_vr=kept[2])
        if info:
            return None
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

    def one(matrix: np.ndarray) -> list[Any] | None:
        if not np.isfinite(matrix).all():
            return None
        form, _, *_, vectors, _, info = gees(lambda *_: None, matrix, compute_v=compute_schur_vectors)
        return None if info else [form, vectors][: len(outs)]

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

    def one(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> list[np.ndarray] | None:
        low, diagonal, up = padded(dl, 0)[1:], padded(d, 1), padded(du, 0)[:-1]
        up[n - 1 :] = 0
        low, diagonal, up, second, pivots, _ = gttrf(low, diagonal, up)
        if perturb_singular:
            limits = np.finfo(b.dtype)
            largest = max(np.abs(x[:size]).max(initial=0) for x, size in ((diagonal, n), (up, n - 1), (second, n)))
            least = max(limits.eps * largest, limits.tiny)
            diagonal = np.where(np.abs(diagonal) < least, np.copysign(least, diagonal.real), diagonal).astype(b.dtype)
        elif not diagonal.all():
            return None
        right = np.concatenate([b, np.zeros((more, b.shape[1]), b.dtype)])
        return [gttrs(low, diagonal, up, second, pivots, right)[0][:n]]

    with np.errstate(all="ignore"):
        return _stacked(one, [dl[..., None], d[..., None], du[..., None], b], [(b.shape[-2:], b.dtype)])[0]
