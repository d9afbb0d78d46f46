"""Pass no value twice to a block of IREE's code.

Problem: IREE 3.13 passes values to a block of VM code by copying registers. If a buffer or fence is passed twice, the
last copy moves it, which empties its register. If that register also belongs to another argument of the block, the
program fails ("ref is null"). Example: loops whose constant carries share a buffer. Fix: a repeated value gets a
register of its own first. Test: tests/lowering/test_branches.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from veery_lowering.mlir import ir


def separate(module: ir.Module) -> bool:
    """Change the branches of a VM module in place; whether there was anything to change."""
    changed = False
    for block in _blocks(module.operation):
        branch = block.operations[len(block.operations) - 1]
        if branch.name in _BRANCHES:
            changed = _separate(branch) or changed
    return changed


_BRANCHES = frozenset(("vm.br", "vm.cond_br", "vm.br_table"))


def _blocks(op: Any) -> Iterator[Any]:
    """The blocks of functions in an operation that have any operations."""
    for region in op.regions:
        for block in region.blocks:
            if op.name == "vm.func":
                yield block
            else:
                for inner in block.operations:
                    yield from _blocks(inner.operation)


def _separate(branch: Any) -> bool:
    # What each successor gets stands at the end of the operands, one after the other.
    position = len(branch.operands) - sum(len(block.arguments) for block in branch.successors)
    changed = False
    for block in branch.successors:
        passed: list[Any] = []
        for _ in block.arguments:
            value = branch.operands[position]
            if value in passed and str(value.type).startswith("!vm.ref"):
                with branch.location, ir.InsertionPoint(branch):
                    copy = ir.Operation.create("vm.assign.ref", [value.type], [value])
                branch.operands[position] = copy.result
                changed = True
            passed.append(value)
            position += 1
    return changed
