"""Conversions to bfloat16 in the form that IREE compiles.

IREE 3.13 makes one conversion of two, of an integer to float32 and of that to bfloat16. Processors without instructions
for bfloat16 have code for the second alone: `undefined symbol: __truncsfbf2`. So what is converted is rounded before.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations

_FOLDED = frozenset(
    f"stablehlo.{name}" for name in "reshape transpose broadcast_in_dim slice optimization_barrier".split()
)
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def round_integers(module: Any) -> None:
    """Round what becomes bfloat16 and was an integer to the precision of that first, in place."""
    for op in operations(module):
        if op.name == "stablehlo.convert" and hlo.dtype_of(op.results[0]) == _BFLOAT16 and _was_integer(op.operands[0]):
            with op.location, ir.InsertionPoint(op):
                number = hlo.convert(op.operands[0], np.float32)
                op.operands[0] = hlo.reduce_precision(number, exponent_bits=8, mantissa_bits=7)


def _was_integer(x: Any) -> bool:
    while hlo.dtype_of(x) == np.float32 and not isinstance(x.owner, ir.Block) and x.owner.name in _FOLDED:
        x = x.owner.operands[0]
    if hlo.dtype_of(x) == np.float32 and not isinstance(x.owner, ir.Block) and x.owner.name == "stablehlo.convert":
        x = x.owner.operands[0]
    dtype = hlo.dtype_of(x)
    return bool(dtype.kind in "iub" or dtype.name in ("int2", "int4", "uint2", "uint4"))
