"""Factorisations of matrices, which may be stacked in leading dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core import dtypes
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, broadcast_to, promote_dtypes_complex, promote_dtypes_inexact


def adjoint(x: Array) -> Array:
    """The conjugates of the transposed matrices."""
    x = jnp.matrix_transpose(x)
    return lax.conj(x) if is_kind(x, np.complexfloating) else x


def matmul(a: Array, b: Array) -> Array:
    """Products of matrices, in the precision of their dtype."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def inexact(*xs: Any) -> list[Any]:
    """The arguments, which may be nested lists, as arrays of one float or complex dtype."""
    return promote_dtypes_inexact(*map(jnp.asarray, xs))


def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The triangular factor of Hermitian positive-definite matrices: `a = L @ L'`, or `a = U' @ U`.

    Args:
        a: array of shape (..., n, n), of which one triangle is read.
        lower: whether the lower triangle is read and L wanted; else the upper one and U.
        overwrite_a: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        An array like a, zero in the other triangle; NaN in this one where a is not positive definite.

    Raises:
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    return run(_cholesky, *inexact(a), lower=bool(lower))


def _cholesky(a: Array, *, lower: bool) -> Array:
    factor = jnp.tril(lax.linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False))
    return factor if lower else adjoint(factor)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The factor of `cholesky` as `cho_solve` takes it.

    Returns:
        The factor, and `lower`.

    Raises:
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> from veery.scipy.linalg import cho_solve
    >>> cho_solve(cho_factor(jnp.array([[4.0, 0.0], [0.0, 1.0]])), jnp.array([4.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return cholesky(a, lower=lower), lower


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """The factors of elimination with partial pivoting as `lu_solve` takes them.

    Args:
        a: array of shape (..., m, n).
        overwrite_a: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        U on and above the diagonal and L, which has ones on its diagonal, below it; and the int32 pivots of shape
        (..., min(m, n)): row i was exchanged with row pivots[i].

    >>> import veery.numpy as jnp
    >>> [x.tolist() for x in lu_factor(jnp.array([[1.0, 2.0], [2.0, 2.0]]))]
    [[[2.0, 2.0], [0.5, 1.0]], [1, 1]]
    """
    factors, pivots = run(_lu_factor, *inexact(a))
    return factors, pivots


def _lu_factor(a: Array) -> tuple[Array, Array]:
    factors, pivots, _ = lax.linalg.lu(a)
    return factors, pivots


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """The factors of `a = P @ L @ U`, by elimination with partial pivoting.

    Args:
        a: array of shape (..., m, n).
        permute_l: whether P is multiplied with L.
        overwrite_a: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        P of shape (..., m, m), L of shape (..., m, k) and U of shape (..., k, n), k = min(m, n); or `P @ L` and U.

    >>> import veery.numpy as jnp
    >>> [x.tolist() for x in lu(jnp.array([[1.0, 2.0], [2.0, 2.0]]))]
    [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]]]
    """
    p, lower, upper = run(_lu, *inexact(a))
    return (matmul(p.astype(lower.dtype), lower), upper) if permute_l else (p, lower, upper)


def _lu(a: Array) -> tuple[Array, Array, Array]:
    factors, _, permutation = lax.linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    rows = lax.broadcasted_iota(np.int32, (*a.shape[:-2], m, m), a.ndim - 2)
    p = lax.eq(rows, broadcast_to(permutation[..., None, :], rows.shape))
    real = dtypes.finfo(a.dtype).dtype
    lower = jnp.tril(factors, -1)[..., :, :k]
    lower = lower + broadcast_to(np.eye(m, k, dtype=a.dtype), lower.shape)
    return lax.convert_element_type(p, real), lower, jnp.triu(factors)[..., :k, :]


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """The factors of `a = Q @ R`: Q has orthonormal columns, R is upper triangular.

    Args:
        a: array of shape (..., m, n).
        overwrite_a: accepted for compatibility.
        lwork: accepted for compatibility.
        mode: "full" (Q has m columns), "economic" (min(m, n) columns) or "r" (R of the full factors alone).
        pivoting: whether columns are exchanged, so that the diagonal of R descends: `a[:, P] = Q @ R`.
        check_finite: accepted for compatibility.

    Returns:
        (Q, R), or (R,); with pivoting followed by the int32 order P of the columns.

    Raises:
        ValueError: there is no such mode.

    >>> import veery.numpy as jnp
    >>> [x.shape for x in qr(jnp.array([[3.0], [4.0]]), mode="economic")]
    [(2, 1), (1, 1)]
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, *rest = run(_qr, *inexact(a), full=mode != "economic", pivoting=bool(pivoting))
    return tuple(rest) if mode == "r" else (q, *rest)


def _qr(a: Array, *, full: bool, pivoting: bool) -> tuple[Array, ...]:
    return tuple(lax.linalg.qr(a, pivoting=pivoting, full_matrices=full))


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """The economic factor R of `a = Q @ R`, and a product with Q.

    Args:
        a: array of shape (..., m, n); Q has k = min(m, n) columns.
        c: array of shape (..., rows, m) for `c @ Q`, or (..., k, columns) for `Q @ c`; a vector is a matrix of one row
            or one column.
        mode: on which side of c Q stands, "right" or "left".
        pivoting: whether columns are exchanged, see `qr`.
        conjugate: whether Q is replaced by its conjugate.
        overwrite_a: accepted for compatibility.
        overwrite_c: accepted for compatibility.

    Returns:
        The product, a vector for a vector c; R; and with pivoting the int32 order of the columns.

    Raises:
        ValueError: shapes do not fit, or there is no such mode.

    >>> import veery.numpy as jnp
    >>> product, r = qr_multiply(jnp.array([[3.0], [4.0]]), jnp.array([3.0, 4.0]))
    >>> (product / r[0]).round(4).tolist()
    [1.0]
    """
    a, c = inexact(a, c)
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    left, vector = mode == "left", c.ndim == 1
    if vector:
        c = lax.expand_dims(c, (int(left),))
    m, n = a.shape[-2:]
    rows, expected = (c.shape[-2], min(m, n)) if left else (c.shape[-1], m)
    if rows != expected:
        operation, has, counted = ("Q @ c", "columns", "rows") if left else ("c @ Q", "rows", "columns")
        raise ValueError(
            f"Array shapes are not compatible for {operation} operation: a has shape {a.shape} so Q has {expected} "
            f"{has}, but c has {rows} {counted} (expected {expected})."
        )
    product, *rest = run(_qr_multiply, a, c, left=left, pivoting=bool(pivoting), conjugate=bool(conjugate))
    return (lax.reshape(product, (product.size,)) if vector else product, *rest)


def _qr_multiply(a: Array, c: Array, *, left: bool, pivoting: bool, conjugate: bool) -> tuple[Array, ...]:
    q, *rest = lax.linalg.qr(a, pivoting=pivoting, full_matrices=False)
    q = lax.conj(q) if conjugate and is_kind(q, np.complexfloating) else q
    return (matmul(q, c) if left else matmul(c, q), *rest)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """The singular values and vectors of matrices: `a = U @ diag(s) @ Vh`.

    Args:
        a: array of shape (..., m, n).
        full_matrices: whether U and Vh are square, instead of having min(m, n) columns and rows.
        compute_uv: whether there are vectors, or s alone.
        overwrite_a: accepted for compatibility.
        check_finite: accepted for compatibility.
        lapack_driver: accepted for compatibility.

    Returns:
        (U, s, Vh), or s alone; s descends.

    >>> import veery.numpy as jnp
    >>> svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    out = run(_svd, *inexact(a), full_matrices=bool(full_matrices), compute_uv=bool(compute_uv))
    return tuple(out) if compute_uv else out


def _svd(a: Array, *, full_matrices: bool, compute_uv: bool) -> Any:
    return lax.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


# ---------------------------------------------------------------------------------------------------------------------
# Hessenberg and Schur form


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """The Hessenberg form of matrices: `a = Q @ H @ Q'`, H being zero below the first subdiagonal.

    Args:
        a: array of shape (..., n, n).
        calc_q: whether the unitary Q is wanted.
        overwrite_a: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        H, or (H, Q).

    Raises:
        TypeError: a is not of a float or complex dtype.
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    out = run(_hessenberg, jnp.asarray(a), calc_q=bool(calc_q))
    return tuple(out) if calc_q else out[0]


def _hessenberg(a: Array, *, calc_q: bool) -> tuple[Array, ...]:
    reduced, taus = lax.linalg.hessenberg(a)
    h = jnp.triu(reduced, -1)
    if not calc_q:
        return (h,)
    if a.shape[-1] < 2:
        return h, broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    inner = lax.linalg.householder_product(reduced[..., 1:, :-1], taus)
    q = lax.pad(inner, np.zeros((), a.dtype), [(0, 0, 0)] * (a.ndim - 2) + [(1, 0, 0)] * 2)
    corner = np.zeros(a.shape[-2:], a.dtype)
    corner[0, 0] = 1
    return h, q + broadcast_to(corner, q.shape)


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form of matrices: `a = Z @ T @ Z'`, T upper triangular and Z unitary. On the CPU alone, as in JAX.

    Args:
        a: array of shape (..., n, n).
        output: "real": a real matrix has real factors, in which pairs of complex eigenvalues are 2x2 blocks on the
            diagonal of T; "complex": T is triangular in any case.

    Returns:
        T and Z.

    Raises:
        NotImplementedError: it is differentiated.
        TypeError: a is not of a float or complex dtype.
        ValueError: the matrices are not square, or there is no such output.

    >>> import veery.numpy as jnp
    >>> schur(jnp.array([[1.0, 2.0], [0.0, 3.0]]))[0].tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got {output=}.")
    t, z = run(_schur, a, complex=output == "complex")
    return t, z


def _schur(a: Array, *, complex: bool) -> Any:
    if complex:
        (a,) = promote_dtypes_complex(a)
    return tuple(lax.linalg.schur(a))


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form that a real one stands for: rotations make its 2x2 blocks triangular.

    Args:
        T: array of shape (..., n, n), upper triangular but for 2x2 blocks on its diagonal.
        Z: unitary array of the same shape.
        check_finite: accepted for compatibility.

    Returns:
        The complex T and Z.

    Raises:
        ValueError: the matrices are not square, or their shapes differ.

    >>> import veery.numpy as jnp
    >>> t, z = rsf2csf(*schur(jnp.array([[0.0, 2.0], [-2.0, 0.0]])))
    >>> sorted(jnp.diagonal(t).imag.round(4).tolist())
    [-2.0, 2.0]
    """
    T, Z = jnp.asarray(T), jnp.asarray(Z)
    for name, x in (("T", T), ("Z", Z)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square.")
    if T.shape != Z.shape:
        raise ValueError(f"Input array shapes must match: Z: {Z.shape} vs. T: {T.shape}")
    t, z = run(_rsf2csf, T, Z)
    return t, z


def _rsf2csf(t: Array, z: Array) -> tuple[Array, Array]:
    t, z = promote_dtypes_complex(t, z)
    n = t.shape[-1]
    if n < 2:
        return t, z
    eps = float(dtypes.finfo(t.dtype).eps)
    part = lambda x, start, sizes: lax.dynamic_slice(x, (0,) * (x.ndim - 2) + start, (*x.shape[:-2], *sizes))
    put = lambda x, new, start: lax.dynamic_update_slice(x, new, (0,) * (x.ndim - 2) + start)
    place = lambda like, axis, x: lax.broadcasted_iota(like.dtype, x.shape, x.ndim + axis)

    def step(trip: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        """The block of the rows m - 1 and m."""
        t, z = state
        m = (n - 1) - trip
        block = part(t, (m - 1, m - 1), (2, 2))
        element = lambda i, j: block[..., i, j]
        # mu is an eigenvalue of the block less its last element: ((mu, low)) is turned to (r, 0)
        half = (element(0, 0) - element(1, 1)) / 2
        mu = half + lax.sqrt(half * half + element(0, 1) * element(1, 0))
        low = element(1, 0)
        r = lax.sqrt(lax.square(lax.abs(mu)) + lax.square(lax.abs(low)))
        done = lax.abs(low) <= eps * (lax.abs(element(0, 0)) + lax.abs(element(1, 1)))
        safe = jnp.where(done, 1, r).astype(t.dtype)
        cos, sin = jnp.where(done, 1, mu / safe), jnp.where(done, 0, low / safe)
        rotation = jnp.stack([jnp.stack([lax.conj(cos), sin], -1), jnp.stack([-sin, cos], -1)], -2)
        rows, columns = part(t, (m - 1, 0), (2, n)), (0, m - 1)
        t = put(t, jnp.where(place(m, -1, rows) >= m - 1, matmul(rotation, rows), rows), (m - 1, 0))
        old = part(t, columns, (n, 2))
        t = put(t, jnp.where(place(m, -2, old) <= m, matmul(old, adjoint(rotation)), old), columns)
        z = put(z, matmul(part(z, columns, (n, 2)), adjoint(rotation)), columns)
        return put(t, lax.full((*t.shape[:-2], 1, 1), 0, t.dtype), (m, m - 1)), z

    return lax.fori_loop(0, n - 1, step, (t, z))


# ---------------------------------------------------------------------------------------------------------------------
# Polar form


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """The polar factors of matrices: `a = U @ P`, or `a = P @ U`.

    Args:
        a: array of shape (..., m, n).
        side: on which side of U the positive semidefinite P stands, "right" or "left".
        method: "qdwh", an iteration by QR factorisations (Nakatsukasa, Bai and Gygi 2010), or "svd".
        eps: when the iteration ends, see `veery.lax.linalg.qdwh`.
        max_iterations: of it, 10 by default.

    Returns:
        U of the shape of a, with orthonormal columns or rows, and P of shape (..., n, n) or (..., m, m).

    Raises:
        ValueError: a has fewer than two dimensions, or there is no such side or method.

    >>> import veery.numpy as jnp
    >>> u, p = polar(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> (u.round(4) + 0.0).tolist(), (p.round(4) + 0.0).tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]])
    """
    (a,) = inexact(a)
    if a.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    if method == "svd":
        u, p = run(_polar_by_svd, a, left=side == "left")
    else:
        u, p = run(_polar_by_qdwh, a, left=side == "left", eps=eps, max_iterations=max_iterations)
    return u, p


def _polar_by_svd(a: Array, *, left: bool) -> tuple[Array, Array]:
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    s = s.astype(a.dtype)[..., None, :]
    p = matmul(u * s, adjoint(u)) if left else matmul(adjoint(vh) * s, vh)
    return matmul(u, vh), p


def _polar_by_qdwh(a: Array, *, left: bool, eps: float | None, max_iterations: int | None) -> tuple[Array, Array]:
    wide = a.shape[-2] < a.shape[-1]

    def factors(a: Array) -> tuple[Array, Array]:
        if 0 in a.shape:
            return a, lax.full((a.shape[1], a.shape[1]), 0, a.dtype)
        u, p, _, _ = lax.linalg.qdwh(a, eps=eps, max_iterations=max_iterations)
        return u, p

    u, p = jnp.vectorize(factors, signature="(m,n)->(m,n),(n,n)")(adjoint(a) if wide else a)
    u = adjoint(u) if wide else u
    if left == wide:  # what stands on the narrow side of U
        return u, p
    return u, matmul(matmul(u, p), adjoint(u)) if left else matmul(matmul(adjoint(u), p), u)
