"""Which arrays a kernel may overwrite, since nothing reads what was in them afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from veery_lowering.mlir import ir, maker

BRANCHES = frozenset(("stablehlo.case", "stablehlo.if"))
UPDATES = frozenset(("stablehlo.dynamic_update_slice", "stablehlo.scatter"))
RESHAPE = "stablehlo.reshape"  # whose result is its operand's memory


def is_updated(argument: Any) -> bool:
    """Whether a trip of a loop overwrites what it is given in place, having read it only before that."""
    return any(_may_overwrite(use) and dies_in(argument, use.owner.operation) for use in uses(argument))


def uses(value: Any) -> Iterator[Any]:
    """What reads the memory of a value, in another shape perhaps."""
    for use in value.uses:
        if use.owner.name == RESHAPE:
            yield from uses(use.owner.results[0])
        else:
            yield use


def unshaped(value: Any) -> Any:
    """The value whose memory a value is, in another shape perhaps."""
    while maker(value) == RESHAPE:
        value = value.owner.operands[0]
    return value


def _may_overwrite(use: Any) -> bool:
    return use.owner.name == "stablehlo.while" or (use.owner.name in UPDATES and use.operand_number == 0)


def dies_in(value: Any, op: Any) -> bool:
    """Whether nothing reads a value after an operation, which reads it once, or has branches that do.

    That is in its block, and where this is a branch, in those around it, up to the one in which the value is made.
    """
    value = unshaped(value)
    home = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    users = [use.owner.operation for use in uses(value)]
    op = op.operation
    has_branches = op.name in BRANCHES
    if users.count(op) != (0 if has_branches else 1):
        return False
    last = op
    while True:
        block = last.block
        readers = [found for user in users if user != op and (found := around(user, block)) is not None]
        # What else is in an operation around this one is in another branch.
        if any(last.is_before_in_block(reader) for reader in readers) or (op in readers and not has_branches):
            return False
        if block == home:
            return True
        last = block.owner.operation
        if last.name not in BRANCHES:
            return False


def around(op: Any, block: Any) -> Any:
    """The operation of a block that an operation is, or is in; None if it is elsewhere."""
    while op.block != block:
        parent = op.block.owner.operation
        if not parent.name.startswith("stablehlo."):
            return None
        op = parent
    return op
