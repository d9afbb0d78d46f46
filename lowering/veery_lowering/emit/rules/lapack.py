"""What LAPACK's routines are called for, and with what, in programs for the CPU that are not saved.

LAPACK has the columns of a matrix in sequence, arrays have rows: as it sees them, matrices are transposed. Where that
changes what it computes they are transposed before and behind it. A matrix on which an algorithm fails gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.composition import composed
from veery_lowering.emit.registry import Context, Value
from veery_lowering.emit.routines import call, letter_of
from veery_lowering.kernels import INFO, Step

Shape = tuple[int, ...]

_BLOCK = 64  # columns, which are more than LAPACK's blocks have


def _transposed(x: Value) -> Value:
    """Matrices with their columns in sequence, as LAPACK has them."""
    *batch, rows, columns = range(len(hlo.shape_of(x)))
    return hlo.transpose(x, [*batch, columns, rows])


def _count(x: Value) -> int:
    return math.prod(hlo.shape_of(x)[:-2])


def _nan(dtype: np.dtype) -> Any:
    return [math.nan, math.nan] if dtype.kind == "c" else math.nan


def _copied(letter: str, size: int, source: str, target: str) -> Step:
    return [f"{letter}lacpy", "A", size, 1, source, size, target, size]


def _filled(letter: str, size: int, value: Any, target: str) -> Step:
    return [f"{letter}laset", "A", size, 1, value, value, target, size]


def _cholesky(ctx: Context, x: Value) -> list[Value]:
    shape, dtype = hlo.shape_of(x), hlo.dtype_of(x)
    n, letter, nan = shape[-1], letter_of(dtype), _nan(dtype)
    failed = [[f"{letter}laset", "U", n, n, nan, nan, "%1", n]]
    # The rows of the lower triangle are the columns of the upper one. LAPACK goes on where a NaN was given, which comes
    # to the last element of the diagonal.
    last = [f"{letter}lange", "M", 1, 1, f"%1+{n * n - 1}", 1, INFO]
    steps = [
        [f"{letter}laset", "L", n, n, 0.0, 0.0, "%1", n],
        [f"{letter}lacpy", "U", n, n, "%0", n, "%1", n],
        [f"{letter}potrf", "U", n, "%1", n, INFO],
        ["if", ["failed"], failed, [["if", ["nan", last], failed, []]]],
    ]
    return call(ctx, [x], [(shape, dtype)], steps, count=_count(x))


def _triangular_solve(
    ctx: Context,
    a: Value,
    b: Value,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> list[Value]:
    *_, rows, columns = hlo.shape_of(b)
    n, dtype = hlo.shape_of(a)[-1], hlo.dtype_of(b)
    letter, size = letter_of(dtype), rows * columns
    if conjugate_a and not transpose_a:
        a = _conjugate(a)
    side, triangle, unit = "R" if left_side else "L", "U" if lower else "L", "U" if unit_diagonal else "N"
    operation = "N" if not transpose_a else "C" if conjugate_a else "T"
    steps = [_copied(letter, size, "%1", "%2")]
    if size == n and operation in _OTHER_SIDE:  # one right side
        operation = operation if not left_side else _OTHER_SIDE[operation]
        steps += [[f"{letter}trsv", triangle, operation, unit, n, "%0", n, "%2", 1]]
    else:
        steps += [[f"{letter}trsm", side, triangle, operation, unit, columns, rows, 1.0, "%0", n, "%2", columns]]
    return call(ctx, [a, b], [(hlo.shape_of(b), dtype)], steps, count=_count(b))


_OTHER_SIDE = {"N": "T", "T": "N"}


def _conjugate(x: Value) -> Value:
    return hlo.conjugate(x) if hlo.dtype_of(x).kind == "c" else x


def _lu(ctx: Context, x: Value) -> list[Value]:
    *batch, m, n = hlo.shape_of(x)
    dtype, k = hlo.dtype_of(x), min(m, n)
    letter = letter_of(dtype)
    steps = [
        _copied(letter, m * n, "%0", "%1"),
        [f"{letter}getrf", m, n, "%1", m, "%2", INFO],
        ["at least", 1, k, "%2"],  # of NaN OpenBLAS may give others
        *_exchanged(m, k, "%2", "%3"),
        ["add", -1, k, "%2"],
    ]
    results = [((*batch, n, m), dtype), ((*batch, k), np.int32), ((*batch, m), np.int32)]
    factors, pivots, permutation = call(ctx, [_transposed(x)], results, steps, count=_count(x))
    return [_transposed(factors), pivots, permutation]


def _exchanged(m: int, k: int, pivots: str, target: str) -> list[Step]:
    """Places after each was exchanged with another in turn: as float32, which LAPACK only moves."""
    return [["places", m, target], ["slaswp", 1, target, m, 1, k, pivots, 1]]


def _permutation(ctx: Context, pivots: Value, *, permutation_size: int) -> list[Value]:
    *batch, k = hlo.shape_of(pivots)
    least, most, one = (hlo.full(x, (*batch, k), np.int32) for x in (0, permutation_size - 1, 1))
    counted = hlo.add(hlo.clamp(least, pivots, most), one)
    steps = _exchanged(permutation_size, k, "%0", "%1")
    return call(ctx, [counted], [((*batch, permutation_size), np.int32)], steps, count=math.prod(batch))


def _lu_solve(
    ctx: Context, factors: Value, pivots: Value, permutation: Value, b: Value, *, transposed: bool
) -> list[Value]:
    *_, n, columns = hlo.shape_of(b)
    dtype = hlo.dtype_of(b)
    letter = letter_of(dtype)
    order = [_copied("s", n, "%1", "%4"), ["add", 1, n, "%4"]]
    moved = [[f"{letter}lapmt", int(not transposed), columns, n, "%3", columns, "%4"]]
    triangles = [("U", "N"), ("L", "U")] if transposed else [("L", "U"), ("U", "N")]
    solved = [_substituted(letter, triangle, unit, transposed, columns, n) for triangle, unit in triangles]
    steps = [_copied(letter, n * columns, "%2", "%3"), *order, *(solved + moved if transposed else moved + solved)]
    operands = [_transposed(factors), permutation, b]
    return call(ctx, operands, [(hlo.shape_of(b), dtype)], steps, [(n, np.int32)], _count(b))


def _substituted(letter: str, triangle: str, unit: str, transposed: bool, columns: int, n: int) -> Step:
    """With a triangle of what LAPACK's factors are; of several right sides it sees the rows as columns."""
    if columns == 1:
        return [f"{letter}trsv", triangle, "T" if transposed else "N", unit, n, "%0", n, "%3", 1]
    return [
        f"{letter}trsm", "R", triangle, "N" if transposed else "T", unit, columns, n, 1.0, "%0", n, "%3", columns,
    ]  # fmt: skip


def _qr(ctx: Context, x: Value, *, full_matrices: bool, pivoting: bool) -> list[Value]:
    *batch, m, n = hlo.shape_of(x)
    dtype, size = hlo.dtype_of(x), min(m, n)
    k, letter = m if full_matrices else size, letter_of(dtype)
    space = _BLOCK * max(n, k)
    # %0 is read, %1 and %2 are results; %3 has the reflections, %4 their factors
    upper = [
        _copied(letter, m * n, "%0", "%3"),
        [f"{letter}geqrf", m, n, "%3", m, "%4", "%5", space, INFO],
        [f"{letter}laset", "L", k, n, 0.0, 0.0, "%2", k],
        [f"{letter}lacpy", "U", k, n, "%3", m, "%2", k],
    ]
    unitary = [
        [f"{letter}lacpy", "A", m, size, "%3", m, "%1", m],
        _product_of_reflections(letter, m, k, size, "%1", "%4", "%5", space),
    ]
    results = [((*batch, k, m), dtype), ((*batch, n, k), dtype)]
    work = [(m * n, dtype), (size, dtype), (space, dtype)]
    q, r = call(ctx, [_transposed(x)], results, upper + unitary, work, _count(x), without_first=upper)
    return [_transposed(q), _transposed(r)]


def _product_of_reflections(
    letter: str, m: int, k: int, size: int, target: str, taus: str, work: str, space: int
) -> Step:
    name = "ungqr" if letter in "cz" else "orgqr"
    return [f"{letter}{name}", m, k, size, target, m, taus, work, space, INFO]


def _householder_product(ctx: Context, a: Value, taus: Value) -> list[Value]:
    *batch, m, k = hlo.shape_of(a)
    dtype, size = hlo.dtype_of(a), hlo.shape_of(taus)[-1]
    letter, space = letter_of(dtype), _BLOCK * k
    steps = [
        _copied(letter, m * k, "%0", "%2"),
        _product_of_reflections(letter, m, k, size, "%2", "%1", "%3", space),
    ]
    (q,) = call(ctx, [_transposed(a), taus], [((*batch, k, m), dtype)], steps, [(space, dtype)], _count(a))
    return [_transposed(q)]


def _eigh(ctx: Context, x: Value, *, lower: bool) -> list[Value]:
    *batch, n, _ = hlo.shape_of(x)
    dtype = hlo.dtype_of(x)
    real, letter = np.dtype(dtype.type().real.dtype), letter_of(dtype)
    is_complex = dtype.kind == "c"
    triangle = "U" if lower else "L"  # as LAPACK sees the matrix, which if it is complex is the conjugate one
    # As large as LAPACK asks for at most, for all its ways to go: 1 + 6n + 2n^2 numbers, complex ones 2n + n^2.
    sizes = [(1 + _BLOCK * n + 2 * n * n, dtype)]
    sizes += [(1 + 5 * n + 2 * n * n, real)] if is_complex else []
    sizes += [(3 + 5 * n, np.dtype(np.int32))]
    space = [argument for k, (size, _) in enumerate(sizes) for argument in (f"%{3 + k}", size)]
    norm, factor = ("lanhe", "heevd") if is_complex else ("lansy", "syevd")
    failed = [
        _filled(letter, n * n, _nan(dtype), "%1"),
        _filled(letter_of(real), n, math.nan, "%2"),
    ]
    ways = [
        [
            _copied(letter, n * n, "%0", "%1"),
            [f"{letter}{factor}", job, triangle, n, "%1", n, "%2", *space, INFO],
            ["if", ["failed"], failed, []],
        ]
        for job in "VN"
    ]
    finite = ["finite", [f"{letter}{norm}", "M", triangle, n, "%0", n, INFO]]
    both, alone = ([["if", finite, way, failed]] for way in ways)
    results = [((*batch, n, n), dtype), ((*batch, n), real)]
    vectors, values = call(ctx, [x], results, both, sizes, _count(x), without_first=alone)
    return [_conjugate(_transposed(vectors)), values]


def _svd(ctx: Context, x: Value, *, full_matrices: bool, compute_uv: bool) -> list[Value]:
    *batch, m, n = hlo.shape_of(x)
    if m > n:  # 1000x30 as LAPACK's columns take half of the time that they take as its rows
        values, *factors = _svd(ctx, _transposed(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return [values, *map(_transposed, reversed(factors))]
    dtype, k, most = hlo.dtype_of(x), min(m, n), max(m, n)
    real, letter = np.dtype(dtype.type().real.dtype), letter_of(dtype)
    rows, columns = (m, n) if full_matrices else (k, k)
    # As LAPACK sees it the matrix is transposed, and so are the factors, which change places: those are the ones that
    # are wanted. %0 is read, %1 to %3 are results.
    job = "N" if not compute_uv else "A" if full_matrices else "S"
    results = [((*batch, k), real)]
    factors = [((*batch, m, rows), dtype), ((*batch, columns, n), dtype)] if compute_uv else []
    work = 2 + len(factors)
    # Enough for blocks of 64 columns: LAPACK's own formulas have 4k^2 + 7k and what the steps before need.
    size = 4 * k * k + 7 * k + _BLOCK * (2 * k + most) + (rows * rows + columns * columns)
    sizes = [(m * n, dtype), (size, dtype)]
    if dtype.kind == "c":
        sizes += [(max(5 * k * k + 7 * k, 2 * most * k + 2 * k * k + k), real)]
    sizes += [(8 * k, np.dtype(np.int32))]
    copy, space, *rest = (f"%{work + i}" for i in range(len(sizes)))
    u, vh = ("%2", "%3") if compute_uv else (INFO, INFO)
    failed = [_filled(letter_of(real), k, math.nan, "%1")]
    if compute_uv:
        failed += [_filled(letter, m * rows, _nan(dtype), u), _filled(letter, columns * n, _nan(dtype), vh)]
    steps = [
        _copied(letter, m * n, "%0", copy),
        [f"{letter}gesdd", job, n, m, copy, n, "%1", vh, n, u, rows, space, size, *rest, INFO],
        ["if", ["failed"], failed, []],
    ]
    finite = ["finite", [f"{letter}lange", "M", n, m, "%0", n, INFO]]
    return call(ctx, [x], [*results, *factors], [["if", finite, steps, failed]], sizes, _count(x))


BY_ROUTINES: Mapping[str, Callable[..., list[Value]]] = {
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
    "lu_solve": _lu_solve,
    "qr": _qr,
    "householder_product": _householder_product,
    "eigh": _eigh,
    "svd": _svd,
    "determinant": composed,  # of the factors
}
