"""Keep two paddings of equal values apart.

Problem: IREE 3.13 makes one padding of two, and forgets what either puts between elements. Example: in
`pad(pad(x, interior=1), low=1)`, which gradients of slices with steps contain, the zeros between were missing. Fix: a
barrier between the two. Test: tests/lowering/test_slicing.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import maker, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand


def separate_paddings(module: Any) -> None:
    """Put barriers between two paddings of which one is between elements, in place."""
    for op in operations(module):
        if op.name == "stablehlo.pad" and maker(op.operands[0]) == op.name:
            if any(any(each.attributes["interior_padding"]) for each in (op, op.operands[0].owner)):
                bar_operand(op, 0)
