"""Eigenvalues of Hermitian and of tridiagonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery._core import dtypes
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike
from veery.scipy.linalg._factorizations import inexact


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        a: array of shape (..., n, n), which is replaced by `(a + a') / 2`.
        b: must be None: generalized problems are not there, as in JAX.
        lower: accepted for compatibility.
        eigvals_only: whether eigenvalues alone are wanted.
        overwrite_a: accepted for compatibility.
        overwrite_b: accepted for compatibility.
        turbo: accepted for compatibility.
        eigvals: must be None.
        type: must be 1.
        check_finite: accepted for compatibility.

    Returns:
        The real eigenvalues of shape (..., n) and the eigenvectors as columns, or the eigenvalues alone.

    Raises:
        NotImplementedError: b, eigvals or type is given.
        ValueError: the matrices are not square.

    >>> import veery.numpy as jnp
    >>> eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]]), eigvals_only=True).tolist()
    [1.0, 2.0]
    """
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    v, w = run(lax.linalg.eigh, *inexact(a))
    return w if eigvals_only else (w, v)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """The eigenvalues, in ascending order, and eigenvectors of a Hermitian tridiagonal matrix.

    Eigenvalues alone are found by bisection, in n^2 operations for each bit and with memory for n; eigenvectors by
    `eigh` of the whole matrix.

    Args:
        d: array of shape (n,), the diagonal, of which the real part counts.
        e: array of shape (n - 1,) and the dtype of d, above the diagonal; below it stand the conjugates.
        eigvals_only: whether eigenvalues alone are wanted.
        select: "a" for all, "i" for those in a range of places.
        select_range: the first and the last place.
        tol: to what eigenvalues are bisected, by default the dtype's epsilon times the norm.
        key: accepted for compatibility: there are no random vectors to begin with.

    Returns:
        The k eigenvalues and the eigenvectors as the columns of an array of shape (n, k); or the eigenvalues alone.

    Raises:
        NotImplementedError: eigenvalues are selected by value, whose number is not known while tracing.
        TypeError: d and e are not of one dtype of 32 or 64 bits, or their sizes do not fit.
        ValueError: the range is missing or empty, or there is no such selection.

    >>> import veery.numpy as jnp
    >>> eigh_tridiagonal(jnp.array([2.0, 2.0]), jnp.array([1.0]), eigvals_only=True).round(4).tolist()
    [1.0, 3.0]
    """
    d, e = jnp.asarray(d), jnp.asarray(e)
    if d.dtype != e.dtype:
        raise TypeError(f"diagonal and off-diagonal values must have same dtype, got {d.dtype} and {e.dtype}")
    if d.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise TypeError(
            "Only float32 and float64 inputs are supported as inputs to jax.scipy.linalg.eigh_tridiagonal, got "
            f"{d.dtype} and {e.dtype}"
        )
    n = d.shape[0] if d.ndim == 1 else 0
    if d.ndim != 1 or e.shape != (max(n - 1, 0),):
        raise TypeError(f"eigh_tridiagonal needs d of shape (n,) and e of shape (n - 1,), got {d.shape} and {e.shape}")
    first, last = _selected(select, select_range, n)
    if n <= 1:
        w, v = jnp.real(d), jnp.eye(n, dtype=d.dtype)
    elif eigvals_only:
        return run(_eigenvalues, d, e, jnp.asarray(0.0 if tol is None else tol, d.real.dtype), first=first, last=last)
    else:
        v, w = run(_eigenvectors, d, e)
    return w[first:last] if eigvals_only else (w[first:last], v[:, first:last])


def _selected(select: str, places: tuple[float, float] | None, n: int) -> tuple[int, int]:
    """The range of places that are wanted."""
    if select == "a":
        return 0, n
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal(..., select='v') is not implemented, since the number of eigenvalues would have to be "
            "known while tracing; select the result by a mask, or by place with select='i'."
        )
    if select != "i":
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    if places is None:
        raise ValueError("for select='i', select_range must be specified.")
    first, last = map(int, places)
    if first > last:
        raise ValueError("Got empty index range in select_range.")
    return first, last + 1


def _eigenvectors(d: Array, e: Array) -> tuple[Array, Array]:
    return lax.linalg.eigh(jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(jnp.conj(e), -1), symmetrize_input=False)


def _eigenvalues(d: Array, e: Array, tol: Array, *, first: int, last: int) -> Array:
    if is_kind(d, np.complexfloating):
        d, e = lax.real(d), lax.abs(e)  # the phases of the side diagonal turn eigenvectors alone

    @custom_jvp
    def values(d: Array, e: Array) -> Array:
        return _bisected(d, e, tol, first, last)

    @values.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        """An eigenvalue changes by v' dT v."""
        d_dot, e_dot = tangents
        v, _ = _eigenvectors(*primals)
        v = v[:, first:last]
        change = jnp.sum(v * v * d_dot[:, None], axis=0) + 2 * jnp.sum(v[:-1] * v[1:] * e_dot[:, None], axis=0)
        return values(*primals), change

    return values(d, e)


def _bisected(d: Array, e: Array, tol: Array, first: int, last: int) -> Array:
    """All eigenvalues at once: each step halves the intervals that have them (Barth, Martin and Wilkinson 1967)."""
    finfo = dtypes.finfo(d.dtype)
    number = lambda value: np.asarray(value, d.dtype)
    squares = lax.square(e)
    reach = lax.abs(e)
    reach = lax.pad(reach, number(0), [(0, 1, 0)]) + lax.pad(reach, number(0), [(1, 0, 0)])
    low, high = jnp.min(d - reach), jnp.max(d + reach)  # Gershgorin's circles
    norm = jnp.maximum(lax.abs(low), lax.abs(high))
    smallest = number(finfo.tiny) * jnp.maximum(number(1), jnp.max(squares))  # of pivots
    slack = number(2.1 * d.shape[0] * float(finfo.eps)) * norm + number(4.2) * smallest
    limit = jnp.maximum(tol, number(finfo.eps) * norm)
    places = np.arange(first, last, dtype=np.int32)

    def below(x: Array) -> Array:
        """How many eigenvalues are less than x: the negative pivots of elimination in T - x."""

        def pivot(state: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
            count, q = state
            q = (row[0] - x) - row[1] / q
            q = jnp.where(lax.abs(q) < smallest, -smallest, q)
            return (count + lax.convert_element_type(q < 0, np.int32), q), None

        start = (lax.full(x.shape, 0, np.int32), lax.full_like(x, 1))
        rows = (d, lax.pad(squares, number(0), [(1, 0, 0)]))
        return lax.scan(pivot, start, rows)[0][0]

    def halve(state: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        step, low, high = state
        middle = number(0.5) * (low + high)
        more = below(middle) > places
        return step + 1, jnp.where(more, low, middle), jnp.where(more, middle, high)

    wide = lambda state: (state[0] < finfo.nmant + 2) & (jnp.max(state[2] - state[1]) > limit)
    shape = places.shape
    bounds = (lax.broadcast(low - slack, shape), lax.broadcast(high + slack, shape))
    _, low, high = lax.while_loop(wide, halve, (np.int32(0), *bounds))
    return number(0.5) * (low + high)
