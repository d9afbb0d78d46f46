"""Slices with steps, in the form that IREE compiles rightly.

IREE 3.13 computes a value that is wider than what it is made of, float16 as float32 or a mask as numbers, in the
dispatch that uses it; where that fits into a vector it forgets the steps: `x.astype(float32)[::2]` was the first
elements. And it does not compile such slices together with what looks values up, or joins them. So what is sliced in
steps is computed before, and the slice before all but elementwise expressions.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.barriers import bar_operand, behind_barrier
from veery_lowering.crossings import is_elementwise
from veery_lowering.mlir import base_name, maker, operations

_THERE = frozenset(("", "constant", "iota", "optimization_barrier"))


def compute_strided(module: Any) -> None:
    """Put barriers before and behind the slices with steps, in place, but between arguments and expressions."""
    for op in operations(module):
        if op.name == "stablehlo.slice" and set(op.attributes["strides"]) - {1}:
            if base_name(maker(op.operands[0])) not in _THERE:
                bar_operand(op, 0)
            if not all(is_elementwise(use.owner.operation) for use in op.results[0].uses):
                behind_barrier(op)
