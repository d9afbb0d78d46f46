"""Linear systems, inverses and determinants."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from veery import lax
from veery._api.custom_derivatives import custom_jvp
from veery.lax import _linalg_loops
from veery.lax._linalg_determinant import determinant, signed_diagonal
from veery.lax._linalg_solution import lu_solve
from veery.lax._linalg_triangular import permute_rows
from veery.numpy import _arithmetic, _matrices, _products, _reductions
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    promote_args_inexact,
    promote_dtypes_inexact,
    to_dtype,
)
from veery.numpy._selection import where
from veery.numpy._shaping import moveaxis, reshape


class SlogdetResult(NamedTuple):
    """The determinant as a sign (or a complex number of modulus 1) and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


def check_square(name: str, x: Array) -> None:
    """Raise ValueError unless x is a stack of square matrices."""
    shape = np.shape(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"Argument to {name} must have shape [..., n, n], got shape {shape}.")


# Solutions.


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solution of `a @ x = b`, by elimination with partial pivoting.

    Args:
        a: array of shape (..., n, n).
        b: array of shape (n,) or (..., n, k).

    Returns:
        An array of shape (..., n) for a vector b, else (..., n, k); infinite or NaN where a is singular.

    Raises:
        ValueError: the shapes do not fit.

    >>> import veery.numpy as jnp
    >>> solve(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.array([2.0, 3.0])).tolist()
    [1.0, 2.0]
    """
    a, b = ensure_arraylike("jnp.linalg.solve", a, b)
    a, b = promote_dtypes_inexact(a, b)
    shape, right = np.shape(a), np.shape(b)
    if len(shape) < 2 or shape[-1] != shape[-2] or not right or right[-1 if len(right) == 1 else -2] != shape[-1]:
        raise ValueError(
            "The arguments to solve must have shapes a=[..., m, m] and b=[..., m, k] or b=[..., m]; "
            f"got a={shape} and b={right}"
        )
    return run(_solve, a, b)


def _solve(a: Array, b: Array) -> Array:
    vector = b.ndim == 1
    if vector:
        b = lax.expand_dims(b, (1,))
    batch = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    x = solve_stack(a, b)
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


def solve_stack(a: Array, b: Array) -> Array:
    """`solve` for stacks of one size; a derivative is a solution for another right-hand side with the same factors."""
    factors = lax.linalg.lu(lax.stop_gradient(a))
    forward = lambda _, y: lu_solve(*factors, y)
    backward = lambda _, y: lu_solve(*factors, y, transposed=True)
    return lax.custom_linear_solve(lambda x: _products.matmul(a, x), b, forward, backward)


def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices, infinite or NaN for singular ones.

    Args:
        a: array of shape (..., n, n).

    Raises:
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    (a,) = promote_args_inexact("jnp.linalg.inv", a)
    check_square("inv", a)
    return run(_inv, a)


def _inv(a: Array) -> Array:
    return solve_stack(a, broadcast_to(_matrices.eye(a.shape[-1], dtype=a.dtype), a.shape))


# Determinants.


def det(a: ArrayLike) -> Array:
    """The determinants of square matrices.

    Args:
        a: array of shape (..., n, n); those of half precision are computed in float32.

    Raises:
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> det(jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    -2.0
    """
    (a,) = promote_args_inexact("jnp.linalg.det", a)
    check_square("det", a)
    return run(_det, a)


def _det(a: Array) -> Array:
    if (dtype := a.dtype).itemsize < 4:
        return to_dtype(_det(to_dtype(a, np.dtype(np.float32))), dtype)
    e = lambda i, j: a[..., i, j]
    if a.shape[-1] == 2:
        return e(0, 0) * e(1, 1) - e(0, 1) * e(1, 0)
    if a.shape[-1] == 3:
        minor = lambda i, j: e(1, i) * e(2, j) - e(1, j) * e(2, i)
        return e(0, 0) * minor(1, 2) - e(0, 1) * minor(0, 2) + e(0, 2) * minor(0, 1)
    return _det_by_elimination(a)


@custom_jvp
def _det_by_elimination(a: Array) -> Array:
    return determinant(a)


@_det_by_elimination.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    out, adjugate_times_t = _cofactor_solve(a, t)
    return out, _products.trace(adjugate_times_t, 0, -2, -1)


def _cofactor_solve(a: Array, b: Array) -> tuple[Array, Array]:
    """det(a), and `adj(a) @ b = det(a) * inv(a) @ b` also for singular a.

    By elimination U x = det * z. If rank is lacking, the last element u of the diagonal of U is zero. With d the
    product of the others the last row is x = d * z, and the rows before are found by substitution for det * z.
    """
    n = a.shape[-1]
    if not n:
        return _reductions.prod(_matrices.diagonal(a, 0, -2, -1), axis=-1), b
    factors, pivots, permutation = lax.linalg.lu(a)
    partial = lax.cumprod(signed_diagonal(factors, pivots), axis=a.ndim - 2)
    determinant = partial[..., -1]
    d = partial[..., -2] if n > 1 else lax.full_like(determinant, 1)
    moved = permute_rows(b, permutation)
    z = lax.linalg.triangular_solve(factors, moved, left_side=True, lower=True, unit_diagonal=True)
    above, below = z[..., :-1, :] * determinant[..., None, None], z[..., -1:, :] * d[..., None, None]
    z = lax.concatenate([above, below], z.ndim - 2)
    diagonal = np.eye(n, dtype=bool)
    last = broadcast_to(diagonal & (np.arange(n) == n - 1), a.shape)
    zeros = lax.bitwise_and(broadcast_to(diagonal, a.shape), lax.eq(factors, lax.full_like(factors, 0)))
    factors = lax.select(lax.bitwise_or(last, zeros), lax.full_like(factors, 1), factors)
    return determinant, lax.linalg.triangular_solve(factors, z, left_side=True)


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The signs of determinants and the logarithms of their absolute values, where those overflow.

    Args:
        a: array of shape (..., n, n); those of half precision are computed in float32.
        method: the factorisation: "lu" (by default) or "qr".

    Raises:
        ValueError: the matrices are not square, or there is no such method.

    >>> import veery.numpy as jnp
    >>> sign, logabsdet = slogdet(-jnp.eye(3))
    >>> sign.tolist(), abs(logabsdet.tolist())
    (-1.0, 0.0)
    """
    (a,) = promote_args_inexact("jnp.linalg.slogdet", a)
    check_square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'.")
    return SlogdetResult(*run(_slogdet, a, method=method or "lu"))


def _slogdet(a: Array, *, method: str) -> tuple[Array, Array]:
    if (dtype := a.dtype).itemsize < 4:
        sign, logabsdet = _slogdet(to_dtype(a, np.dtype(np.float32)), method=method)
        return to_dtype(sign, dtype), to_dtype(logabsdet, dtype)
    return _slogdet_qr(a) if method == "qr" else _slogdet_lu(a)


def _of_diagonal(d: Array) -> tuple[Array, Array]:
    return _reductions.prod(_arithmetic.sign(d), axis=-1), _reductions.sum(lax.log(lax.abs(d)), axis=-1)


def _slogdet_jvp(fun: Any) -> Any:
    """d log det(a) = trace(inv(a) da); its imaginary part turns the sign."""

    def rule(primals: Any, tangents: Any) -> Any:
        (a,), (t,) = primals, tangents
        sign, logabsdet = fun(a)
        change = _products.trace(solve_stack(a, t), 0, -2, -1)
        if not is_kind(a, np.complexfloating):
            return (sign, logabsdet), (lax.full_like(sign, 0), change)
        turn = lax.complex(lax.full_like(logabsdet, 0), lax.imag(change))
        return (sign, logabsdet), (sign * turn, lax.real(change))

    return rule


@custom_jvp
def _slogdet_lu(a: Array) -> tuple[Array, Array]:
    factors, pivots, _ = lax.linalg.lu(a)
    return _of_diagonal(signed_diagonal(factors, pivots))


@custom_jvp
def _slogdet_qr(a: Array) -> tuple[Array, Array]:
    """The determinant of a reflection I - tau v v' is -tau / conj(tau), that of the identity (tau = 0) is 1."""
    if not a.size:
        return _of_diagonal(_matrices.diagonal(a, 0, -2, -1))
    r, taus, _ = _linalg_loops.reflections(a, False)
    taus = lax.squeeze(taus, (taus.ndim - 1,))
    none = taus == 0
    signs = where(none, 1, -taus / where(none, 1, lax.conj(taus) if is_kind(a, np.complexfloating) else taus))
    sign, logabsdet = _of_diagonal(_matrices.diagonal(r, 0, -2, -1))
    return sign * _reductions.prod(lax.convert_element_type(signs, a.dtype), axis=-1), logabsdet


_slogdet_lu.defjvp(_slogdet_jvp(_slogdet_lu))
_slogdet_qr.defjvp(_slogdet_jvp(_slogdet_qr))


# Tensors as matrices.


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of an array as the linear function from its last axes to its first.

    Args:
        a: array; the products of its first `ind` and of its other dimensions are equal.
        ind: how many axes are the result's.

    Raises:
        ValueError: ind is not positive, or the products differ.

    >>> import veery.numpy as jnp
    >>> tensorinv(jnp.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    a = ensure_arraylike("jnp.linalg.tensorinv", a)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    shape = np.shape(a)
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise ValueError(f"product of dimensions before and after ind must match: a.shape={shape}, ind={ind}")
    return reshape(inv(reshape(a, (rows, columns))), (*shape[ind:], *shape[:ind]))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """The x with `tensordot(a, x, x.ndim) = b`.

    Args:
        a: array; its first dimensions are those of b, the product of the others is the size of b.
        b: array.
        axes: axes of a to move to its end first.

    Raises:
        ValueError: the shapes do not fit.

    >>> import veery.numpy as jnp
    >>> tensorsolve(2 * jnp.eye(4).reshape(2, 2, 4), jnp.ones((2, 2))).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    a, b = ensure_arraylike("jnp.linalg.tensorsolve", a, b)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(np.ndim(a) - len(axes), np.ndim(a))))
    out = np.shape(a)[np.ndim(b) :]
    if np.shape(a)[: np.ndim(b)] != np.shape(b) or math.prod(out) != math.prod(np.shape(b)):
        raise ValueError(
            f"After moving axes to end, leading shape of a must match shape of b. got a.shape={np.shape(a)}, "
            f"b.shape={np.shape(b)}"
        )
    size = math.prod(out)
    return reshape(solve(reshape(a, (size, size)), reshape(b, (size,))), out)
