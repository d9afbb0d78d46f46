"""Iterative solution of linear systems whose matrices are functions, or need not be factored."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.placement import device_put
from veery._core import dtypes
from veery.flatten_util import ravel_pytree
from veery.numpy._arithmetic import is_kind
from veery.numpy._promotion import Array, ArrayLike
from veery.tree_util import tree_leaves, tree_map, tree_structure

__all__ = ["bicgstab", "cg", "gmres"]

Operator = Callable[[Any], Any]
_dot = partial(jnp.dot, precision=lax.Precision.HIGHEST)
_vdot = partial(jnp.vdot, precision=lax.Precision.HIGHEST)


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The solution of `A(x) = b` for Hermitian positive-definite A, by conjugate gradients.

    Args:
        A: a linear function from trees like b to trees like b; or a square matrix, or what can be multiplied as one.
        b: array, or tree of arrays.
        x0: where to begin, by default at zero.
        tol: the iteration ends when the norm of `b - A(x)` is at most this times that of b,
        atol: or this.
        maxiter: how many steps at most, by default 10 for each element of b.
        M: an approximate inverse of A, as A is given.

    Returns:
        A tree like b, and None. Derivatives solve such systems, too: they are as exact as those solutions.

    Raises:
        TypeError: A or M is neither a function nor a matrix.
        ValueError: a matrix is not square, or the trees do not fit.

    >>> import veery.numpy as jnp
    >>> x, _ = cg(jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([6.0, 7.0]))
    >>> x.round(3).tolist()
    [1.0, 2.0]
    """
    is_real = not any(is_kind(x, np.complexfloating) for x in tree_leaves(b))
    return _solved(_cg, A, b, x0, tol, atol, maxiter, M, symmetric=is_real), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """The solution of `A(x) = b` by the stabilized biconjugate gradients of van der Vorst (1992).

    A need not be symmetric; arguments, results and errors are else those of `cg`.

    >>> import veery.numpy as jnp
    >>> x, _ = bicgstab(jnp.array([[4.0, 1.0], [0.0, 2.0]]), jnp.array([6.0, 4.0]))
    >>> x.round(3).tolist()
    [1.0, 2.0]
    """
    return _solved(_bicgstab, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """The solution of `A(x) = b` by generalized minimal residuals (Saad and Schultz 1986). A need not be symmetric.

    Args:
        A: see `cg`.
        b: see `cg`.
        x0: see `cg`.
        tol: see `cg`; M is applied to residuals first.
        atol: see `cg`.
        restart: of how many dimensions the space is in which each solution is looked for.
        maxiter: how many such spaces at most, by default 10 for each element of b.
        M: see `cg`.
        solve_method: "incremental" ends within a space as soon as the residual is small enough, "batched" when the
            space has all its dimensions.

    Returns:
        A tree like b; and 0, or -1 where it has NaN.

    Raises:
        TypeError: A or M is neither a function nor a matrix.
        ValueError: a matrix is not square, the trees do not fit, or there is no such method.

    >>> import veery.numpy as jnp
    >>> x, info = gmres(jnp.array([[4.0, 1.0], [0.0, 2.0]]), jnp.array([6.0, 4.0]))
    >>> x.round(3).tolist(), int(info)
    ([1.0, 2.0], 0)
    """
    if solve_method not in ("incremental", "batched"):
        raise ValueError(f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'")
    method = partial(_gmres, restart=restart, early=solve_method == "incremental")
    x = _solved(method, A, b, x0, tol, atol, maxiter, M)
    return x, jnp.where(jnp.isnan(_norm(ravel_pytree(x)[0])), -1, 0)


def _operator(f: Any) -> Operator:
    if callable(f):
        return f
    if not hasattr(f, "__matmul__"):
        raise TypeError(f"linear operator must be either a function or ndarray: {f}")
    shape = getattr(f, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
        raise ValueError(f"linear operator must be a square matrix, but has shape: {shape}")
    return partial(_dot, f) if isinstance(f, np.ndarray) or hasattr(f, "aval") else partial(operator.matmul, f)


def _solved(
    method: Callable[..., Array],
    A: Any,
    b: Any,
    x0: Any,
    tol: ArrayLike,
    atol: ArrayLike,
    maxiter: int | None,
    M: Any,
    symmetric: bool = False,
) -> Any:
    """The solution of a system by a method for vectors, with derivatives by the implicit function theorem."""
    x0 = tree_map(jnp.zeros_like, b) if x0 is None else x0
    b, x0 = device_put((b, x0))
    A, M = _operator(A), _same if M is None else _operator(M)
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(f"x0 and b must have matching tree structure: {tree_structure(x0)} vs {tree_structure(b)}")
    shapes = [list(map(np.shape, tree_leaves(x))) for x in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}")
    rhs, unravel = ravel_pytree(b)
    start = ravel_pytree(x0)[0].astype(rhs.dtype)
    limit = 10 * rhs.size if maxiter is None else maxiter

    def on_vectors(f: Operator) -> Operator:
        def apply(x: Array) -> Array:
            out = f(unravel(x))
            if tree_structure(out) != tree_structure(b) or list(map(np.shape, tree_leaves(out))) != shapes[1]:
                raise ValueError(
                    "the linear operator must return a tree like its argument, got "
                    f"{tree_map(np.shape, out)} for {tree_map(np.shape, b)}"
                )
            return ravel_pytree(out)[0].astype(x.dtype)

        return apply

    preconditioner = _same if M is _same else on_vectors(M)

    def solve(A: Operator, b: Array) -> Array:
        norm = _norm(b)
        smallest = jnp.maximum(jnp.asarray(tol, norm.dtype) * norm, jnp.asarray(atol, norm.dtype))
        return method(A, b, start, smallest, limit, preconditioner)

    x = lax.custom_linear_solve(on_vectors(A), rhs, solve=solve, transpose_solve=solve, symmetric=symmetric)
    return unravel(x)


def _same(x: Any) -> Any:
    return x


def _norm(x: Array) -> Array:
    return jnp.sqrt(jnp.real(_vdot(x, x)))


def _cg(A: Operator, b: Array, x: Array, smallest: Array, maxiter: int, M: Operator) -> Array:
    """Hestenes and Stiefel (1952)."""
    product = lambda x, y: jnp.real(_vdot(x, y)).astype(b.dtype)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, gamma, p, k = state
        Ap = A(p)
        alpha = gamma / product(p, Ap)
        x, r = x + alpha * p, r - alpha * Ap
        z = M(r)
        new = product(r, z)
        return x, r, new, z + new / gamma * p, k + 1

    r = b - A(x)
    z = M(r)
    more = lambda state: (_norm(state[1]) > smallest) & (state[4] < maxiter)
    return lax.while_loop(more, step, (x, r, product(r, z), z, 0))[0]


def _bicgstab(A: Operator, b: Array, x: Array, smallest: Array, maxiter: int, M: Operator) -> Array:
    r = shadow = b - A(x)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, alpha, omega, rho, p, q, k = state
        new = _vdot(shadow, r)
        p = r + new / rho * alpha / omega * (p - omega * q)
        p_hat = M(p)
        q = A(p_hat)
        alpha = new / _vdot(shadow, q)
        s = r - alpha * q
        s_hat = M(s)
        t = A(s_hat)
        omega = _vdot(t, s) / _vdot(t, t)
        done = _norm(s) < smallest  # t may be zero then
        half = x + alpha * p_hat
        x, r = jnp.where(done, half, half + omega * s_hat), jnp.where(done, s, s - omega * t)
        breakdown = (new == 0) | (omega == 0) | (alpha == 0)
        return x, r, alpha, omega, new, p, q, jnp.where(breakdown, maxiter, k + 1)

    one = jnp.ones((), b.dtype)
    more = lambda state: (_norm(state[1]) > smallest) & (state[7] < maxiter)
    return lax.while_loop(more, step, (x, r, one, one, one, r, r, 0))[0]


def _gmres(
    A: Operator, b: Array, x: Array, smallest: Array, maxiter: int, M: Operator, *, restart: int, early: bool
) -> Array:
    restart = min(restart, b.size)
    norm, limit = _norm(b), smallest
    within = _norm(M(b)) * jnp.where(norm > 0, jnp.minimum(1, smallest / jnp.where(norm > 0, norm, 1)), 0)

    def cycle(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, beta, k = state
        x = x + _correction(lambda v: M(A(v)), r, beta, restart, within if early else None)
        r = M(b - A(x))
        return x, r, _norm(r), k + 1

    r = M(b - A(x))
    more = lambda state: (state[2] > limit) & (state[3] < maxiter)
    return lax.while_loop(more, cycle, (x, r, _norm(r), 0))[0]


def _correction(A: Operator, r: Array, beta: Array, size: int, within: Array | None) -> Array:
    """What to add to x: in the space of r, A r, A A r ... that which makes the residual smallest.

    Arnoldi's process gives orthonormal rows of V and Hessenberg's H, whose columns Givens rotations make upper
    triangular: what they make of the residual's norm is the right-hand side, whose last element is the new residual.
    """
    eps = float(dtypes.finfo(r.dtype).eps)
    V = jnp.zeros((size + 1, r.size), r.dtype).at[0].set(r / jnp.where(beta > 0, beta, 1).astype(r.dtype))
    R = jnp.eye(size, dtype=r.dtype)
    places = np.arange(size + 1, dtype=np.int32)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        k, V, R, rotations, g, _ = state
        w = A(V[k])
        before = _norm(w)
        h = jnp.zeros(size + 1, r.dtype)
        for _ in range(2):  # Gram and Schmidt's projections twice, against roundings
            projections = _dot(jnp.conj(V), w)
            h, w = h + projections, w - _dot(projections, V)
        after = _norm(w)
        independent = after > eps * before
        V = V.at[k + 1].set(jnp.where(independent, w / jnp.where(independent, after, 1).astype(r.dtype), 0))
        h = jnp.where(places == k + 1, jnp.where(independent, after, 0).astype(r.dtype), h)
        h = lax.fori_loop(0, k, lambda i, h: _rotated(h, rotations[i], i), h)
        rotation = _givens(h[k], h[k + 1])
        h, g = _rotated(h, rotation, k), _rotated(g, rotation, k)
        R = R.at[:, k].set(jnp.where(places[:-1] <= k, h[:-1], 0))
        residual = jnp.where(independent, jnp.abs(g[k + 1]), 0)
        return k + 1, V, R, rotations.at[k].set(rotation), g, residual

    least = jnp.zeros_like(beta) if within is None else within
    more = lambda state: (state[0] < size) & (state[5] > least)
    g = jnp.zeros(size + 1, r.dtype).at[0].set(beta.astype(r.dtype))
    state = (0, V, R, jnp.zeros((size, 2), r.dtype), g, beta)
    _, V, R, _, g, _ = lax.while_loop(more, step, state)
    y = lax.linalg.triangular_solve(R, jnp.where(jnp.diagonal(R) == 0, 0, g[:-1])[:, None], left_side=True)[:, 0]
    return _dot(y, V[:-1])


def _givens(a: Array, b: Array) -> Array:
    """The cosine and the sine of the rotation that takes b away."""
    norm = jnp.sqrt(jnp.square(jnp.abs(a)) + jnp.square(jnp.abs(b)))
    safe = jnp.where(norm > 0, norm, 1).astype(a.dtype)
    return jnp.stack([jnp.where(norm > 0, a / safe, 1), jnp.where(norm > 0, b / safe, 0)])


def _rotated(x: Array, rotation: Array, i: Any) -> Array:
    """Elements i and i + 1 turned."""
    c, s = rotation[0], rotation[1]
    pair = lax.dynamic_slice_in_dim(x, i, 2)
    turned = jnp.stack([jnp.conj(c) * pair[0] + jnp.conj(s) * pair[1], c * pair[1] - s * pair[0]])
    return lax.dynamic_update_slice_in_dim(x, turned, i, 0)
