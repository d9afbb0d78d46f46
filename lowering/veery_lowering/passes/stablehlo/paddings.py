"""Keep two paddings of equal values apart.

Problem: IREE 3.13 makes one padding of two, and forgets what either puts between elements. Example: in
`pad(pad(x, interior=1), low=1)`, which gradients of slices with steps contain, the zeros between were missing. Fix: a
barrier between the two, also where between them is an operation that does nothing. Test:
tests/lowering/test_slicing.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import maker, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand
from veery_lowering.stablehlo import Value

# What may be left out where the type stays.
_MOVES = frozenset(
    f"stablehlo.{name}" for name in "broadcast_in_dim concatenate convert reshape reverse slice transpose".split()
)


def separate_paddings(module: Any) -> None:
    """Put barriers between two paddings of which one is between elements, in place."""
    for op in operations(module):
        if op.name == "stablehlo.pad":
            inner = _behind_what_does_nothing(op.operands[0])
            if maker(inner) == op.name and any(any(each.attributes["interior_padding"]) for each in (op, inner.owner)):
                bar_operand(op, 0)


def _behind_what_does_nothing(x: Value) -> Value:
    while maker(x) in _MOVES and len(x.owner.operands) == 1 and x.owner.operands[0].type == x.type:
        x = x.owner.operands[0]
    return x
