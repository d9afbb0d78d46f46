"""Linear algebra: LAPACK's routines in dispatches; loops in saved programs, and of small matrices in loops.

IREE compiles neither stablehlo.cholesky nor stablehlo.triangular_solve, and StableHLO has no other factorisations.
Programs for the CPU call LAPACK (`lapack.py`); what no routine is called for, and other dtypes, are calls of the host,
which cost 10 to 20 us. Within a loop a call would keep that from being a kernel: 300 steps of a Kalman filter that
solves 2x2 systems take 630 ms with calls of the host, 0.07 ms without. So there what is small is a loop in the loop. us
a trip of eigenvalues and vectors of 3x3, 6x6, 10x10 and 16x16: 1.0, 2.9, 9.0, 28; singular values and vectors 0.8, 2.0,
6.0, 13; of 16x16, 24x24, 32x32, 48x48 and 64x64 Cholesky factors 2.0, 3.8, 6.2, 9.4, 17; solutions of triangular
systems 1.3, 2.0, 2.1, 4.2, 5.3; inverses 3.3, 7.1, 11, 62, 137; QR 2.1, 5.5, 10, 30, 101. What is a call of LAPACK and
little else is not compiled (see veery._eager.libraries).

On GPUs a trip of a loop that is no kernel takes 60 to 200 us, and IREE has no library there: on an H200 the factor of
one matrix of 200x200 took 100 ms by such loops, its inverse 920.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veery_lowering.emit.composition import composed, on_host
from veery_lowering.emit.registry import BY_IREE, Context, Value, rule
from veery_lowering.emit.routines import has_routines
from veery_lowering.emit.rules.lapack import BY_ROUTINES
from veery_lowering.errors import LoweringError

_COMPOSED = (
    *("cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation", "qr", "householder_product", "eigh", "svd"),
    *("determinant", "ormqr", "hessenberg", "tridiagonal", "tridiagonal_solve", "lu_solve"),
)
# The cubes of the sides of all matrices, and the elements of an array, such as right sides. A loop that calls LAPACK is
# no kernel: us a trip, in a kernel and so, of inverses of 16x16, 32x32 and 48x48 2.3 and 6.8, 12 and 12, 47 and 22, of
# QR of 48x48 and 64x64 31 and 54, 98 and 81, of Cholesky factors of 96x96 49 and 62.
_MOST_WORK = 48**3
_EXCHANGING = ("lu", "lu_pivots_to_permutation", "determinant")
_MOST_WORK_OF = {
    "cholesky": 100**3, "triangular_solve": 100**3, "lu_solve": 64**3, **dict.fromkeys(_EXCHANGING, 40**3),
}  # fmt: skip
_MOST_HELD = 1 << 14
# Elements of matrices whose eigenvalues or singular values a kernel iterates for: with more LAPACK's, which are faster
# each, are worth the call. 16 matrices of 16x16 take 290 us there, 600 in a kernel.
_ITERATED = frozenset(("eigh", "svd"))
_MOST_ITERATED, _LARGEST_ITERATED = 512, 16


def _by_kernel_or_lapack(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    if _is_composed(ctx):
        return composed(ctx, *operands, **params)
    if ctx.primitive in BY_ROUTINES and has_routines(ctx) and not params.get("pivoting"):
        return BY_ROUTINES[ctx.primitive](ctx, *operands, **params)
    return on_host(ctx, *operands, **params)


def _is_composed(ctx: Context) -> bool:
    """Whether it is computed by a loop in a loop, which may become a kernel."""
    if not (ctx.emitter.in_loop() and all(map(_is_held, ctx.avals_in))):
        return False
    shape = ctx.avals_in[0].shape
    if ctx.primitive == "lu_pivots_to_permutation":  # of vectors
        shape = (*shape, 1)
    return _is_quick(ctx.primitive, shape)


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
        rule(_name, target=_target)(_by_kernel_or_lapack)
    for _name in ("eig", "schur"):
        rule(_name, target=_target)(on_host)


@rule("schur")
@rule("eig")
def _eigenvalues(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    raise LoweringError(
        f"{ctx.primitive}: eigenvalues and Schur forms of general matrices are computed by LAPACK on the host: in "
        "programs that are not saved."
    )
