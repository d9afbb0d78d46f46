"""Functions of matrices: the exponential, the square root, and others by the Schur form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import jvp
from veery._api.custom_derivatives import custom_jvp
from veery._core import dtypes
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, broadcast_to, promote_args_inexact
from veery.scipy.linalg._factorizations import _rsf2csf, adjoint, inexact, matmul
from veery.scipy.linalg._systems import solve_sylvester

# ---------------------------------------------------------------------------------------------------------------------
# The exponential

# Numerators of the diagonal Pade approximants to exp, of degree 7 and 13; and up to which 1-norm they are exact to the
# precision of 32 and 64 bits (Higham 2005, table 2.3).
_PADE_7 = (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0)
_PADE_13 = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
    *(10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
_LARGEST_7, _LARGEST_13 = 3.925724783138660, 5.371920351148152


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponentials of matrices, by scaling and squaring (Higham 2005).

    Args:
        A: array of shape (..., n, n).
        upper_triangular: whether A is upper triangular, so that substitution does instead of elimination.
        max_squarings: how often at most the scaled exponential is squared.

    Returns:
        An array like A, in its float dtype; NaN where more squarings would be needed.

    Raises:
        TypeError: A is no array, or of 16-bit floats.
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> expm(jnp.array([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    (A,) = promote_args_inexact("expm", A)
    if np.ndim(A) < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={np.shape(A)}.")
    if A.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise TypeError(f"A.dtype={A.dtype} is not supported.")
    return run(_expm, A, upper_triangular=bool(upper_triangular), max_squarings=int(max_squarings))


def _expm(a: Array, *, upper_triangular: bool, max_squarings: int) -> Array:
    if 0 in a.shape:
        return a
    real = dtypes.finfo(a.dtype).dtype
    number = lambda value: np.asarray(value, real)
    coefficients, largest = (_PADE_13, _LARGEST_13) if real == np.float64 else (_PADE_7, _LARGEST_7)
    norm = jnp.max(jnp.sum(lax.abs(lax.stop_gradient(a)), axis=-2, keepdims=True), axis=-1, keepdims=True)
    doublings = jnp.maximum(lax.log(norm / number(largest)) / number(np.log(2)), number(0))
    squarings = jnp.minimum(lax.ceil(doublings), number(max_squarings))
    a = a * lax.exp2(-squarings).astype(a.dtype)
    odd, even = _pade(a, coefficients)
    quotient = _triangular_quotient if upper_triangular else _quotient
    r = quotient(even - odd, even + odd)

    def square(r: Array, i: Array) -> tuple[Array, None]:
        wanted = broadcast_to(i < squarings, r.shape)
        return lax.cond(jnp.any(wanted), lambda r: jnp.where(wanted, matmul(r, r), r), lambda r: r, r), None

    r, _ = lax.scan(square, r, np.arange(max_squarings, dtype=real))
    return jnp.where(lax.floor(doublings) > number(max_squarings), jnp.nan, r)


def _pade(a: Array, coefficients: tuple[float, ...]) -> tuple[Array, Array]:
    """The odd and the even part of a polynomial, of which all powers above the sixth are taken out as that."""
    c = [np.asarray(value, a.dtype) for value in coefficients]
    square = matmul(a, a)
    powers = [broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape), square]
    powers += [matmul(square, square)]
    powers += [matmul(powers[2], square)]
    total = lambda c: sum((x * power for x, power in zip(c[1:], powers[1:])), c[0] * powers[0])
    odd, even = total(c[1:8:2]), total(c[0:8:2])
    if len(c) > 8:
        above = lambda c: sum((x * power for x, power in zip(c[1:], powers[2:])), c[0] * powers[1])
        odd, even = odd + matmul(powers[3], above(c[9::2])), even + matmul(powers[3], above(c[8::2]))
    return matmul(a, odd), even


def _quotient(a: Array, b: Array) -> Array:
    return jnp.linalg.solve(a, b)


def _triangular_quotient(a: Array, b: Array) -> Array:
    return lax.linalg.triangular_solve(a, b, left_side=True)


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """The derivative of the matrix exponential in a direction.

    Args:
        A: array of shape (..., n, n).
        E: the direction, of the same shape and dtype.
        method: accepted for compatibility.
        compute_expm: whether the exponential is wanted, too.

    Returns:
        (expm(A), derivative), or the derivative alone.

    Raises:
        TypeError: the dtypes differ, or are not those of floats.
        ValueError: the matrices are not square, or their shapes differ.

    >>> import veery.numpy as jnp
    >>> expm_frechet(jnp.zeros((2, 2)), jnp.eye(2), compute_expm=False).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    A, E = jnp.asarray(A), jnp.asarray(E)
    for name, x in (("A", A), ("E", E)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"expected {name} to be a (batched) square matrix, got {name}.shape={x.shape}")
    if A.shape != E.shape:
        raise ValueError(f"expected A and E to be the same shape, got A.shape={A.shape} E.shape={E.shape}")
    value, derivative = jvp(expm, (A,), (E,))
    return (value, derivative) if compute_expm else derivative


# ---------------------------------------------------------------------------------------------------------------------
# By the Schur form: the diagonal first, then one column after the other, each from the diagonal up.


def _upper_triangle(start: Array, value: Callable[[Array, Any, Any], Array]) -> Array:
    """Fill what is above the diagonal: `value(f, i, j)` is the element (i, j), by those left of it and below it."""

    def column(j: Any, f: Array) -> Array:
        def element(trip: Any, f: Array) -> Array:
            i = j - 1 - trip
            return lax.dynamic_update_slice(f, lax.expand_dims(value(f, i, j), (0, 1)), (i, j))

        return lax.fori_loop(0, j, element, f)

    return lax.fori_loop(1, start.shape[0], column, start)


def _row(x: Array, i: Any) -> Array:
    return lax.dynamic_index_in_dim(x, i, 0, keepdims=False)


def _column(x: Array, j: Any) -> Array:
    return lax.dynamic_index_in_dim(x, j, 1, keepdims=False)


def _element(x: Array, i: Any, j: Any) -> Array:
    return lax.squeeze(lax.dynamic_slice(x, (i, j), (1, 1)), (0, 1))


def _dot(x: Array, y: Array, i: Any, j: Any) -> Array:
    """The sum of the products between the places i and j, without them."""
    place = lax.iota(i.dtype, x.shape[0])
    return jnp.sum(jnp.where((place > i) & (place < j), x * y, 0))


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square roots of matrices (Bjorck and Hammarling 1983). On the CPU alone, as in JAX.

    Args:
        A: array of shape (..., n, n).
        blocksize: must be 1.

    Returns:
        A complex array of the shape of A. Its derivative solves Sylvester's equation `X @ dX + dX @ X = dA`.

    Raises:
        NotImplementedError: blocksize is larger.
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]])).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    (A,) = inexact(A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"The input to sqrtm must be a square matrix. Got shape {A.shape}.")
    return run(_sqrtm, A)


@custom_jvp
def _sqrtm(a: Array) -> Array:
    if 0 in a.shape:
        return a.astype(dtypes.to_complex_dtype(a.dtype))
    t, z = lax.linalg.schur(a.astype(dtypes.to_complex_dtype(a.dtype)))
    root = jnp.vectorize(_triangular_root, signature="(n,n)->(n,n)")(t)
    return matmul(matmul(z, root), adjoint(z))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    x = _sqrtm(*primals)
    return x, solve_sylvester(x, x, tangents[0].astype(x.dtype), tol=0.0)


def _triangular_root(t: Array) -> Array:
    def value(u: Array, i: Any, j: Any) -> Array:
        rest = _element(t, i, j) - _dot(_row(u, i), _column(u, j), i, j)
        return jnp.where(rest == 0, rest, rest / (_element(u, i, i) + _element(u, j, j)))

    return _upper_triangle(jnp.diag(lax.sqrt(jnp.diag(t))), value)


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Array | tuple[Array, Array]:
    """A function of a matrix with distinct eigenvalues, by Parlett's recurrence. On the CPU alone, as in JAX.

    Args:
        A: array of shape (n, n) and of a float or complex dtype.
        func: what the function makes of a vector of complex eigenvalues.
        disp: whether the estimated error is left out.

    Returns:
        A complex array of shape (n, n), or that and its estimated relative error in the 1-norm.

    Raises:
        NotImplementedError: it is differentiated.
        TypeError: A is not of a float or complex dtype.
        ValueError: A is no square matrix.

    >>> import veery.numpy as jnp
    >>> funm(jnp.array([[1.0, 1.0], [0.0, 2.0]]), lambda x: x * x).real.tolist()
    [[1.0, 3.0], [0.0, 4.0]]
    """
    A = jnp.asarray(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError("expected square array_like input")
    t, z = _rsf2csf(*lax.linalg.schur(A))
    f = _upper_triangle(jnp.diag(func(jnp.diag(t)).astype(t.dtype)), lambda f, i, j: _parlett(f, t, i, j))
    out = matmul(matmul(z, f), adjoint(z))
    return out if disp else (out, _parlett_error(out, t))


def _parlett(f: Array, t: Array, i: Any, j: Any) -> Array:
    """From F T = T F: F_ij (T_jj - T_ii) = T_ij (F_jj - F_ii) + the sum of T_ik F_kj - F_ik T_kj."""
    known = _element(t, i, j) * (_element(f, j, j) - _element(f, i, i))
    known = known + _dot(_row(t, i), _column(f, j), i, j) - _dot(_row(f, i), _column(t, j), i, j)
    gap = _element(t, j, j) - _element(t, i, i)
    return jnp.where(gap == 0, known, known / jnp.where(gap == 0, 1, gap))


def _parlett_error(out: Array, t: Array) -> Array:
    """The precision by the smallest gap between eigenvalues, times the norm above the diagonal."""
    tol = np.asarray(dtypes.finfo(t.dtype).eps)
    w = jnp.diag(t)
    gaps = jnp.triu(lax.abs(w[:, None] - w[None, :]), 1)
    between = np.triu(np.ones(t.shape, bool), 1)
    gap = jnp.min(jnp.where(between, gaps, lax.abs(w[0])))
    above = jnp.max(jnp.sum(lax.abs(jnp.triu(t, 1)), axis=0))
    error = jnp.clip(tol / jnp.where(gap == 0, tol, gap) * above, tol, 1)
    return jnp.where(jnp.any(jnp.isinf(out)), np.inf, error)
