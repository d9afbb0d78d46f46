"""Linear algebra: LAPACK by a call of the host on the CPU; loops elsewhere and in saved programs.

IREE compiles neither stablehlo.cholesky nor stablehlo.triangular_solve, and StableHLO has no other factorisations. A
call of the host costs 3 to 6 us on the CPU, each trip of a loop 2 us and more.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.composition import composed, on_host
from veery_lowering.errors import LoweringError
from veery_lowering.registry import Context, Value, rule

_COMPOSED = (
    *("cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation", "qr", "householder_product", "eigh", "svd"),
)
for _name in _COMPOSED:
    rule(_name, target="cpu")(on_host)
    rule(_name)(composed)

rule("eig", target="cpu")(on_host)


@rule("eig")
def _eig(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    raise LoweringError(
        "eig: the eigenvalues of general matrices are computed by LAPACK on the host: in programs for the CPU that are "
        "not saved, as in JAX."
    )
