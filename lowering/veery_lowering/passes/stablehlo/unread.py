"""Leave out what nobody reads, and what puts an array into a shape that only another shape is made of.

Problem: kernels of ours leave behind what they compute themselves, such as constants, and between each other reshapes
there and back. IREE's passes look at all of that, some of them dozens of times.
Example: of a step of training a network of three layers, 12 kernels, all 63 constants and 32 of 53 reshapes.
Fix: they go before IREE's passes begin.

Test: tests/lowering/test_unread.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.kernels import is_pure
from veery_lowering.kernels._lifetimes import RESHAPE, unshaped
from veery_lowering.mlir import operations


def drop_unread(module: Any) -> None:
    """Change a module of StableHLO in place."""
    for op in operations(module):
        if op.name == RESHAPE:
            op.operands[0] = source = unshaped(op.operands[0])
            if source.type == op.results[0].type:
                op.results[0].replace_all_uses_with(source)
    _drop_within(module)


def _drop_within(op: Any) -> None:
    for block in (block for region in op.regions for block in region.blocks):
        for inner in reversed([inner.operation for inner in block.operations]):
            if inner.results and is_pure(inner) and not any(True for x in inner.results for _ in x.uses):
                inner.erase()
            else:
                _drop_within(inner)
