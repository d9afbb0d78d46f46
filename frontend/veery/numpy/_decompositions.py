"""Factorisations of matrices, and what follows from singular values and eigenvalues."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from veery import lax
from veery._api.custom_derivatives import custom_jvp
from veery._api.jit import jit
from veery._core import dtypes
from veery.lax import _linalg_loops
from veery.lax._linalg_triangular import symmetrize
from veery.numpy import _reductions
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._linear_systems import check_square
from veery.numpy._products import matmul
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    promote_args_inexact,
    promote_dtypes_inexact,
)
from veery.numpy._selection import where
from veery.numpy._shaping import matrix_transpose


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """Eigenvalues, and the eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """The factors: orthonormal columns, and an upper triangle."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Array
    S: Array
    Vh: Array


def _adjoint(x: Array) -> Array:
    x = matrix_transpose(x)
    return lax.conj(x) if is_kind(x, np.complexfloating) else x


def _eps(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).eps)


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The triangular factor of Hermitian positive-definite matrices: `a = L @ L'`, or `a = U' @ U`.

    Args:
        a: array of shape (..., n, n).
        upper: whether U is wanted instead of L.
        symmetrize_input: whether a is replaced by `(a + a') / 2`; else only its lower triangle is read.

    Returns:
        The factor; NaN where a is not positive definite.

    Raises:
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    (a,) = promote_args_inexact("jnp.linalg.cholesky", a)
    return run(_cholesky, a, upper=bool(upper), symmetrize_input=bool(symmetrize_input))


def _cholesky(a: Array, *, upper: bool, symmetrize_input: bool) -> Array:
    factor = lax.linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return _adjoint(factor) if upper else factor


def qr(a: ArrayLike, mode: str = "reduced") -> Array | QRResult:
    """The factors of `a = Q @ R`.

    Args:
        a: array of shape (..., m, n).
        mode: "reduced" (Q has min(m, n) columns), "complete" (m columns), "r" (R alone), or "raw" (the reflections as
            LAPACK has them, transposed, and their factors).

    Raises:
        ValueError: there is no such mode.

    >>> import veery.numpy as jnp
    >>> q, r = qr(jnp.array([[3.0], [4.0]]))
    >>> q.shape, r.shape
    ((2, 1), (1, 1))
    """
    (a,) = promote_args_inexact("jnp.linalg.qr", a)
    if mode == "raw":
        return QRResult(*run(_raw_qr, a))
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    result = QRResult(*run(_qr, a, full_matrices=mode == "complete"))
    return result.R if mode == "r" else result


def _qr(a: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    return tuple(lax.linalg.qr(a, full_matrices=full_matrices))


def _raw_qr(a: Array) -> tuple[Array, Array]:
    if not a.size:
        return matrix_transpose(a), lax.full((*a.shape[:-2], min(a.shape[-2:])), 0, a.dtype)
    reflections, taus, _ = _linalg_loops.reflections(a, False)
    return matrix_transpose(reflections), lax.squeeze(taus, (taus.ndim - 1,))


# Singular values.


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult:
    """The singular values and vectors of matrices: `a = U @ diag(S) @ Vh`.

    Args:
        a: array of shape (..., m, n).
        full_matrices: whether U and Vh are square, instead of having min(m, n) columns and rows.
        compute_uv: whether there are vectors, or S alone.
        hermitian: whether a is Hermitian, so that eigenvalues do; it is replaced by `(a + a') / 2`.
        subset_by_index: the range (start, end) of singular values wanted, without full matrices.

    Raises:
        ValueError: a subset is asked for with full matrices.

    >>> import veery.numpy as jnp
    >>> svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    (a,) = promote_args_inexact("jnp.linalg.svd", a)
    if hermitian:
        check_square("svd", a)
        out = run(_hermitian_svd, a, compute_uv=bool(compute_uv))
        if subset_by_index is not None:
            cut = slice(*subset_by_index)
            out = (out[0][..., cut], out[1][..., cut], out[2][..., cut, :]) if compute_uv else out[..., cut]
    else:
        subset = None if subset_by_index is None else tuple(subset_by_index)
        out = run(_svd, a, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), subset=subset)
    return SVDResult(*out) if compute_uv else out


def _svd(a: Array, *, full_matrices: bool, compute_uv: bool, subset: tuple[int, int] | None) -> Any:
    return lax.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset)


def _hermitian_svd(a: Array, *, compute_uv: bool) -> Any:
    """The singular values are the moduli of the eigenvalues; a negative sign goes to the right vectors."""
    v, w = lax.linalg.eigh(a)
    s = lax.abs(w)
    if not compute_uv:
        return lax.rev(lax.sort(s), (s.ndim - 1,))
    signs = where(w < 0, lax.full_like(w, -1), lax.full_like(w, 1))
    u, right, keys = v, v * signs[..., None, :].astype(v.dtype), broadcast_to(-s[..., None, :], v.shape)
    _, u, right = lax.sort((keys, u, right), dimension=v.ndim - 1, num_keys=1)
    return u, lax.rev(lax.sort(s), (s.ndim - 1,)), _adjoint(right)


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, in descending order.

    >>> import veery.numpy as jnp
    >>> svdvals(jnp.array([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """
    return svd(x, compute_uv=False, hermitian=False)


def _one_of(function: str, names: str, old: ArrayLike | None, new: ArrayLike | None) -> ArrayLike | None:
    if old is not None and new is not None:
        raise ValueError(f"{function}: only one of {names} may be specified.")
    return new if old is None else old


def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None
) -> Array:
    """The number of singular values of matrices that are not negligible.

    Args:
        M: array of shape (..., m, n); a vector has rank 1 unless it is zero.
        rtol: what is negligible, relative to the largest; by default the dtype's epsilon times max(m, n).
        hermitian: whether M is Hermitian.
        tol: the old name of rtol.

    >>> import veery.numpy as jnp
    >>> matrix_rank(jnp.ones((3, 2))).tolist()
    1
    """
    rtol = _one_of("matrix_rank", "tol or rtol", tol, rtol)
    M = ensure_arraylike("jnp.linalg.matrix_rank", M)
    if np.ndim(M) < 2:
        return _reductions.any(M != 0).astype(np.int32)
    return _matrix_rank(M, rtol, hermitian=bool(hermitian))


@jit(static_argnames=("hermitian",))
def _matrix_rank(M: Array, rtol: ArrayLike | None, hermitian: bool) -> Array:
    s: Any = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    limit = max(np.shape(M)[-2:]) * _eps(s.dtype) if rtol is None else rtol
    (limit,) = promote_args_inexact("jnp.linalg.matrix_rank", limit)
    largest = _reductions.max(s, axis=-1, keepdims=True, initial=0)
    return _reductions.sum(s > _for_each(limit, s.ndim) * largest, axis=-1)


def _for_each(limits: Any, rank: int) -> Array:
    """Limits of matrices beside their singular values, which have this rank."""
    return lax.broadcast_to_rank(lax.expand_dims(limits, (np.ndim(limits),)), rank)


_matrix_rank._name = "matrix_rank"


def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """The Moore-Penrose inverses of matrices, by their singular values.

    Args:
        a: array of shape (..., m, n).
        rtol: singular values below it, relative to the largest, count as zero; by default the dtype's epsilon times
            10 * max(m, n).
        hermitian: whether a is Hermitian; it is replaced by `(a + a') / 2`.
        rcond: the old name of rtol.

    >>> import veery.numpy as jnp
    >>> pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    rtol = _one_of("pinv", "rtol and rcond", rcond, rtol)
    (a,) = promote_args_inexact("jnp.linalg.pinv", a)
    if rtol is None:
        rtol = 10.0 * max(np.shape(a)[-2:]) * _eps(lax.dtype(a))
    return run(_pinv, a, *promote_args_inexact("jnp.linalg.pinv", rtol), hermitian=bool(hermitian))


def _pinv(a: Array, rtol: Array, *, hermitian: bool) -> Array:
    return _pinv_of_hermitian(symmetrize(a), rtol) if hermitian else _pinv_of_any(a, rtol)


def _pinv_value(a: Array, rtol: Array, hermitian: bool) -> Array:
    if not a.size:
        return lax.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), 0, a.dtype)
    if hermitian:
        u, s, vh = _hermitian_svd(a, compute_uv=True)
    else:
        u, s, vh = lax.linalg.svd(a, full_matrices=False)
    limit = _for_each(rtol, s.ndim).astype(s.dtype) * s[..., :1]
    large = s > broadcast_to(limit, s.shape)
    inverse = where(large, 1 / where(large, s, 1), 0).astype(a.dtype)
    return matmul(_adjoint(vh) * inverse[..., None, :], _adjoint(u))


def _pinv_jvp(fun: Any) -> Any:
    """Golub and Pereyra (1973), (4.12), for matrices whose rank does not change.

    All products are of three matrices, like p, a and p: they are taken in the order that keeps them small.
    """

    def rule(primals: Any, tangents: Any) -> Any:
        a, rtol = primals
        p, t = fun(a, rtol), tangents[0]
        tall = a.shape[-2] >= a.shape[-1]
        product = lambda x, y, z: matmul(matmul(x, y), z) if tall else matmul(x, matmul(y, z))
        p_adjoint, t_adjoint = _adjoint(p), _adjoint(t)
        right, left = product(p, p_adjoint, t_adjoint), product(t_adjoint, p_adjoint, p)
        right, left = right - product(right, a, p), left - product(p, a, left)
        return p, right + left - product(p, t, p)

    return rule


@custom_jvp
def _pinv_of_any(a: Array, rtol: Array) -> Array:
    return _pinv_value(a, rtol, False)


@custom_jvp
def _pinv_of_hermitian(a: Array, rtol: Array) -> Array:
    return _pinv_value(a, rtol, True)


_pinv_of_any.defjvp(_pinv_jvp(_pinv_of_any))
_pinv_of_hermitian.defjvp(_pinv_jvp(_pinv_of_hermitian))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x of least norm that minimises the norm of `b - a @ x`.

    Args:
        a: array of shape (m, n).
        b: array of shape (m,) or (m, k).
        rcond: singular values below it, relative to the largest, count as zero; by default the dtype's epsilon times
            max(m, n).
        numpy_resid: whether residuals are empty where NumPy's are (not while traced).

    Returns:
        x, the sums of squared residuals, the rank of a, and its singular values.

    Raises:
        TypeError: a has not two dimensions, or b neither one nor two.
        ValueError: a and b differ in m.

    >>> import veery.numpy as jnp
    >>> x, resid, rank, s = lstsq(jnp.array([[1.0], [1.0]]), jnp.array([1.0, 3.0]))
    >>> round(float(x[0]), 4), int(rank)
    (2.0, 1)
    """
    a, b = ensure_arraylike("jnp.linalg.lstsq", a, b)
    a, b = promote_dtypes_inexact(a, b)
    shape, right = np.shape(a), np.shape(b)
    if len(shape) != 2:
        raise TypeError(f"{len(shape)}-dimensional array given. Array must be two-dimensional")
    if len(right) not in (1, 2):
        raise TypeError(f"{len(right)}-dimensional array given. Array must be one or two-dimensional")
    if shape[0] != right[0]:
        raise ValueError("Leading dimensions of input arrays must match")
    x, resid, rank, s = run(_lstsq, a, b, rcond=None if rcond is None else float(rcond))
    if numpy_resid and (shape[0] <= shape[1] or int(rank) < shape[1]):
        resid = lax.full((0,), 0, resid.dtype)
    return x, resid, rank, s


def _lstsq(a: Array, b: Array, *, rcond: float | None) -> tuple[Array, Array, Array, Array]:
    m, n = a.shape
    vector = b.ndim == 1
    b = lax.expand_dims(b, (1,)) if vector else b
    real = dtypes.finfo(a.dtype).dtype
    if not a.size:
        s, rank = lax.full((0,), 0, real), lax.full((), 0, np.int32)
        x, resid = lax.full((n, b.shape[1]), 0, a.dtype), lax.full((0,), 0, real)
    else:
        if rcond is None or rcond < 0:
            rcond = _eps(a.dtype) * (max(m, n) if rcond is None else 1)
        u, s, vh = lax.linalg.svd(a, full_matrices=False)
        large = lax.bitwise_and(s > 0, s >= lax.full_like(s, rcond) * s[:1])
        rank = _reductions.sum(large, dtype=np.int32)
        inverse = where(large, 1 / where(large, s, 1), 0).astype(a.dtype)
        x = matmul(_adjoint(vh), inverse[:, None] * matmul(_adjoint(u), b))
        rest = lax.abs(b - matmul(a, x))
        resid = _reductions.sum(rest * rest, axis=0)
    return (x[:, 0] if vector else x), resid, rank, s


# Eigenvalues.


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        a: array of shape (..., n, n).
        UPLO: the triangle that is read, "L" or "U", where the input is not symmetrized.
        symmetrize_input: whether a is replaced by `(a + a') / 2`.

    Raises:
        ValueError: the matrices are not square, or UPLO is neither.

    >>> import veery.numpy as jnp
    >>> eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    (a,) = promote_args_inexact("jnp.linalg.eigh", a)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    v, w = run(_eigh, a, lower=UPLO != "U", symmetrize_input=bool(symmetrize_input))
    return EighResult(w, v)


def _eigh(a: Array, *, lower: bool, symmetrize_input: bool) -> tuple[Array, Array]:
    return lax.linalg.eigh(a, lower=lower, symmetrize_input=symmetrize_input)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of Hermitian matrices, in ascending order; see eigh.

    >>> import veery.numpy as jnp
    >>> eigvalsh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    a = ensure_arraylike("jnp.linalg.eigvalsh", a)
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: ArrayLike) -> EigResult:
    """The eigenvalues and eigenvectors of general square matrices; both are complex. On the CPU alone, as in JAX.

    Args:
        a: array of shape (..., n, n).

    Raises:
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> sorted(eig(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.imag.tolist())
    [-1.0, 1.0]
    """
    (a,) = promote_args_inexact("jnp.linalg.eig", a)
    return EigResult(*run(_eig, a, vectors=True))


def eigvals(a: ArrayLike) -> Array:
    """The complex eigenvalues of general square matrices; see eig.

    >>> import veery.numpy as jnp
    >>> sorted(eigvals(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag.tolist())
    [-1.0, 1.0]
    """
    (a,) = promote_args_inexact("jnp.linalg.eigvals", a)
    return run(_eig, a, vectors=False)[0]


def _eig(a: Array, *, vectors: bool) -> tuple[Array, ...]:
    return tuple(lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=vectors))


__all__ = [
    *("EigResult", "EighResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "lstsq"),
    *("matrix_rank", "pinv", "qr", "svd", "svdvals"),
]
