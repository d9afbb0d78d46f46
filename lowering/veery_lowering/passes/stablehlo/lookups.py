"""Compute columns before values are looked up in them.

Problem: a gather or a reverse reads its operand at computed places. Where IREE 3.13 fuses a column into it (a part
whose elements are not adjacent), the code for the place is left unfinished (`LLVM Translation failed for operation:
builtin.unrealized_conversion_cast`). Fix: a barrier behind such columns. Test: tests/lowering/test_iree_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import maker, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand

_LOOKS_UP = frozenset(("stablehlo.gather", "stablehlo.reverse"))
_FOLDED = frozenset(("stablehlo.reshape", "stablehlo.transpose", "stablehlo.bitcast_convert"))
_PARTS = frozenset(("stablehlo.slice", "stablehlo.dynamic_slice"))


def compute_columns(module: Any) -> None:
    """Put barriers behind columns in which values are looked up, in place."""
    for op in operations(module):
        if op.name in _LOOKS_UP and _is_column(op.operands[0]):
            bar_operand(op, 0)


def _is_column(x: Any) -> bool:
    """Whether a value is a part of another along whose last axis one element is taken, by way of its shape or type."""
    while maker(x) in _FOLDED:
        x = x.owner.operands[0]
    if maker(x) not in _PARTS:
        return False
    whole, part = (hlo.shape_of(value) for value in (x.owner.operands[0], x))
    last: Callable[[Any], int] = lambda shape: max((i for i, n in enumerate(shape) if n != 1), default=0)
    return bool(last(part) != last(whole))
