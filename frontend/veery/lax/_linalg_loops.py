"""Linear algebra of stacks of matrices as loops over whole-array operations: the compositions of `lax.linalg`.

They are what runs on devices that have no LAPACK, and in saved programs. Each trip treats one column (or, for Jacobi's
rotations, half of all pairs of columns) of all matrices of the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core import dtypes
from veery.lax import _arithmetic, _compare, _fill, _matrix as mx, _reduce, _shape, _slicing, _transcendental
from veery.lax._bitwise import bitwise_and
from veery.lax._sort import sort
from veery.lax._while import fori_loop, while_loop

_add, _sub, _mul, _div = _arithmetic.add, _arithmetic.sub, _arithmetic.mul, _arithmetic.div


def _column(x: Any, j: Any) -> Any:
    return _slicing.dynamic_slice_in_dim(x, j, 1, np.ndim(x) - 1)


def _row(x: Any, i: Any) -> Any:
    return _slicing.dynamic_slice_in_dim(x, i, 1, np.ndim(x) - 2)


def _with_column(x: Any, column: Any, j: Any) -> Any:
    return _slicing.dynamic_update_slice_in_dim(x, column, j, np.ndim(x) - 1)


def _with_row(x: Any, row: Any, i: Any) -> Any:
    return _slicing.dynamic_update_slice_in_dim(x, row, i, np.ndim(x) - 2)


def _sum(x: Any, axis: int) -> Any:
    """The sums along an axis (-1 or -2), which stays."""
    axis += np.ndim(x)
    return _shape.expand_dims(_reduce.reduce_sum(x, (axis,)), (axis,))


def _max(x: Any, axis: int) -> Any:
    axis += np.ndim(x)
    return _shape.expand_dims(_reduce.reduce_max(x, (axis,)), (axis,))


def _square(x: Any) -> Any:
    """The squares of the moduli."""
    if not mx.is_complex(x):
        return _mul(x, x)
    re, im = _arithmetic.real(x), _arithmetic.imag(x)
    return _add(_mul(re, re), _mul(im, im))


def _number(value: Any, like: Any) -> Any:
    return np.asarray(value, mx.dtype_of(like))


def _spread_to(x: Any, like: Any) -> Any:
    """x with its dimensions of size 1 repeated as in another array."""
    return _shape.broadcast_in_dim(x, np.shape(like), tuple(range(np.ndim(like))))


def _is_zero(x: Any) -> Any:
    return _compare.eq(x, _fill.full_like(x, 0))


def _quotient(x: Any, y: Any) -> Any:
    """x / y, 0 where y is.

    Complex numbers are divided by the modulus first: IREE divides by its square, which vanishes for small y.
    """
    size = _arithmetic.abs(y) if mx.is_complex(y) else y
    zero = _is_zero(size)
    divisor = mx.select(zero, _fill.full_like(size, 1), size)
    if not mx.is_complex(x):
        return mx.select(zero, _fill.full_like(x, 0), _div(x, divisor))
    out = _by_real(x, divisor)
    if mx.is_complex(y):
        out = _mul(out, mx.conj(_by_real(y, divisor)))
    return mx.select(zero, _fill.full_like(x, 0), out)


def _by_real(x: Any, y: Any) -> Any:
    """x / y for real y."""
    if not mx.is_complex(x):
        return _div(x, y)
    return _arithmetic.complex(_div(_arithmetic.real(x), y), _div(_arithmetic.imag(x), y))


def _times(x: Any, factor: Any) -> Any:
    """x times a factor that is real and broadcasts."""
    return _mul(x, mx.promoted(factor, x))


def _scaled(x: Any) -> tuple[Any, Any]:
    """Matrices divided by their largest modulus, so that squares neither overflow nor vanish; and that modulus."""
    largest = _max(_max(_arithmetic.abs(x), -1), -2)
    largest = mx.select(_is_zero(largest), _fill.full_like(largest, 1), largest)
    return _by_real(x, largest), largest


def cholesky(x: Any) -> Any:
    """Column j of L is what column j of x lacks of the columns before, over the root of its diagonal element."""
    n = np.shape(x)[-1]
    if 0 in np.shape(x):
        return x
    row, factor = mx.indices(_column(x, 0), -2), _fill.full_like(x, 0)

    def step(j: Any, factor: Any) -> Any:
        rest = _sub(_column(x, j), mx.matmul(factor, mx.adjoint(_row(factor, j))))
        pivot = _arithmetic.real(_row(rest, j)) if mx.is_complex(x) else _row(rest, j)
        root = mx.select(_compare.gt(pivot, _fill.full_like(pivot, 0)), _transcendental.sqrt(pivot), np.nan)
        column = _by_real(rest, _spread_to(root, rest))
        below = _compare.ge(row, _fill.full_like(row, j))
        return _with_column(factor, mx.select(below, column, 0), j)

    factor = fori_loop(0, n, step, factor)
    last = _slicing.slice(factor, (0,) * (np.ndim(x) - 2) + (n - 1, n - 1), np.shape(x))
    failed = _spread_to(_compare.ne(last, last), x)
    nan = _fill.full_like(x, complex(np.nan, np.nan) if mx.is_complex(x) else np.nan)
    return mx.tril(mx.select(failed, nan, factor))


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Any:
    """Substitution, one row of x after the other."""
    if 0 in np.shape(b):
        return b
    if not left_side:  # X op(A) = B is op(A)' X' = B'
        flags = {"lower": lower, "conjugate_a": conjugate_a, "unit_diagonal": unit_diagonal}
        return mx.transpose(triangular_solve(a, mx.transpose(b), left_side=True, transpose_a=not transpose_a, **flags))
    a = mx.conj(a) if conjugate_a else a
    a = mx.transpose(a) if transpose_a else a
    n = np.shape(a)[-1]
    forward = lower != transpose_a

    def step(trip: Any, x: Any) -> Any:
        i = trip if forward else _arithmetic.sub(_fill.full_like(trip, n - 1), trip)
        row = _row(a, i)
        value = _sub(_row(b, i), mx.matmul(row, x))
        return _with_row(x, value if unit_diagonal else _div(value, _column(row, i)), i)

    return fori_loop(0, n, step, _fill.full_like(b, 0))


def lu(x: Any) -> list[Any]:
    """Elimination by rank-one updates of the whole matrix, after the row with the largest element came up."""
    *batch, m, n = np.shape(x)
    k = min(m, n)
    order = _shape.broadcasted_iota(np.int32, (*batch, m, 1), len(batch))
    pivots = _fill.full((*batch, k, 1), 0, np.int32)
    if 0 in np.shape(x):
        return [x, _flat(pivots), _flat(order)]
    row, column = mx.indices(x, -2), mx.indices(x, -1)
    rows = mx.columns(row, 0, 1)

    def step(j: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        a, pivots, order = state
        sizes = _size(_column(a, j))
        sizes = mx.select(_compare.ge(rows, _fill.full_like(rows, j)), sizes, -1)
        best = _reduce.argmax(sizes, np.ndim(x) - 2, np.int32)
        pivot = _shape.expand_dims(best, (np.ndim(x) - 2,))
        a, order = _swap_rows(a, pivot, j), _swap_rows(order, pivot, j)
        below = _compare.gt(rows, _fill.full_like(rows, j))
        factors = mx.select(below, _quotient(_column(a, j), _spread_to(_column(_row(a, j), j), rows)), 0)
        right = _compare.gt(column, _fill.full_like(column, j))
        update = mx.matmul(factors, _row(a, j))
        a = _sub(a, mx.select(right, update, 0))
        here = _compare.eq(column, _fill.full_like(column, j))
        a = mx.select(_both(here, below), _spread_to(factors, a), a)
        return a, _with_row(pivots, pivot, j), order

    a, pivots, order = fori_loop(0, k, step, (x, pivots, order))
    return [a, _flat(pivots), _flat(order)]


def _size(x: Any) -> Any:
    """What LAPACK chooses pivots by: the sum of the moduli of the parts."""
    parts = (_arithmetic.real(x), _arithmetic.imag(x)) if mx.is_complex(x) else (x,)
    return _arithmetic.abs(x) if len(parts) == 1 else _add(*map(_arithmetic.abs, parts))


def _both(mask: Any, column: Any) -> Any:
    return bitwise_and(mask, _spread_to(column, mask))


def _flat(column: Any) -> Any:
    return _shape.squeeze(column, (np.ndim(column) - 1,))


def _swap_rows(x: Any, i: Any, j: Any) -> Any:
    """Rows i, an index for each matrix, and j, one for all, exchanged."""
    row = mx.indices(x, -2)
    is_i = _compare.eq(row, _spread_to(i, x))
    row_i = _sum(mx.select(is_i, x, 0), -2)
    row_j = _row(x, j)
    out = mx.select(is_i, _spread_to(row_j, x), x)
    return _with_row(out, row_i, j)


def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int) -> Any:
    batch, count = np.shape(pivots)[:-1], np.shape(pivots)[-1]
    order = _shape.broadcasted_iota(np.int32, (*batch, permutation_size, 1), len(batch))
    if 0 in np.shape(pivots) or not permutation_size:
        return _flat(order)
    pivots = _shape.expand_dims(pivots, (np.ndim(pivots),))
    return _flat(fori_loop(0, count, lambda j, order: _swap_rows(order, _row(pivots, j), j), order))


def reflections(x: Any, pivoting: bool) -> tuple[Any, Any, Any]:
    """Householder's reflections: R on and above the diagonal, their vectors below it; their factors; the columns."""
    *batch, m, n = np.shape(x)
    k = min(m, n)
    rows, column = mx.columns(mx.indices(x, -2), 0, 1), mx.indices(x, -1)
    order = _shape.broadcasted_iota(np.int32, (*batch, n, 1), len(batch))

    def step(j: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        a, taus, order = state
        if pivoting:
            rest = mx.select(_compare.ge(mx.indices(a, -2), _fill.full_like(column, j)), _square(a), 0)
            sizes = mx.transpose(_sum(rest, -2))
            sizes = mx.select(_compare.ge(mx.indices(sizes, -2), _fill.full_like(mx.indices(sizes, -2), j)), sizes, -1)
            best = _reduce.argmax(sizes, np.ndim(x) - 2, np.int32)
            pivot = _shape.expand_dims(best, (np.ndim(x) - 2,))
            a, order = mx.transpose(_swap_rows(mx.transpose(a), pivot, j)), _swap_rows(order, pivot, j)
        at, below = (compare(rows, _fill.full_like(rows, j)) for compare in (_compare.eq, _compare.gt))
        vector, tau, beta = _reflection(_column(a, j), at, below)
        update = mx.matmul(vector, _mul(mx.conj(tau), mx.matmul(mx.adjoint(vector), a)))
        a = _sub(a, mx.select(_compare.gt(column, _fill.full_like(column, j)), update, 0))
        new = mx.select(below, vector, mx.select(at, _spread_to(beta, vector), _column(a, j)))
        return _with_column(a, new, j), _with_row(taus, tau, j), order

    taus = _fill.full((*batch, k, 1), 0, mx.dtype_of(x))
    return fori_loop(0, k, step, (x, taus, order))


def _reflection(x: Any, at: Any, below: Any) -> tuple[Any, Any, Any]:
    """(v, tau, beta) with H = I - tau v v' unitary, v 1 at a place and 0 above it, H' x = beta there and 0 below."""
    alpha = _sum(mx.select(at, x, 0), -2)
    rest = _sum(mx.select(below, _square(x), 0), -2)
    real = _arithmetic.real(alpha) if mx.is_complex(x) else alpha
    norm = _transcendental.sqrt(_add(_square(alpha), rest))
    beta = mx.select(_compare.gt(real, _fill.full_like(real, 0)), _arithmetic.neg(norm), norm)
    done = _is_zero(rest)
    if mx.is_complex(x):
        done = bitwise_and(done, _is_zero(_arithmetic.imag(alpha)))
    beta = mx.promoted(mx.select(done, real, beta), x)
    tau = mx.select(done, _fill.full_like(beta, 0), _quotient(_sub(beta, alpha), beta))
    scale = _spread_to(_sub(alpha, beta), x)
    vector = mx.select(below, _quotient(x, scale), mx.select(at, _fill.full_like(x, 1), 0))
    return vector, tau, beta


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of H_1 H_2 ..., from the last factor to the first."""
    k = np.shape(taus)[-1]
    q = mx.eye_like(a)
    if 0 in np.shape(a) or not k:
        return q
    taus = _shape.expand_dims(taus, (np.ndim(taus),))
    rows = mx.columns(mx.indices(a, -2), 0, 1)

    def step(trip: Any, q: Any) -> Any:
        j = _sub(_fill.full_like(trip, k - 1), trip)
        at, below = (compare(rows, _fill.full_like(rows, j)) for compare in (_compare.eq, _compare.gt))
        vector = mx.select(below, _column(a, j), mx.select(at, _fill.full_like(_column(a, j), 1), 0))
        return _sub(q, mx.matmul(vector, _mul(_row(taus, j), mx.matmul(mx.adjoint(vector), q))))

    return fori_loop(0, k, step, q)


def qr(x: Any, *, full_matrices: bool, pivoting: bool) -> list[Any]:
    m, n = np.shape(x)[-2:]
    k = m if full_matrices else min(m, n)
    if 0 in np.shape(x):
        order = _shape.broadcasted_iota(np.int32, (*np.shape(x)[:-2], n), np.ndim(x) - 2)
        outs = [mx.eye_like(x, m, k), _fill.full((*np.shape(x)[:-2], k, n), 0, mx.dtype_of(x))]
        return outs + [order] * pivoting
    scaled, scale = _scaled(x)
    a, taus, order = reflections(scaled, pivoting)
    vectors = mx.columns(a, 0, min(k, n))
    if k > n:
        vectors = _shape.pad(vectors, _number(0, x), [(0, 0, 0)] * (np.ndim(x) - 1) + [(0, k - n, 0)])
    r = mx.triu(mx.rows(a, 0, k))
    return [householder_product(vectors, _flat(taus)), _times(r, scale), *[_flat(order)] * pivoting]


# Jacobi's rotations. All columns are split in two halves; each trip rotates column i of the one with column i of the
# other, then moves the columns around as players at a tournament, so that in a sweep each has met each other.

_SWEEPS = 20


def _rotations(p: Any, q: Any, b: Any) -> tuple[Any, Any, Any]:
    """(c, s, w) such that [[c, s], [-s w, c w]] makes the Hermitian [[p, b], [b', q]] diagonal."""
    size = _arithmetic.abs(b)
    phase = mx.conj(_quotient(b, size))
    zero = _is_zero(size)
    phase = mx.select(zero, _fill.full_like(phase, 1), phase)
    slope = _div(_sub(q, p), _mul(_number(2, p), mx.select(zero, _fill.full_like(size, 1), size)))
    root = _transcendental.sqrt(_add(_number(1, p), _mul(slope, slope)))
    sign = mx.select(_compare.ge(slope, _fill.full_like(slope, 0)), _fill.full_like(slope, 1), -1)
    tangent = mx.select(zero, _fill.full_like(slope, 0), _div(sign, _add(_arithmetic.abs(slope), root)))
    cosine = _transcendental.rsqrt(_add(_number(1, p), _mul(tangent, tangent)))
    return cosine, _mul(tangent, cosine), phase


def _rotate_columns(x: Any, rotations: tuple[Any, Any, Any]) -> Any:
    cosine, sine, phase = rotations
    half = np.shape(x)[-1] // 2
    left, right = mx.columns(x, 0, half), mx.columns(x, half, 2 * half)
    spread = lambda d: mx.as_rows(mx.promoted(d, x), left)
    right = _mul(right, spread(phase))
    first = _sub(_mul(left, spread(cosine)), _mul(right, spread(sine)))
    second = _add(_mul(left, spread(sine)), _mul(right, spread(cosine)))
    return _next_round(first, second)


def _next_round(top: Any, bottom: Any) -> Any:
    """The halves side by side: the first column stays, the others go round, to the right above, to the left below."""
    half = np.shape(top)[-1]
    if half == 1:
        return _shape.concatenate([top, bottom], np.ndim(top) - 1)
    parts = [
        *(mx.columns(top, 0, 1), mx.columns(bottom, 0, 1), mx.columns(top, 1, half - 1)),
        *(mx.columns(bottom, 1, half), mx.columns(top, half - 1, half)),
    ]
    return _shape.concatenate([part for part in parts if np.shape(part)[-1]], np.ndim(top) - 1)


def _sweeps(state: tuple[Any, ...], size: int, step: Callable[..., Any], limit: Any) -> tuple[Any, ...]:
    """Repeat sweeps of steps until what they found off the diagonal is below a limit.

    `step` takes and gives the state and the largest that is off the diagonal so far in the sweep.
    """
    none = np.zeros((), mx.dtype_of(limit))

    def more(carry: tuple[Any, ...]) -> Any:
        sweep, off, _ = carry
        return bitwise_and(_compare.lt(sweep, np.int32(_SWEEPS)), _compare.gt(off, limit))

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        sweep, _, state = carry
        off, state = fori_loop(0, size - 1, lambda _, pair: step(*pair), (none, state))
        return _add(sweep, np.int32(1)), off, state

    return while_loop(more, body, (np.int32(0), np.asarray(np.inf, mx.dtype_of(limit)), state))[2]


def _even(x: Any, also_rows: bool) -> Any:
    """Matrices with a column of zeros more if their number of columns is odd."""
    odd = np.shape(x)[-1] % 2
    padding = [(0, 0, 0)] * (np.ndim(x) - 2) + [(0, odd if also_rows else 0, 0), (0, odd, 0)]
    return _shape.pad(x, _number(0, x), padding) if odd else x


def _largest(x: Any) -> Any:
    return _reduce.reduce_max(x, tuple(range(np.ndim(x))))


def _epsilon(x: Any) -> Any:
    return np.asarray(dtypes.finfo(mx.real_dtype(x)).eps, mx.real_dtype(x))


def eigh(x: Any, *, lower: bool) -> list[Any]:
    """Jacobi's method: rotations from both sides until what is off the diagonal has vanished."""
    n = np.shape(x)[-1]
    real = lambda y: _arithmetic.real(y) if mx.is_complex(y) else y
    if n == 0 or 0 in np.shape(x):
        return [x, real(mx.diagonal(x))]
    x = mx.tril(x) if lower else mx.triu(x)
    diagonal = mx.on_diagonal(mx.promoted(real(mx.diagonal(x)), x))
    x = _add(mx.triangle(x, lower, True), _add(mx.adjoint(mx.triangle(x, lower, True)), diagonal))
    a, scale = _scaled(x)
    a = _even(a, True)
    size = np.shape(a)[-1]
    vectors = mx.columns(mx.rows(mx.eye_like(a), 0, n), 0, size)

    def step(off: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        a, vectors = state
        d, half = real(mx.diagonal(a)), size // 2
        corner = mx.diagonal(mx.columns(mx.rows(a, 0, half), half, size))
        part = lambda start, stop: _slicing.slice_in_dim(d, start, stop, axis=np.ndim(d) - 1)
        rotations = _rotations(part(0, half), part(half, size), corner)
        a = mx.adjoint(_rotate_columns(mx.adjoint(_rotate_columns(a, rotations)), rotations))
        return _arithmetic.max(off, _largest(_arithmetic.abs(corner))), (a, _rotate_columns(vectors, rotations))

    limit = _mul(_epsilon(x), _number(4, _epsilon(x)))
    a, vectors = _sweeps((a, vectors), size, step, limit)
    values = _slicing.slice_in_dim(real(mx.diagonal(a)), 0, n, axis=np.ndim(x) - 2)
    values = _mul(values, mx.promoted(_shape.squeeze(scale, (np.ndim(x) - 1,)), values))
    return _ordered(mx.columns(vectors, 0, n), values)


def _ordered(vectors: Any, values: Any) -> list[Any]:
    """Columns in the ascending order of their values, and those."""
    keys = mx.as_rows(values, vectors)
    _, vectors = sort((keys, vectors), dimension=np.ndim(vectors) - 1, num_keys=1)
    return [vectors, sort(values, dimension=np.ndim(values) - 1)]


def svd(x: Any, *, full_matrices: bool, compute_uv: bool) -> list[Any]:
    """One-sided Jacobi: rotations of the columns of R = Q' X until they are orthogonal; their norms are the values."""
    m, n = np.shape(x)[-2:]
    if m < n:
        s, *vectors = svd(mx.adjoint(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return [s, *(mx.adjoint(v) for v in reversed(vectors))]
    batch = np.shape(x)[:-2]
    if 0 in np.shape(x):
        s = _fill.full((*batch, n), 0, mx.real_dtype(x))
        return [s, mx.eye_like(x, m, m if full_matrices else n), mx.eye_like(x, n, n)][: 3 if compute_uv else 1]
    a, scale = _scaled(x)
    if m > n:
        q, a = qr(a, full_matrices=full_matrices and compute_uv, pivoting=False)
        a = mx.rows(a, 0, n)
    a = _even(a, False)
    size = np.shape(a)[-1]
    v = mx.columns(mx.rows(_even(mx.eye_like(a, n, n), False), 0, n), 0, size)

    def step(off: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        a, v = state
        left, right = mx.columns(a, 0, size // 2), mx.columns(a, size // 2, size)
        norm = lambda y: _reduce.reduce_sum(_square(y), (np.ndim(y) - 2,))
        p, q = norm(left), norm(right)
        product = _reduce.reduce_sum(_mul(mx.conj(left), right), (np.ndim(left) - 2,))
        cosines = _quotient(_arithmetic.abs(product), _transcendental.sqrt(_mul(p, q)))
        rotations = _rotations(p, q, product)
        return _arithmetic.max(off, _largest(cosines)), (_rotate_columns(a, rotations), _rotate_columns(v, rotations))

    limit = _mul(_epsilon(x), _number(n**0.5, _epsilon(x)))
    a, v = _sweeps((a, v), size, step, limit)
    a, v = mx.columns(a, 0, n), mx.columns(v, 0, n)
    norms = _transcendental.sqrt(_reduce.reduce_sum(_square(a), (np.ndim(a) - 2,)))
    descending, order = _arithmetic.neg(norms), np.ndim(a) - 1
    s = _arithmetic.neg(sort(descending, dimension=np.ndim(norms) - 1))
    s = _mul(s, _shape.squeeze(scale, (np.ndim(x) - 1,)))
    if not compute_uv:
        return [s]
    _, a, v = sort((mx.as_rows(descending, a), a, v), dimension=order, num_keys=1)
    # The columns of `a` are orthogonal; Householder's reflections make a full basis of them, also where they vanish.
    u, r = qr(a, full_matrices=False, pivoting=False)
    d = mx.diagonal(r)
    phase = mx.select(_is_zero(d), _fill.full_like(d, 1), _quotient(d, _arithmetic.abs(d)))
    u = _mul(u, mx.as_rows(phase, u))
    if m > n:
        first = mx.matmul(mx.columns(q, 0, n), u)
        u = _shape.concatenate([first, mx.columns(q, n, m)], np.ndim(x) - 1) if full_matrices else first
    return [s, u, mx.adjoint(v)]
