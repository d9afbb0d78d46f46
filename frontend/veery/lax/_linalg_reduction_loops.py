"""The compositions of the primitives of `_linalg_reductions` as loops over columns, as in `_linalg_loops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery.lax import _arithmetic, _compare, _fill, _matrix as mx, _shape
from veery.lax._linalg_loops import _column, _flat, _reflection, _row, _with_column, _with_row
from veery.lax._shape import rev
from veery.lax._while import fori_loop

_add, _sub, _mul, _div = _arithmetic.add, _arithmetic.sub, _arithmetic.mul, _arithmetic.div


def ormqr(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    """One reflection after the other; from the right, the adjoint of the product of adjoints."""
    if not left:
        return mx.adjoint(ormqr(a, taus, mx.adjoint(c), left=True, transpose=not transpose))
    k = np.shape(taus)[-1]
    if 0 in np.shape(c) or not k:
        return c
    taus = _shape.expand_dims(mx.conj(taus) if transpose else taus, (np.ndim(taus),))
    rows = mx.columns(mx.indices(a, -2), 0, 1)

    def step(trip: Any, c: Any) -> Any:
        j = trip if transpose else _sub(_fill.full_like(trip, k - 1), trip)
        at, below = (compare(rows, _fill.full_like(rows, j)) for compare in (_compare.eq, _compare.gt))
        vector = mx.select(below, _column(a, j), mx.select(at, _fill.full_like(_column(a, j), 1), 0))
        return _sub(c, mx.matmul(vector, _mul(_row(taus, j), mx.matmul(mx.adjoint(vector), c))))

    return fori_loop(0, k, step, c)


def hessenberg(a: Any) -> list[Any]:
    """Reflection j makes column j zero below its first subdiagonal."""
    *batch, n, _ = np.shape(a)
    taus = _fill.full((*batch, max(n - 1, 0), 1), 0, mx.dtype_of(a))
    if 0 in np.shape(a) or n < 2:
        return [a, _flat(taus)]
    rows, column = mx.columns(mx.indices(a, -2), 0, 1), mx.indices(a, -1)

    def step(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, taus = state
        first = _add(j, _fill.full_like(j, 1))
        at, below = (compare(rows, _fill.full_like(rows, first)) for compare in (_compare.eq, _compare.gt))
        vector, tau, beta = _reflection(_column(a, j), at, below)
        stored = mx.select(below, vector, mx.select(at, _filled(beta, vector), _column(a, j)))
        right = mx.select(_compare.gt(column, _fill.full_like(column, j)), a, 0)
        a = _sub(a, mx.matmul(vector, _mul(mx.conj(tau), mx.matmul(mx.adjoint(vector), right))))
        right = mx.select(_compare.gt(column, _fill.full_like(column, j)), a, 0)
        a = _sub(a, mx.matmul(_mul(tau, mx.matmul(right, vector)), mx.adjoint(vector)))
        return _with_column(a, stored, j), _with_row(taus, tau, j)

    a, taus = fori_loop(0, n - 1, step, (a, taus))
    return [a, _flat(taus)]


def _filled(x: Any, like: Any) -> Any:
    return _shape.broadcast_in_dim(x, np.shape(like), tuple(range(np.ndim(like))))


def tridiagonal(a: Any, *, lower: bool) -> list[Any]:
    """The Hessenberg form of a Hermitian matrix; for the upper triangle everything is turned round."""
    rank = np.ndim(a)
    if not lower:
        turned = tridiagonal(rev(a, (rank - 2, rank - 1)), lower=True)
        return [rev(turned[0], (rank - 2, rank - 1)), *(rev(x, (rank - 2,)) for x in turned[1:])]
    strict = mx.tril(a, -1)
    real = _arithmetic.real if mx.is_complex(a) else lambda x: x
    diagonal = mx.on_diagonal(mx.promoted(real(mx.diagonal(a)), a))
    reduced, taus = hessenberg(_add(_add(strict, mx.adjoint(strict)), diagonal))
    n = np.shape(a)[-1]
    d, e = real(mx.diagonal(reduced)), real(mx.diagonal(mx.columns(mx.rows(reduced, 1, n), 0, n - 1)))
    return [_add(mx.tril(reduced), mx.triu(a, 1)), d, e, taus]


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    """Elimination from the first row to the last without pivoting (Thomas), then substitution."""
    if perturb_singular:
        raise NotImplementedError(
            "tridiagonal_solve: perturb_singular=True is LAPACK's, in programs for the CPU that are not saved."
        )
    if 0 in np.shape(b):
        return b
    n = np.shape(b)[-2]
    dl, d, du = (_shape.expand_dims(x, (np.ndim(x),)) for x in (dl, d, du))
    zero_row = _fill.full_like(_row(d, 0), 0), _fill.full_like(_row(b, 0), 0)

    def eliminate(i: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        factor, right, factors, rights = state
        pivot = _sub(_row(d, i), _mul(_row(dl, i), factor))
        factor = _div(_row(du, i), pivot)
        right = _sub(_row(b, i), _mul(_filled(_row(dl, i), right), right))
        right = _div(right, _filled(pivot, right))
        return factor, right, _with_row(factors, factor, i), _with_row(rights, right, i)

    *_, factors, rights = fori_loop(0, n, eliminate, (*zero_row, d, b))

    def substitute(trip: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        below, x = state
        i = _sub(_fill.full_like(trip, n - 1), trip)
        row = _sub(_row(rights, i), _mul(_filled(_row(factors, i), below), below))
        return row, _with_row(x, row, i)

    return fori_loop(0, n, substitute, (zero_row[1], b))[1]
