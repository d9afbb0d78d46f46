"""Functions of matrices that are made of other operations: updated factors, symmetric products, polar factors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from veery._core import dtypes, tree
from veery._core.array import Array
from veery._core.avals import aval_of
from veery._core.config import config
from veery._transforms.calls import jit_p
from veery.lax import _arithmetic, _bodies, _compare, _fill, _matrix as mx, _reduce, _shape, _transcendental
from veery.lax._bitwise import bitwise_and, bitwise_or
from veery.lax._linalg_loops import _by_real, _column, _row, _square, _times, _with_row
from veery.lax._linalg_orthogonal import qr
from veery.lax._while import fori_loop, while_loop

ArrayLike = Any
_add, _sub, _mul, _div = _arithmetic.add, _arithmetic.sub, _arithmetic.mul, _arithmetic.div


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The Cholesky factor of `R.T @ R + outer(w, w)`, by a rotation for each row of R.

    Args:
        r_matrix: upper triangular R of shape (n, n).
        w_vector: array of shape (n,).

    Returns:
        An upper triangular array of shape (n, n).

    Raises:
        ValueError: shapes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.cholesky_update(np.array([[3.0]], np.float32), np.array([4.0], np.float32)).tolist()
    [[5.0]]
    """
    shape, size = np.shape(r_matrix), np.shape(w_vector)
    if len(shape) != 2 or shape[0] != shape[1] or size != shape[:1]:
        raise ValueError(
            "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the same size as input. "
            f"Got shapes {shape} and {size} instead"
        )
    return _compiled(_rotated)(r_matrix, w_vector) if shape[0] else r_matrix


def _compiled(fun: Any, **static: Any) -> Any:
    """The function of arrays as one program."""

    def call(*args: Any) -> Any:
        body = _staged(fun, tuple(static.items()), tuple(map(aval_of, args)), config.trace_key())
        results = jit_p.bind(*body.consts, *args, jaxpr=body.jaxpr, name=fun.__name__)
        return tree.tree_unflatten(body.out_tree, results)

    return call


@functools.lru_cache(maxsize=64)
def _staged(fun: Any, static: tuple[tuple[str, Any], ...], avals: tuple[Any, ...], _settings: Any) -> _bodies.Body:
    applied = lambda *args: fun(*args, **dict(static))
    return _bodies.stage_body(applied, tree.tree_structure(avals), avals, fun.__name__)


def _rotated(r: Any, w: Any) -> Any:
    def rotate(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        r, w = state
        row = _row(r, k)
        x, y = _column(row, k), _column(w, k)
        done = _compare.eq(y, _fill.full_like(y, 0))
        scale = mx.select(done, _fill.full_like(y, 1), _arithmetic.max(_arithmetic.abs(x), _arithmetic.abs(y)))
        x, y = _div(x, scale), _div(y, scale)  # whose squares neither overflow nor vanish
        norm = _transcendental.sqrt(_add(_mul(x, x), _mul(y, y)))
        cos = mx.select(done, _fill.full_like(x, 1), _div(x, norm))
        sin = mx.select(done, _fill.full_like(x, 0), _div(y, norm))
        return _with_row(r, _add(_mul(cos, row), _mul(sin, w)), k), _sub(_mul(cos, w), _mul(sin, row))

    return fori_loop(0, np.shape(r)[0], rotate, (r, _shape.expand_dims(w, (0,))))[0]


def symmetric_product(
    a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """`alpha * A @ A.T + beta * C`.

    Args:
        a_matrix: array of shape (..., m, n).
        c_matrix: symmetric array of shape (..., m, m).
        alpha: a number.
        beta: a number.
        symmetrize_output: whether the upper triangle is replaced by the transposed lower one.

    Returns:
        An array of the shape of c_matrix.

    Raises:
        ValueError: shapes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.symmetric_product(np.ones((1, 3), np.float32), np.ones((1, 1), np.float32), beta=2.0).tolist()
    [[5.0]]
    """
    a, c = np.shape(a_matrix), np.shape(c_matrix)
    if len(a) < 2 or c != (*a[:-1], a[-2]):
        raise ValueError(
            "symmetric_update expects a rectangular matrix of shape (m, n) and a square matrix of shape (n, n). Got "
            f"shapes {a} and {c}."
        )
    params = {"alpha": alpha, "beta": beta, "symmetrize_output": symmetrize_output}
    return _compiled(_symmetric_product, **params)(a_matrix, c_matrix)


def _symmetric_product(a: Any, c: Any, *, alpha: float, beta: float, symmetrize_output: bool) -> Any:
    scaled = lambda number, x: _mul(_fill.full_like(x, number), x)
    out = _add(scaled(alpha, mx.matmul(a, mx.transpose(a))), scaled(beta, c))
    return _add(mx.tril(out), mx.transpose(mx.tril(out, -1))) if symmetrize_output else out


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """The polar factors `x = u @ h` by Halley's iteration with weights (Nakatsukasa, Bai and Gygi 2010).

    Args:
        x: array of shape (m, n), m >= n, of full rank.
        is_hermitian: accepted for compatibility.
        max_iterations: how many steps at most; 10 by default.
        eps: the iteration ends when a step changes u by less than `(4 eps)^(1/3)` of its norm; by default the dtype's.
        dynamic_shape: the part (rows, columns) of x that counts; both may be traced.

    Returns:
        u with orthonormal columns, the Hermitian h, the number of steps, and whether they sufficed.

    Raises:
        ValueError: x has more columns than rows.

    >>> from veery import lax
    >>> import numpy as np
    >>> u, h, steps, converged = lax.linalg.qdwh(np.array([[0.0, 2.0], [1.0, 0.0]], np.float32))
    >>> (h.round(4) + 0.0).tolist(), bool(converged)
    ([[1.0, 0.0], [0.0, 2.0]], True)
    """
    if np.ndim(x) != 2 or np.shape(x)[0] < np.shape(x)[1]:
        raise ValueError("The input matrix of shape M x N must have M >= N.")
    resolution = float(dtypes.finfo(mx.dtype_of(x)).eps) if eps is None else float(eps)
    limit = 10 if max_iterations is None else int(max_iterations)
    shape = np.shape(x) if dynamic_shape is None else dynamic_shape
    return _compiled(_qdwh, eps=resolution, limit=limit)(x, *shape)


def _qdwh(x: Any, rows: Any, columns: Any, *, eps: float, limit: int) -> tuple[Any, Any, Any, Any]:
    number = lambda value: np.asarray(value, mx.real_dtype(x))
    for axis, size in ((-2, rows), (-1, columns)):
        places = mx.indices(x, axis)
        x = mx.select(_compare.lt(places, _fill.full_like(places, size)), x, 0)
    sizes = _arithmetic.abs(x)
    largest = lambda axis: _reduce.reduce_max(_reduce.reduce_sum(sizes, (axis,)), (0,))
    bound = _transcendental.sqrt(_mul(largest(0), largest(1)))  # of the largest singular value
    bound = mx.select(_compare.eq(bound, number(0)), number(1), bound)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        u, low, count, _ = state
        a, b, c = _weights(low)
        new = _halley(u, a, b, c)
        low = _mul(low, _div(_add(a, _mul(b, _mul(low, low))), _add(number(1), _mul(c, _mul(low, low)))))
        moved = _compare.gt(_norm(_sub(new, u)), _mul(_norm(new), number((4 * eps) ** (1 / 3))))
        far = _compare.gt(_arithmetic.abs(_sub(number(1), low)), number(5 * eps))
        return new, low, _add(count, 1), bitwise_or(moved, far)

    more = lambda state: bitwise_and(state[3], _compare.lt(state[2], limit))
    start = (_by_real(x, _shape.broadcast_in_dim(bound, np.shape(x), ())), number(eps), 0, np.bool_(True))
    u, _, count, unfinished = while_loop(more, step, start)
    u = _by_real(_sub(_times(u, number(3)), mx.matmul(u, mx.matmul(mx.adjoint(u), u))), number(2))  # Newton, Schulz
    h = mx.matmul(mx.adjoint(u), x)
    h = _times(_add(h, mx.adjoint(h)), number(0.5))
    return u, h, count, _compare.eq(unfinished, np.bool_(False))


def _norm(x: Any) -> Any:
    return _transcendental.sqrt(_reduce.reduce_sum(_square(x), (0, 1)))


def _weights(low: Any) -> tuple[Any, Any, Any]:
    """Those of the step that serves singular values between `low` and 1 best."""
    number = lambda value: np.asarray(value, mx.dtype_of(low))
    square = _mul(low, low)
    ratio = _div(_sub(number(1), square), _mul(square, square))
    d = _transcendental.cbrt(_mul(number(4), ratio))
    root = _transcendental.sqrt(_add(number(1), d))
    inner = _div(_mul(number(8), _sub(number(2), square)), _mul(square, root))
    inner = _sub(_add(number(8), inner), _mul(number(4), d))
    a = _add(root, _mul(number(0.5), _transcendental.sqrt(inner)))
    b = _div(_mul(_sub(a, number(1)), _sub(a, number(1))), number(4))
    return a, b, _sub(_add(a, b), number(1))


def _halley(u: Any, a: Any, b: Any, c: Any) -> Any:
    """(b/c) u + (a - b/c) / sqrt(c) q1 q2', where [q1; q2] are the orthonormal columns of [sqrt(c) u; I]."""
    m, n = np.shape(u)
    root = _transcendental.sqrt(c)
    q = qr(_shape.concatenate([_times(u, root), mx.eye_like(u, n, n)], 0), full_matrices=False)[0]
    ratio = _div(b, c)
    product = mx.matmul(mx.rows(q, 0, m), mx.adjoint(mx.rows(q, m, m + n)))
    return _add(_times(u, ratio), _times(product, _div(_sub(a, ratio), root)))
