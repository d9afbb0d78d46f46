"""Eigenvalues and singular values."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, host
from veery._core.array import Array
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery.lax import _arithmetic, _compare, _fill, _linalg_loops, _linalg_reference, _matrix as mx, _reduce, _shape
from veery.lax._linalg_solution import lu_solve
from veery.lax._linalg_triangular import lu, symmetrize
from veery.lax._slicing import slice_in_dim

ArrayLike = Any

# ---------------------------------------------------------------------------------------------------------------------
# eigh


class EighImplementation(enum.Enum):
    """How eigenvalues of Hermitian matrices are found; the target decides, all names are accepted."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def eigh(
    x: Array,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """The eigenvectors and eigenvalues of Hermitian matrices.

    Args:
        x: array of shape (..., n, n).
        lower: whether the lower triangle is read, unless the input is symmetrized.
        symmetrize_input: whether x is replaced by `(x + x') / 2`.
        sort_eigenvalues: accepted for compatibility; they are always in ascending order.
        subset_by_index: the range (start, end) of eigenvalues wanted; None for all.
        implementation: accepted for compatibility.

    Returns:
        The eigenvectors as the columns of an array like x, and the real eigenvalues of shape (..., n).

    Raises:
        ValueError: the matrices are not square, or the range is not within 0 and n.

    >>> from veery import lax
    >>> import numpy as np
    >>> v, w = lax.linalg.eigh(np.diag(np.array([2.0, 1.0], np.float32)))
    >>> w.tolist()
    [1.0, 2.0]
    """
    v, w = eigh_p.bind(symmetrize(x) if symmetrize_input else x, lower=bool(lower))
    if subset_by_index is None:
        return v, w
    start, end = _range(subset_by_index, np.shape(x)[-1])
    return mx.columns(v, start, end), _last(w, start, end)


def _range(subset: tuple[int, int], size: int) -> tuple[int, int]:
    start, end = subset
    if not 0 <= start <= end <= size:
        raise ValueError(f"subset_by_index must be a range within 0 and {size}, got {subset}")
    return start, end


def _last(x: Any, start: int, end: int) -> Any:
    return slice_in_dim(x, start, end, axis=np.ndim(x) - 1)


def _eigh_abstract_eval(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    mx.check_square("eigh", x, "Argument to symmetric eigendecomposition must have shape [..., n, n], got shape {}")
    return [ShapedArray(x.shape, x.dtype), ShapedArray(x.shape[:-1], dtypes.finfo(x.dtype).dtype)]


def _eigh_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, lower: bool) -> tuple[list[Any], list[Any]]:
    """dw = diag(V' dx V), dV = V (F * V' dx V) with F_ij = 1 / (w_j - w_i) off the diagonal (Giles 2008, 3.1)."""
    (x,), (t,) = primals, tangents
    v, w = eigh_p.bind(symmetrize(x), lower=lower)
    inner = mx.matmul(mx.adjoint(v), mx.matmul(symmetrize(t), v))
    gaps = _arithmetic.sub(_real_rows(w, x), _real_columns(w, x))
    factors = _reciprocal_off_diagonal(gaps)
    t_v = mx.matmul(v, _arithmetic.mul(mx.promoted(factors, x), inner))
    return [v, w], [t_v, _real(mx.diagonal(inner))]


def _real(x: Any) -> Any:
    return _arithmetic.real(x) if mx.is_complex(x) else x


def _real_rows(d: Any, like: Any) -> Any:
    n = np.shape(d)[-1]
    return _shape.broadcast_in_dim(d, (*np.shape(d)[:-1], n, n), (*range(np.ndim(d) - 1), np.ndim(d)))


def _real_columns(d: Any, like: Any) -> Any:
    n = np.shape(d)[-1]
    return _shape.broadcast_in_dim(d, (*np.shape(d), n), tuple(range(np.ndim(d))))


def _reciprocal_off_diagonal(x: Any) -> Any:
    """1 / x off the diagonal, where zeros give infinity; 0 on it."""
    eye = mx.eye_like(x)
    return _arithmetic.sub(_arithmetic.div(_fill.full_like(x, 1), _arithmetic.add(x, eye)), eye)


eigh_p = Primitive(
    "eigh",
    host=host.calls(64, "with_vectors"),
    abstract_eval=_eigh_abstract_eval,
    jvp=_eigh_jvp,
    reference=_linalg_reference.eigh,
    composition=_linalg_loops.eigh,
    multiple_results=True,
)
mx.batch_in_front(eigh_p)


# ---------------------------------------------------------------------------------------------------------------------
# svd


class SvdAlgorithm(enum.Enum):
    """How singular values are found; the target decides, all names are accepted."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """The singular values and vectors of matrices: `x = u @ diag(s) @ vh`.

    Args:
        x: array of shape (..., m, n).
        full_matrices: whether u and vh are square, instead of having min(m, n) columns and rows.
        compute_uv: whether there are vectors at all.
        subset_by_index: the range (start, end) of singular values wanted; None for all.
        algorithm: accepted for compatibility.

    Returns:
        (u, s, vh), or s alone; s descends.

    Raises:
        ValueError: a subset is asked for with full matrices.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.svd(np.array([[3.0, 0.0], [0.0, 4.0]], np.float32), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    size = min(np.shape(x)[-2:]) if np.ndim(x) > 1 else 0
    if subset_by_index is not None and compute_uv and full_matrices and subset_by_index != (0, size):
        raise ValueError("full_matrices and subset_by_index cannot both be set")
    s, *vectors = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv))
    if subset_by_index is not None:
        start, end = _range(subset_by_index, size)
        s = _last(s, start, end)
        vectors = [cut(y, start, end) for cut, y in zip((mx.columns, mx.rows), vectors)]
    return (vectors[0], s, vectors[1]) if compute_uv else s


def _svd_abstract_eval(x: ShapedArray, *, full_matrices: bool, compute_uv: bool) -> list[ShapedArray]:
    mx.check_rank("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    s = ShapedArray((*batch, k), dtypes.finfo(x.dtype).dtype)
    rows, columns = (m, n) if full_matrices else (k, k)
    return [s, ShapedArray((*batch, m, rows), x.dtype), ShapedArray((*batch, columns, n), x.dtype)][
        : 3 if compute_uv else 1
    ]


def _svd_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, compute_uv: bool
) -> tuple[list[Any], list[Any]]:
    """With P = U' dx V: ds = diag(P), dU = U (F * (P S + S P')) + ... and dV = V (F * (S P + P' S)) + ...,

    F_ij = 1 / (s_j^2 - s_i^2) (Giles 2008, 3.2; what lies outside of the span of U or V, and the phases of complex
    vectors, are as in https://j-towns.github.io/papers/svd-derivative.pdf).
    """
    (x,), (t,) = primals, tangents
    m, n = np.shape(x)[-2:]
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError("Singular value decomposition JVP not implemented for full matrices")
    s, u, vh = svd_p.bind(x, full_matrices=False, compute_uv=True)
    v, u_adjoint = mx.adjoint(vh), mx.adjoint(u)
    inner = mx.matmul(u_adjoint, mx.matmul(t, v))
    t_s = _real(mx.diagonal(inner))
    if not compute_uv:
        return [s], [t_s]
    mul, add, sub = _arithmetic.mul, _arithmetic.add, _arithmetic.sub
    row, column = _real_rows(s, x), _real_columns(s, x)
    factors = mx.promoted(_reciprocal_off_diagonal(mul(add(row, column), sub(row, column))), x)
    right, left = mul(mx.promoted(row, x), inner), mul(mx.promoted(column, x), inner)
    zero = _compare.eq(s, _fill.full_like(s, 0))
    safe = mx.select(zero, _fill.full_like(s, 1), s)
    inverse = mx.select(zero, _fill.full_like(s, 0), _arithmetic.div(_fill.full_like(s, 1), safe))
    half = mx.promoted(np.asarray(0.5, mx.real_dtype(x)), x)
    phases = mul(mul(sub(inner, mx.adjoint(inner)), half), mx.on_diagonal(mx.promoted(inverse, x)))
    t_u = mx.matmul(u, add(mul(factors, add(right, mx.adjoint(right))), phases))
    t_v = mx.matmul(v, mul(factors, add(left, mx.adjoint(left))))
    if m > n:
        outside = mx.matmul(t, v)
        outside = sub(outside, mx.matmul(u, mx.matmul(u_adjoint, outside)))
        t_u = add(t_u, _arithmetic.div(outside, mx.as_rows(mx.promoted(s, x), outside)))
    if n > m:
        outside = mx.matmul(mx.adjoint(t), u)
        outside = sub(outside, mx.matmul(v, mx.matmul(vh, outside)))
        t_v = add(t_v, _arithmetic.div(outside, mx.as_rows(mx.promoted(s, x), outside)))
    return [s, u, vh], [t_s, t_u, mx.adjoint(t_v)]


svd_p = Primitive(
    "svd",
    host=host.calls(64),
    abstract_eval=_svd_abstract_eval,
    jvp=_svd_jvp,
    reference=_linalg_reference.svd,
    composition=_linalg_loops.svd,
    multiple_results=True,
)
mx.batch_in_front(svd_p)


# ---------------------------------------------------------------------------------------------------------------------
# eig


class EigImplementation(enum.Enum):
    """How eigenvalues of general matrices are found; it is LAPACK everywhere, all names are accepted."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """The eigenvalues and eigenvectors of general square matrices, by LAPACK on the host.

    Args:
        x: array of shape (..., n, n).
        compute_left_eigenvectors: whether the vectors v with `v' x = w v'` are wanted.
        compute_right_eigenvectors: whether the vectors v with `x v = w v` are wanted.
        enable_eigvec_derivs: whether eigenvectors are differentiated, which makes sense only where the eigenvalues are
            distinct and what is computed does not depend on the length and phase of the vectors.
        implementation: accepted for compatibility.
        use_magma: accepted for compatibility.

    Returns:
        The complex eigenvalues, then the left and the right eigenvectors that are wanted, as columns of length 1.

    Raises:
        ValueError: the matrices are not square.

    >>> from veery import lax
    >>> import numpy as np
    >>> w, = lax.linalg.eig(np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32), compute_left_eigenvectors=False,
    ...                     compute_right_eigenvectors=False)
    >>> sorted(w.imag.tolist())
    [-1.0, 1.0]
    """
    return eig_p.bind(
        x,
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
    )


def _eig_abstract_eval(
    x: ShapedArray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **_: Any
) -> list[ShapedArray]:
    mx.check_square("eig", x, "The input to eig must be a square matrix. Got shape {}.")
    dtype = dtypes.to_complex_dtype(x.dtype)
    count = compute_left_eigenvectors + compute_right_eigenvectors
    return [ShapedArray(x.shape[:-1], dtype), *[ShapedArray(x.shape, dtype)] * count]


def _eig_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
) -> tuple[list[Any], list[Any]]:
    """dw = diag(V^-1 dx V), and dV by `_eigenvectors_jvp`; left eigenvectors are the right ones of the adjoint."""
    (x,), (t,) = primals, tangents
    if (compute_left_eigenvectors or compute_right_eigenvectors) and not enable_eigvec_derivs:
        raise NotImplementedError(
            "Derivatives of non-symmetric eigenvectors are only valid where the eigenvalues are distinct, and of use "
            "where the result does not depend on the length and phase of the vectors, which veery cannot check. If "
            "that is so, pass enable_eigvec_derivs=True to lax.linalg.eig."
        )
    # What is made of the vectors here depends neither on their length nor on their phase.
    params = {"compute_left_eigenvectors": compute_left_eigenvectors, "enable_eigvec_derivs": True}
    w, *left, v = eig_p.bind(x, compute_right_eigenvectors=True, **params)
    inner = _in_basis(v, t)
    outs, t_outs = [w, *left], [mx.diagonal(inner)]
    t_outs += [_eigenvectors_jvp(mx.conj(w), u, _in_basis(u, mx.adjoint(t))) for u in left]
    if compute_right_eigenvectors:
        outs.append(v)
        t_outs.append(_eigenvectors_jvp(w, v, inner))
    return outs, t_outs


def _in_basis(v: Any, t: Any) -> Any:
    """V^-1 t V."""
    return lu_solve(*lu(v), mx.matmul(mx.promoted(t, v), v))


def _eigenvectors_jvp(w: Any, v: Any, inner: Any) -> Any:
    """dV = V (F * V^-1 dx V), less what lengthens the vectors or turns the largest element, which LAPACK makes real.

    Args:
        w: eigenvalues.
        v: eigenvectors of length 1.
        inner: V^-1 dx V.
    """
    factors = _reciprocal_off_diagonal(_arithmetic.sub(_real_rows(w, w), _real_columns(w, w)))
    t = mx.matmul(v, _arithmetic.mul(factors, inner))
    rows = np.ndim(v) - 2
    products = _arithmetic.mul(mx.conj(v), t)
    squares = _real(_arithmetic.mul(mx.conj(v), v))
    largest = _compare.eq(squares, _real_rows(_reduce.reduce_max(squares, (rows,)), v))
    of_largest = lambda x: _reduce.reduce_sum(mx.select(largest, x, 0), (rows,))
    turned = _arithmetic.div(of_largest(_arithmetic.imag(products)), of_largest(squares))
    along = _arithmetic.complex(_reduce.reduce_sum(_real(products), (rows,)), turned)
    return _arithmetic.sub(t, _arithmetic.mul(v, mx.as_rows(along, v)))


eig_p = Primitive(
    "eig",
    host=host.calls(64),
    abstract_eval=_eig_abstract_eval,
    jvp=_eig_jvp,
    reference=_linalg_reference.eig,
    multiple_results=True,
)
mx.batch_in_front(eig_p)
