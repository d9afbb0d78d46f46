"""Compute what is sliced in steps before it is sliced.

Problem: IREE 3.13 computes a value that is wider than what it is made of (float16 as float32, a mask as numbers) in the
dispatch that uses it. Where the value fits into a vector, the steps of a slice are forgotten. Example:
`x.astype(float32)[::2]` gave the first elements. It also fails to compile such slices together with lookups and
concatenations. Fix: a barrier before the slice, and one behind it unless only elementwise expressions read it. Test:
tests/lowering/test_slicing.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import base_name, maker, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand, behind_barrier
from veery_lowering.passes.stablehlo.crossings import is_elementwise

_THERE = frozenset(("", "constant", "iota", "optimization_barrier"))


def compute_strided(module: Any) -> None:
    """Put barriers before and behind the slices with steps, in place, but between arguments and expressions."""
    for op in operations(module):
        if op.name == "stablehlo.slice" and set(op.attributes["strides"]) - {1}:
            if base_name(maker(op.operands[0])) not in _THERE:
                bar_operand(op, 0)
            if not _is_for_expressions(op):
                behind_barrier(op)


def _is_for_expressions(op: Any) -> bool:
    """Whether only elementwise expressions read the results of an operation, also as numbers of another type."""
    users = [use.owner.operation for use in op.results[0].uses]
    return all(
        _is_for_expressions(user) if user.name == "stablehlo.bitcast_convert" else is_elementwise(user)
        for user in users
    )
