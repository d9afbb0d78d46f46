"""Factorisations into an orthogonal and a triangular matrix, and products of reflections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import host
from veery._core.ad import Zero
from veery._core.array import Array
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery._transforms.jvp import jvp
from veery.lax import _arithmetic, _linalg_loops, _linalg_reference, _matrix as mx
from veery.lax._declare import check_same_dtypes
from veery.lax._linalg_triangular import triangular_solve
from veery.lax._sort import _take_along

ArrayLike = Any

# ---------------------------------------------------------------------------------------------------------------------
# qr


def qr(
    x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """The factors of `x = q @ r`: q has orthonormal columns, r is upper triangular.

    Args:
        x: array of shape (..., m, n).
        pivoting: whether columns are exchanged, so that the diagonal of r descends: `x[:, p] = q @ r`.
        full_matrices: whether q has m columns and r as many rows, instead of min(m, n).
        use_magma: accepted for compatibility.

    Returns:
        q, r and, with pivoting, the int32 order p of the columns.

    >>> from veery import lax
    >>> import numpy as np
    >>> q, r = lax.linalg.qr(np.array([[3.0], [4.0]], np.float32), full_matrices=False)
    >>> abs(round(float(r[0, 0]), 5))
    5.0
    """
    return tuple(qr_p.bind(x, full_matrices=bool(full_matrices), pivoting=bool(pivoting)))


def _qr_abstract_eval(x: ShapedArray, *, full_matrices: bool, pivoting: bool) -> list[ShapedArray]:
    mx.check_rank("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    outs = [ShapedArray((*batch, m, k), x.dtype), ShapedArray((*batch, k, n), x.dtype)]
    return outs + [ShapedArray((*batch, n), np.int32)] * pivoting


def _qr_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, pivoting: bool
) -> tuple[list[Any], list[Any]]:
    """dR = (Q' dx R^-1 - W) R and dQ = dx R^-1 - Q (Q' dx R^-1 - W), where W is antihermitian with that lower triangle.

    https://j-towns.github.io/papers/qr-derivative.pdf; for complex x the diagonal of R stays real.
    """
    (x,), (t,) = primals, tangents
    q, r, *order = qr_p.bind(x, full_matrices=False, pivoting=pivoting)
    m, n = np.shape(x)[-2:]
    if m < n or (full_matrices and m != n):
        raise NotImplementedError(
            "Unimplemented case of QR decomposition derivative: it is defined for matrices that are not wide, and "
            "with full_matrices only for square ones."
        )
    if pivoting:
        t = _take_along(t, mx.as_rows(order[0], t), np.ndim(t) - 1)
    scaled = triangular_solve(r, t)
    middle = mx.matmul(mx.adjoint(q), scaled)
    lower = mx.tril(middle, -1)
    turn = _arithmetic.sub(lower, mx.adjoint(lower))
    if mx.is_complex(x):
        zero = np.zeros((), mx.real_dtype(x))
        diagonal = _arithmetic.imag(mx.diagonal(middle))
        turn = _arithmetic.add(turn, mx.on_diagonal(_arithmetic.complex(_arithmetic.mul(diagonal, zero), diagonal)))
    rest = _arithmetic.sub(middle, turn)
    t_q = _arithmetic.sub(scaled, mx.matmul(q, rest))
    return [q, r, *order], [t_q, mx.matmul(rest, r), *map(Zero.from_primal_value, order)]


qr_p = Primitive(
    "qr",
    host=host.calls(64, "with_q"),
    abstract_eval=_qr_abstract_eval,
    jvp=_qr_jvp,
    reference=_linalg_reference.qr,
    composition=_linalg_loops.qr,
    multiple_results=True,
)
mx.batch_in_front(qr_p)


# ---------------------------------------------------------------------------------------------------------------------
# householder_product


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of `H_1 @ H_2 @ ...`, the reflections `H_i = I - taus[i] v_i v_i'`.

    Args:
        a: array of shape (..., m, n) with m >= n; v_i is 1 at i, zero above it and column i of a below.
        taus: array of shape (..., k) with k <= n.

    Returns:
        An array of the shape of a.

    Raises:
        ValueError: shapes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.householder_product(np.ones((2, 1), np.float32), np.ones(1, np.float32)).tolist()
    [[0.0], [-1.0]]
    """
    return householder_product_p.bind(a, taus)


def _householder_product_abstract_eval(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    mx.check_rank("householder_product", a)
    mx.check_rank("householder_product", taus, 1, 1)
    check_same_dtypes("householder_product", [a, taus])
    if a.shape[-2] < a.shape[-1]:
        raise ValueError(
            f"The first argument to householder_product must have at least as many rows as columns, got shape {a.shape}"
        )
    if taus.shape[:-1] != a.shape[:-2] or taus.shape[-1] > a.shape[-1]:
        raise ValueError(
            "The second argument to householder_product must not have more rows than the minimum of the first "
            f"argument's rows and columns. Got shapes {a.shape} and {taus.shape}."
        )
    return ShapedArray(a.shape, a.dtype)


def _householder_product_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """That of the product of reflections, written out."""
    (out,), (t_out,) = jvp(lambda a, taus: [_linalg_loops.householder_product(a, taus)], primals, tangents)
    return out, t_out


householder_product_p = Primitive(
    "householder_product",
    host=host.calls(64),
    abstract_eval=_householder_product_abstract_eval,
    jvp=_householder_product_jvp,
    reference=_linalg_reference.householder_product,
    composition=_linalg_loops.householder_product,
)
mx.batch_in_front(householder_product_p)
