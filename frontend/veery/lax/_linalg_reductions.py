"""Reductions to Hessenberg, Schur and tridiagonal form, and products with their reflections; tridiagonal systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.ad import Zero, is_undefined_primal
from veery._core.array import Array
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery._transforms.jvp import jvp
from veery.lax import _arithmetic, _linalg_reduction_loops as loops, _linalg_reference, _matrix as mx, _shape
from veery.lax._declare import check_same_dtypes

ArrayLike = Any

# ---------------------------------------------------------------------------------------------------------------------
# ormqr


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """The product of matrices with the unitary factor Q of a QR factorisation, of which the reflections are given.

    Args:
        a: array of shape (..., m, n) whose columns below the diagonal are the vectors of the reflections, as
            `householder_product` has them; `jnp.linalg.qr(x, mode="raw")` gives its transpose.
        taus: array of shape (..., k) with k <= min(m, n): their factors.
        c: array of shape (..., m, columns), or (..., rows, m) unless left.
        left: whether Q stands left of c.
        transpose: whether Q is replaced by its adjoint.

    Returns:
        An array of the shape of c.

    Raises:
        ValueError: shapes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.ormqr(np.ones((2, 1), np.float32), np.ones(1, np.float32), np.eye(2, dtype=np.float32)).tolist()
    [[0.0, -1.0], [-1.0, 0.0]]
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


def _ormqr_abstract_eval(
    a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
) -> ShapedArray:
    for position, (x, rank) in enumerate(((a, 2), (taus, 1), (c, 2))):
        mx.check_rank("ormqr", x, rank, position)
    check_same_dtypes("ormqr", [a, taus, c])
    if c.shape[-2 if left else -1] != a.shape[-2]:
        same = "rows as the Householder matrix a" if left else "columns as the Householder matrix a has rows"
        raise ValueError(
            f"ormqr with left={left} expects c to have the same number of {same}. "
            f"Got a shape {a.shape} and c shape {c.shape}."
        )
    if taus.shape[-1] > min(a.shape[-2:]) or not a.shape[:-2] == taus.shape[:-1] == c.shape[:-2]:
        raise ValueError(
            "ormqr expects a of shape (..., m, n), taus of at most min(m, n) elements and equal leading dimensions. "
            f"Got a shape {a.shape}, taus shape {taus.shape} and c shape {c.shape}."
        )
    return ShapedArray(c.shape, c.dtype)


def _written_out(composition: Callable[..., Any]) -> Callable[..., Any]:
    """The jvp rule of what an operation is composed as."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        outs = lambda *operands: _list(composition(*operands, **params))
        out, t_out = jvp(outs, primals, tangents)
        return (out, t_out) if composition is not loops.ormqr else (out[0], t_out[0])

    return rule


def _list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else [x]


ormqr_p = Primitive(
    "ormqr",
    abstract_eval=_ormqr_abstract_eval,
    jvp=_written_out(loops.ormqr),
    reference=_linalg_reference.ormqr,
    composition=loops.ormqr,
)
mx.batch_in_front(ormqr_p)


# ---------------------------------------------------------------------------------------------------------------------
# schur


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """The factors of `x = q @ t @ q'`: t is upper triangular, q unitary.

    Only on the CPU, by LAPACK, as in JAX. For real x, pairs of complex eigenvalues are 2x2 blocks on t's diagonal.

    Args:
        x: array of shape (..., n, n).
        compute_schur_vectors: whether q is wanted.
        sort_eig_vals: must be False.
        select_callable: accepted for compatibility.

    Returns:
        [t, q], or [t].

    Raises:
        NotImplementedError: eigenvalues are to be sorted.
        ValueError: the matrices are not square.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.schur(np.array([[1.0, 2.0], [0.0, 3.0]], np.float32))[0].tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    if sort_eig_vals:
        raise NotImplementedError("The sort feature of LAPACK's gees routine is not implemented.")
    return schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors))


def _schur_abstract_eval(x: ShapedArray, *, compute_schur_vectors: bool) -> list[ShapedArray]:
    mx.check_square("schur", x, "The input to schur must be a square matrix. Got shape {}.")
    return [ShapedArray(x.shape, x.dtype)] * (1 + compute_schur_vectors)


def _schur_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, compute_schur_vectors: bool) -> tuple[Any, Any]:
    raise NotImplementedError("Differentiation rule for 'schur' not implemented, as in JAX; see eig and eigh.")


schur_p = Primitive(
    "schur",
    abstract_eval=_schur_abstract_eval,
    jvp=_schur_jvp,
    reference=_linalg_reference.schur,
    multiple_results=True,
)
mx.batch_in_front(schur_p)


# ---------------------------------------------------------------------------------------------------------------------
# hessenberg, tridiagonal


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Square matrices reduced to Hessenberg form by reflections from both sides.

    Args:
        a: array of shape (..., n, n).

    Returns:
        An array like a with the Hessenberg form on and above the first subdiagonal and the vectors of the reflections
        below it, and their factors of shape (..., n - 1).

    Raises:
        ValueError: the matrices are not square.

    >>> from veery import lax
    >>> import numpy as np
    >>> reduced, taus = lax.linalg.hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    >>> reduced.tolist(), taus.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], [0.0])
    """
    reduced, taus = hessenberg_p.bind(a)
    return reduced, taus


def _hessenberg_abstract_eval(a: ShapedArray) -> list[ShapedArray]:
    mx.check_square("hessenberg", a, "Argument to Hessenberg reduction must have shape [..., n, n], got shape {}")
    return [ShapedArray(a.shape, a.dtype), ShapedArray((*a.shape[:-2], max(a.shape[-1] - 1, 0)), a.dtype)]


hessenberg_p = Primitive(
    "hessenberg",
    abstract_eval=_hessenberg_abstract_eval,
    jvp=_written_out(loops.hessenberg),
    reference=_linalg_reference.hessenberg,
    composition=loops.hessenberg,
    multiple_results=True,
)
mx.batch_in_front(hessenberg_p)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Hermitian matrices reduced to tridiagonal form by reflections from both sides.

    Args:
        a: array of shape (..., n, n), of which one triangle is read.
        lower: which one.

    Returns:
        An array like a with the tridiagonal form and the vectors of the reflections in the triangle that was read; the
        real diagonal (..., n) and side diagonal (..., n - 1); the factors of the reflections (..., n - 1).

    Raises:
        ValueError: the matrices are empty or not square.

    >>> from veery import lax
    >>> import numpy as np
    >>> [y.tolist() for y in lax.linalg.tridiagonal(np.array([[1.0, 2.0], [2.0, 3.0]], np.float32))[1:]]
    [[1.0, 3.0], [2.0], [0.0]]
    """
    reduced, d, e, taus = tridiagonal_p.bind(a, lower=bool(lower))
    return reduced, d, e, taus


def _tridiagonal_abstract_eval(a: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    message = "The input to tridiagonal must be a square matrix. Got shape {}."
    mx.check_square("tridiagonal", a, message)
    *batch, n = a.shape[:-1]
    if n == 0:
        raise ValueError(message.format(a.shape))
    real = mx.real_dtype(np.zeros((), a.dtype))
    sides = ShapedArray((*batch, n - 1), real)
    return [ShapedArray(a.shape, a.dtype), ShapedArray((*batch, n), real), sides, sides.update(dtype=a.dtype)]


tridiagonal_p = Primitive(
    "tridiagonal",
    abstract_eval=_tridiagonal_abstract_eval,
    jvp=_written_out(loops.tridiagonal),
    reference=_linalg_reference.tridiagonal,
    composition=loops.tridiagonal,
    multiple_results=True,
)
mx.batch_in_front(tridiagonal_p)


# ---------------------------------------------------------------------------------------------------------------------
# tridiagonal_solve


def tridiagonal_solve(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool = False) -> Array:
    """Solve `A @ x = b` for tridiagonal matrices A.

    Args:
        dl: array of shape (..., n): dl[i] is A[i, i - 1]; dl[0] is not read.
        d: array of shape (..., n), the diagonal.
        du: array of shape (..., n): du[i] is A[i, i + 1]; the last is not read.
        b: array of shape (..., n, k).
        perturb_singular: replace pivots that are too small by the smallest that is not, so that the solution is finite;
            on the CPU alone.

    Returns:
        An array of the shape of b; NaN where A is singular.

    Raises:
        TypeError: shapes or dtypes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> dl, d, b = np.array([0, 1], np.float32), np.array([2, 2], np.float32), np.array([[3], [3]], np.float32)
    >>> lax.linalg.tridiagonal_solve(dl, d, dl[::-1], b).tolist()
    [[1.0], [1.0]]
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))


def _tridiagonal_solve_abstract_eval(
    dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturb_singular: bool
) -> ShapedArray:
    for position, (x, rank) in enumerate(((dl, 1), (d, 1), (du, 1), (b, 2))):
        mx.check_rank("tridiagonal_solve", x, rank, position)
    check_same_dtypes("tridiagonal_solve", [dl, d, du, b])
    if not dl.shape == d.shape == du.shape:
        raise TypeError("tridiagonal_solve requires that all diagonal arguments have the same shape.")
    if dl.shape != b.shape[:-1]:
        raise TypeError(
            "tridiagonal_solve requires that the leading ndim-1 dimensions of b equal the dimensions of the diagonal "
            "arguments."
        )
    return ShapedArray(b.shape, b.dtype)


def _down(x: Any, axis: int) -> Any:
    """x moved one place along an axis, which begins with a zero now."""
    return _moved(x, axis, (1, -1, 0))


def _up(x: Any, axis: int) -> Any:
    return _moved(x, axis, (-1, 1, 0))


def _moved(x: Any, axis: int, padding: tuple[int, int, int]) -> Any:
    padding_config = [(0, 0, 0)] * np.ndim(x)
    padding_config[axis] = padding
    return _shape.pad(x, np.zeros((), mx.dtype_of(x)), padding_config)


def _of_diagonal(neighbour: Callable[[Any], Any]) -> Callable[..., Any]:
    """dx = -A^-1 dA x, where dA has one diagonal, which meets the neighbours of the elements of x."""

    def jvp(t: Any, x: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> Any:
        product = _arithmetic.mul(mx.as_columns(t, x), neighbour(x))
        return tridiagonal_solve_p.bind(dl, d, du, _arithmetic.neg(product), **params)

    return jvp


def _tridiagonal_solve_transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> list[Any]:
    if any(map(is_undefined_primal, (dl, d, du))) or not is_undefined_primal(b):
        raise NotImplementedError("tridiagonal_solve is linear in its last operand alone")
    if type(ct) is Zero:
        return [None, None, None, ct]
    return [None, None, None, tridiagonal_solve_p.bind(_down(du, -1), d, _up(dl, -1), ct, **params)]


tridiagonal_solve_p: Primitive = Primitive(
    "tridiagonal_solve",
    abstract_eval=_tridiagonal_solve_abstract_eval,
    jvp=(
        _of_diagonal(lambda x: _down(x, -2)),
        _of_diagonal(lambda x: x),
        _of_diagonal(lambda x: _up(x, -2)),
        lambda t, x, dl, d, du, b, **params: tridiagonal_solve_p.bind(dl, d, du, t, **params),
    ),
    transpose=_tridiagonal_solve_transpose,
    reference=_linalg_reference.tridiagonal_solve,
    composition=loops.tridiagonal_solve,
)
mx.batch_in_front(tridiagonal_solve_p)
