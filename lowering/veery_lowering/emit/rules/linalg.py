"""Linear algebra: LAPACK by a call of the host; loops in saved programs, and of small matrices.

IREE compiles neither stablehlo.cholesky nor stablehlo.triangular_solve, and StableHLO has no other factorisations. A
call of the host costs 10 to 20 us on the CPU, each trip of a loop 2 us and more unless the loop is a kernel, which it
is where the matrix is small. Within a loop a call would keep that from being a kernel, too: 300 steps of a Kalman
filter that solves 2x2 systems take 630 ms with calls, 0.07 ms without. On the host and in a kernel a trip takes of 3x3,
6x6, 10x10 and 16x16 (us): eigenvalues and vectors 19, 21, 25, 35 and 1.0, 2.9, 9.0, 28; singular values and vectors 21,
24, 30, 43 and 0.8, 2.0, 6.0, 13; of 16x16, 24x24, 32x32, 48x48 and 64x64 (us, on a busy machine) Cholesky factors 34,
34, 82, 82, 172 and 2.0, 3.8, 6.2, 9.4, 17 (128x128: 220 and 160); solutions of triangular systems 36, 23, 99, 102, 88
and 1.3, 2.0, 2.1, 4.2, 5.3; inverses 103, 95, 159, 188, 311 and 3.3, 7.1, 11, 62, 137; QR 60, 58, 67, 127, 174 and 2.1,
5.5, 10, 30, 101. What is a call of LAPACK and little else is not compiled (see veery._eager.libraries).

On GPUs a trip of a loop that is no kernel takes 60 to 200 us, and IREE has no library there: on an H200 the factor of
one matrix of 200x200 took 100 ms by such loops, its inverse 920.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veery_lowering.emit.composition import composed, on_host
from veery_lowering.emit.registry import BY_IREE, Context, Value, rule
from veery_lowering.errors import LoweringError

_COMPOSED = (
    *("cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation", "qr", "householder_product", "eigh", "svd"),
    *("determinant", "ormqr", "hessenberg", "tridiagonal", "tridiagonal_solve", "lu_solve"),
)
# The cubes of the sides of all matrices, and the elements of an array, such as right sides.
_MOST_WORK = 64**3
_MOST_WORK_OF = {"cholesky": 128**3, "triangular_solve": 128**3, "lu_solve": 128**3}
_MOST_HELD = 1 << 14
# Sides of what is composed outside of loops, too: what ends without iterations, of which each kernel takes 300 ms to
# compile, and if it exchanges rows in stacks of matrices 1000. A solution of 20x20 takes 94 us by the host and 12 in a
# kernel, of 64x64 98 and 140, a factor of 32x32 36 and 11, QR of 40x6 30 and 8.
_EXCHANGING = frozenset(("lu", "lu_pivots_to_permutation", "determinant"))
_DIRECT = _EXCHANGING | frozenset(("cholesky", "triangular_solve", "lu_solve", "qr", "householder_product"))
_LARGEST_DIRECT = 48
# Elements of matrices whose eigenvalues or singular values a kernel iterates for: with more LAPACK's, which are faster
# each, are worth the call. 16 matrices of 16x16 take 290 us there, 600 in a kernel.
_ITERATED = frozenset(("eigh", "svd"))
_MOST_ITERATED, _LARGEST_ITERATED = 512, 16


def _by_kernel_or_host(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    return (composed if _is_composed(ctx) else on_host)(ctx, *operands, **params)


def _is_composed(ctx: Context) -> bool:
    """Whether a kernel computes it."""
    if not all(map(_is_held, ctx.avals_in)):
        return False
    shape = ctx.avals_in[0].shape
    if ctx.primitive == "lu_pivots_to_permutation":  # of vectors
        shape = (*shape, 1)
    outside = ctx.target == "cpu" and ctx.emitter.kernels  # the kernels of GPUs are loops alone
    wanted = ctx.emitter.in_loop() or (outside and _is_direct(ctx.primitive, shape))
    return wanted and _is_quick(ctx.primitive, shape)


def _is_direct(primitive: str, shape: Sequence[int]) -> bool:
    """Whether a kernel outside of loops is worth its compilation."""
    is_one = primitive not in _EXCHANGING or len(shape) == 2
    return primitive in _DIRECT and is_one and all(n <= _LARGEST_DIRECT for n in shape[-2:])


def _is_quick(primitive: str, shape: Sequence[int]) -> bool:
    """Whether a kernel has done with a matrix, or several, sooner than a call of the host."""
    side = max(shape[-2:])
    if primitive in _ITERATED:
        return side <= _LARGEST_ITERATED and math.prod(shape) <= _MOST_ITERATED
    return math.prod(shape[:-2]) * side**3 <= _MOST_WORK_OF.get(primitive, _MOST_WORK)


def _is_held(aval: Any) -> bool:
    """Whether a kernel can hold an array, such as many right sides."""
    dtype, shape = aval.dtype, aval.shape
    known = all(isinstance(n, int) for n in shape) and math.prod(shape) <= _MOST_HELD
    return known and dtype.kind in "fi" and dtype.itemsize >= 4


for _name in _COMPOSED:
    rule(_name)(composed)

for _target in BY_IREE:
    for _name in _COMPOSED:
        rule(_name, target=_target)(_by_kernel_or_host)
    for _name in ("eig", "schur"):
        rule(_name, target=_target)(on_host)


@rule("schur")
@rule("eig")
def _eigenvalues(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    raise LoweringError(
        f"{ctx.primitive}: eigenvalues and Schur forms of general matrices are computed by LAPACK on the host: in "
        "programs that are not saved."
    )
