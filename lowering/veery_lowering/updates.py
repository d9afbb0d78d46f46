"""Values that are written in part while something else reads them.

IREE 3.13 writes into a value where that is its last use, and puts what can be computed at the same time together, right
behind what all of that needs: so a write may come before a read that was in front of it, or the copy that was made
because of it. `(y, y.at[1].set(7), cumsum(w))` of `y = x * 2` had the 7 in both. What is written is a copy here, unless
whatever reads the value is needed for what is written.
"""

from __future__ import annotations

import re
from typing import Any

from veery_lowering.aliasing import copy_for, overwritten
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.registry import Value

# What gives its operand in another shape or type, and costs nothing.
_VIEW = re.compile(
    r"(stablehlo|vhlo)\.(reshape|bitcast_convert|broadcast_in_dim|transpose|convert|optimization_barrier)(_v\d+)?"
    r"|flow\.tensor\.(clone|tie_shape)|tensor\.(cast|collapse_shape|expand_shape)"
)
_CONSTANT = re.compile(r"(stablehlo|vhlo)\.(constant|iota)(_v\d+)?")


def part_updates(module: Any) -> None:
    """Have operations write into copies where something else may read what they write into, in place."""
    for op, number in unordered_writes(module):
        copy_for(op.operands[number], [(op, number)])


def unordered_writes(module: Any) -> list[tuple[Any, int]]:
    """The operations of a module, versioned or not, that write into what something else may read, and which operand."""
    found = []
    for op in operations(module):
        needed: set[Any] | None = None
        for number in overwritten(op):
            written, barred = _viewed(op.operands[number])
            if _CONSTANT.fullmatch(maker(written)) and not barred:  # what is written is a copy of it
                continue
            readers = [reader for reader in _readers(written) if reader != op]
            if readers:
                needed = _needed(op) if needed is None else needed
                if not _are_for(op, needed, readers):
                    found.append((op, number))
    return found


def _viewed(value: Value) -> tuple[Value, bool]:
    """What a value is a view of, and whether there is a barrier between."""
    barred = False
    while _VIEW.fullmatch(maker(value)):
        barred |= "optimization_barrier" in maker(value)
        value = value.owner.operands[list(value.owner.results).index(value)]
    return value, barred


def _readers(value: Value) -> list[Any]:
    """The operations that read a value or a view of it."""
    found: list[Any] = []
    for use in value.uses:
        op = use.owner.operation
        found += _readers(op.results[use.operand_number]) if _VIEW.fullmatch(op.name) else [op]
    return found


def _needed(op: Any) -> set[Any]:
    """The operation, and those of its block that it depends on."""
    found, stack = {op}, [op]
    while stack:
        for operand in _given(stack.pop()):
            if not isinstance(operand.owner, ir.Block):
                made = operand.owner.operation
                if made.block == op.block and made not in found:
                    found.add(made)
                    stack.append(made)
    return found


def _given(op: Any) -> list[Value]:
    """The operands of an operation and of those within it."""
    return [operand for each in operations(op) for operand in each.operands]


def _are_for(op: Any, needed: set[Any], readers: list[Any]) -> bool:
    """Whether readers, and all that reads their results, are needed for an operation: nothing of them comes later."""
    found, stack = {op}, list(readers)
    while stack:
        reader = stack.pop()
        if reader not in needed:
            return False
        if reader not in found:
            found.add(reader)
            stack += [use.owner.operation for result in reader.results for use in result.uses]
    return True
