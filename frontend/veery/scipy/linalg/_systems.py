"""Linear systems, inverses and determinants; Sylvester's equation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core import source
from veery.lax._linalg_solution import lu_solve as solve_by_factors
from veery.numpy import linalg
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, broadcast_to, promote_dtypes_complex
from veery.scipy.linalg._factorizations import adjoint, cholesky, inexact, matmul


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices; see `veery.numpy.linalg.det`.

    >>> import veery.numpy as jnp
    >>> det(jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    -2.0
    """
    return linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices; see `veery.numpy.linalg.inv`.

    >>> import veery.numpy as jnp
    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return linalg.inv(a)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The solution of `a @ x = b`.

    Args:
        a: array of shape (..., n, n).
        b: array of shape (n,) or (..., n, k).
        lower: which triangle is read of positive-definite matrices.
        overwrite_a: accepted for compatibility.
        overwrite_b: accepted for compatibility.
        debug: accepted for compatibility.
        check_finite: accepted for compatibility.
        assume_a: "pos" for Hermitian positive-definite matrices, which are solved by their Cholesky factor; "gen",
            "sym" and "her" for others, which are solved by elimination.

    Returns:
        An array of shape (..., n) for a vector b, else (..., n, k); infinite or NaN where a is singular, NaN where it
        is not positive definite but should be.

    Raises:
        ValueError: the shapes do not fit, or assume_a is none of these.

    >>> import veery.numpy as jnp
    >>> solve(jnp.array([[4.0, 0.0], [0.0, 1.0]]), jnp.array([2.0, 2.0]), assume_a="pos").tolist()
    [0.5, 2.0]
    """
    valid = ["gen", "sym", "her", "pos"]
    if assume_a not in valid:
        raise ValueError(f"Expected assume_a to be one of {valid}; got {assume_a!r}")
    if assume_a != "pos":
        return linalg.solve(a, b)
    a, b = inexact(a, b)
    vector = a.ndim == b.ndim + 1
    square = a.ndim >= 2 and a.shape[-1] == a.shape[-2]
    if not square or not (vector or b.ndim >= 2) or b.shape[-1 if vector else -2] != a.shape[-1]:
        raise ValueError(
            "The arguments to solve must have shapes a=[..., m, m] and b=[..., m, k] or b=[..., m]; "
            f"got a={a.shape} and b={b.shape}"
        )
    if vector:
        _is_vector("solve", a, b)
    return run(_solve_positive, a, b, lower=bool(lower))


def _solve_positive(a: Array, b: Array, *, lower: bool) -> Array:
    """Derivatives are solutions with the same factor."""
    vector = a.ndim == b.ndim + 1
    b = lax.expand_dims(b, (b.ndim,)) if vector else b
    batch = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    factor = cholesky(lax.stop_gradient(a), lower=lower)
    solver = lambda _, y: _cho_solve(factor, y, lower=lower)
    # The transposed system of a complex one is the conjugate's.
    back = lambda _, y: lax.conj(solver(_, lax.conj(y))) if is_kind(y, np.complexfloating) else solver(_, y)
    x = lax.custom_linear_solve(lambda x: matmul(a, x), b, solver, back)
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


def _is_vector(name: str, a: Array, b: Array) -> bool:
    """Whether b is a vector, or a stack of vectors as large as that of the matrices, which JAX deprecates."""
    stacked = b.ndim > 1 and a.ndim == b.ndim + 1 and a.shape[-1] == b.shape[-1]
    if stacked:
        warnings.warn(
            f"jax.scipy.linalg.{name}: batched 1D solves with b.ndim > 1 are deprecated, and in the future will be "
            f"treated as a batched 2D solve. Use {name}(..., b[..., None]).squeeze(-1) to avoid this warning.",
            FutureWarning,
            stacklevel=source.user_stacklevel(),
        )
    return stacked or b.ndim == 1


def _solved(name: str, fun: Any, factors: Any, b: Array, *places: Array, **static: Any) -> Array:
    """`fun(factors, *places, b)` for stacks of one size, of matrices b."""
    vector = _is_vector(name, factors, b)
    if factors.ndim < 2 or factors.shape[-1] != factors.shape[-2]:
        raise ValueError(f"{name} needs square matrices, got shape {factors.shape}.")
    if b.ndim == 0 or b.shape[-1 if vector else -2] != factors.shape[-1]:
        raise ValueError(
            f"{name} needs b of shape [n] or [..., n, k] beside matrices of shape [..., n, n], got {b.shape} and "
            f"{factors.shape}."
        )
    return run(_in_stacks, factors, *places, b, method=fun, vector=vector, static=tuple(static.items()))


def _in_stacks(*operands: Array, method: Any, vector: bool, static: tuple[tuple[str, Any], ...]) -> Array:
    factors, *places, b = operands
    b = lax.expand_dims(b, (b.ndim,)) if vector else b
    batch = lax.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    factors, b = (broadcast_to(x, (*batch, *x.shape[-2:])) for x in (factors, b))
    places = [broadcast_to(x, (*batch, x.shape[-1])) for x in places]
    x = method(factors, *places, b, **dict(static))
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """The solution of `a @ x = b` by the factor of `cho_factor(a)`.

    Args:
        c_and_lower: the factor, of shape (..., n, n), and whether it is the lower one.
        b: array of shape (n,) or (..., n, k).
        overwrite_b: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        An array of shape (..., n) for a vector b, else (..., n, k).

    Raises:
        ValueError: the shapes do not fit.

    >>> import veery.numpy as jnp
    >>> cho_solve((jnp.array([[2.0, 0.0], [0.0, 1.0]]), True), jnp.array([4.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    c, lower = c_and_lower
    c, b = inexact(c, b)
    return _solved("cho_solve", _cho_solve, c, b, lower=bool(lower))


def _cho_solve(c: Array, b: Array, *, lower: bool) -> Array:
    for transposed in (not lower, lower):
        b = lax.linalg.triangular_solve(
            c, b, left_side=True, lower=lower, transpose_a=transposed, conjugate_a=transposed
        )
    return b


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The solution of `a @ x = b` by the factors of `lu_factor(a)`.

    Args:
        lu_and_piv: the factors, of shape (..., n, n), and the pivots.
        b: array of shape (n,) or (..., n, k).
        trans: 0 for a, 1 for its transpose, 2 for its adjoint.
        overwrite_b: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        An array of shape (..., n) for a vector b, else (..., n, k); infinite or NaN where a is singular.

    Raises:
        ValueError: the shapes do not fit, or there is no such trans.

    >>> import veery.numpy as jnp
    >>> from veery.scipy.linalg import lu_factor
    >>> lu_solve(lu_factor(jnp.array([[2.0, 0.0], [1.0, 1.0]])), jnp.array([2.0, 3.0])).tolist()
    [1.0, 2.0]
    """
    factors, pivots = lu_and_piv
    factors, b = inexact(factors, b)
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    return _solved("lu_solve", _lu_solve, factors, b, jnp.asarray(pivots), trans=int(trans))


def _lu_solve(factors: Array, pivots: Array, b: Array, *, trans: int) -> Array:
    order = lax.linalg.lu_pivots_to_permutation(pivots, factors.shape[-1])
    solved = lambda b: solve_by_factors(factors, pivots, order, b, transposed=trans > 0)
    return jnp.conj(solved(jnp.conj(b))) if trans == 2 else solved(b)


_TRANSPOSED = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The solution of `a @ x = b` for triangular matrices, by substitution.

    Args:
        a: array of shape (..., n, n), of which one triangle is read.
        b: array of shape (n,) or (..., n, k).
        trans: 0 or "N" for a, 1 or "T" for its transpose, 2 or "C" for its adjoint.
        lower: which triangle of a is read.
        unit_diagonal: whether the diagonal counts as ones, and is not read.
        overwrite_b: accepted for compatibility.
        debug: accepted for compatibility.
        check_finite: accepted for compatibility.

    Returns:
        An array of shape (..., n) for a vector b, else (..., n, k).

    Raises:
        ValueError: the shapes do not fit, or there is no such trans.

    >>> import veery.numpy as jnp
    >>> solve_triangular(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.array([2.0, 3.0]), lower=True).tolist()
    [1.0, 2.0]
    """
    if trans not in _TRANSPOSED:
        raise ValueError(f"Invalid 'trans' value {trans}")
    a, b = inexact(a, b)
    flags = {"trans": _TRANSPOSED[trans], "lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return _solved("solve_triangular", _solve_triangular, a, b, **flags)


def _solve_triangular(a: Array, b: Array, *, trans: int, **flags: bool) -> Array:
    return lax.linalg.triangular_solve(a, b, left_side=True, transpose_a=trans > 0, conjugate_a=trans == 2, **flags)


# ---------------------------------------------------------------------------------------------------------------------
# Sylvester's equation


def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """The solution of `A @ X + X @ B = C`. On the CPU alone, as in JAX.

    Args:
        A: array of shape (..., m, m).
        B: array of shape (..., n, n).
        C: array of shape (..., m, n).
        method: "schur" (Bartels and Stewart 1972), or "eigen", by eigenvectors, which A and B must have.
        tol: the solution counts as not unique where an eigenvalue of A and one of -B differ by less.

    Returns:
        An array of shape (..., m, n), NaN where the solution is not unique. Its derivatives solve such equations, too.

    Raises:
        ValueError: the shapes do not fit, or there is no such method.

    >>> import veery.numpy as jnp
    >>> solve_sylvester(jnp.array([[1.0]]), jnp.array([[3.0]]), jnp.array([[8.0]])).tolist()
    [[2.0]]
    """
    A, B, C = inexact(A, B, C)
    square = A.ndim >= 2 and B.ndim >= 2 and A.shape[-1] == A.shape[-2] and B.shape[-1] == B.shape[-2]
    if not square or C.ndim < 2 or C.shape[-2:] != (A.shape[-1], B.shape[-1]):
        raise ValueError(f"Incompatible shapes for Sylvester equation:\nA: {A.shape}\nB: {B.shape}\nC: {C.shape}")
    if method not in _METHODS:
        raise ValueError(f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".')
    return run(_solve_sylvester, A, B, C, jnp.asarray(tol), method=method)


def _solve_sylvester(a: Array, b: Array, c: Array, tol: Array, *, method: str) -> Array:
    batch = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    a, b, c = (broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b, c))
    if 0 in c.shape:
        return c

    def solver(a: Array, b: Array) -> Any:
        a, b = lax.stop_gradient(a), lax.stop_gradient(b)
        return lambda _, c: _METHODS[method](a, b, c, lax.stop_gradient(tol))

    back = solver(jnp.matrix_transpose(a), jnp.matrix_transpose(b))
    return lax.custom_linear_solve(lambda x: matmul(a, x) + matmul(x, b), c, solver(a, b), back)


def _by_schur(a: Array, b: Array, c: Array, tol: Array) -> Array:
    """With `A = U R U'` and `B = V S V'` it is `R Y + Y S = U' C V`: a triangular system for each column of Y."""
    complexes = promote_dtypes_complex(a, b, c)
    (r, u), (s, v) = map(lax.linalg.schur, complexes[:2])
    f = matmul(matmul(adjoint(u), complexes[2]), v)
    n = s.shape[-1]
    eye = broadcast_to(np.eye(r.shape[-1], dtype=r.dtype), r.shape)
    column = lambda x, j: lax.dynamic_slice_in_dim(x, j, 1, x.ndim - 1)

    def step(j: Any, y: Array) -> Array:
        s_j = column(s, j)
        shift = lax.dynamic_slice_in_dim(s_j, j, 1, s.ndim - 2)
        y_j = lax.linalg.triangular_solve(r + shift * eye, column(f, j) - matmul(y, s_j), left_side=True)
        return lax.dynamic_update_slice_in_dim(y, y_j, j, y.ndim - 1)

    y = lax.fori_loop(0, n, step, lax.full_like(f, 0))
    w_a, w_b = (jnp.diagonal(x, 0, -2, -1) for x in (r, s))
    return _like(c, matmul(matmul(u, y), adjoint(v)), w_a, w_b, tol)


def _by_eigenvectors(a: Array, b: Array, c: Array, tol: Array) -> Array:
    (w_a, u), (w_b, v) = linalg.eig(a), linalg.eig(b)
    f = linalg.solve(u, matmul(c.astype(u.dtype), v)) / (w_a[..., :, None] + w_b[..., None, :])
    x = matmul(u, jnp.matrix_transpose(linalg.solve(jnp.matrix_transpose(v), jnp.matrix_transpose(f))))
    return _like(c, x, w_a, w_b, tol)


def _like(c: Array, x: Array, w_a: Array, w_b: Array, tol: Array) -> Array:
    """The solution in the dtype of C, NaN where eigenvalues of A and -B meet."""
    sums = lax.abs(w_a[..., :, None] + w_b[..., None, :])
    meet = jnp.any(sums < tol.astype(sums.dtype), axis=(-2, -1), keepdims=True)
    x = x if is_kind(c, np.complexfloating) else lax.real(x)
    return jnp.where(meet, jnp.nan, x)


_METHODS = {"schur": _by_schur, "eigen": _by_eigenvectors}
