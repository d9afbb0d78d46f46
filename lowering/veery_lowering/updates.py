"""Values that are written in part while something else reads them.

IREE 3.13 writes into a value where that is its last use, and puts what can be computed at the same time together, right
behind what all of that needs: so a write may come before a read that was in front of it, or the copy that was made
because of it. `(y, y.at[1].set(7), cumsum(w))` of `y = x * 2` had the 7 in both. What is written is a copy here, unless
whatever reads the value is needed for what is written.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.aliasing import copy_for, overwritten
from veery_lowering.dialects import base_name
from veery_lowering.mlir import maker, operations
from veery_lowering.registry import Value

# What gives its operand in another shape or type, and costs nothing.
_VIEWS = frozenset(
    "reshape bitcast_convert broadcast_in_dim transpose convert optimization_barrier flow.tensor.clone"
    " flow.tensor.tie_shape tensor.cast tensor.collapse_shape tensor.expand_shape".split()
)
_CONSTANTS = frozenset(("constant", "iota"))


def part_updates(module: Any) -> None:
    """Have operations write into copies where something else may read what they write into, in place."""
    for op, number in unordered_writes(module):
        copy_for(op.operands[number], [(op, number)])


def unordered_writes(module: Any) -> list[tuple[Any, int]]:
    """The operations of a module, versioned or not, that write into what something else may read, and which operand."""
    found = []
    places = {op: place for place, op in enumerate(operations(module))}
    for op in places:
        for number in overwritten(op):
            written, barred = _viewed(op.operands[number])
            if base_name(maker(written)) in _CONSTANTS and not barred:  # what is written is a copy of it
                continue
            if not _are_for(op, _readers(written), places):
                found.append((op, number))
    return found


def _viewed(value: Value) -> tuple[Value, bool]:
    """What a value is a view of, and whether there is a barrier between."""
    barred = False
    while (name := base_name(maker(value))) in _VIEWS:
        barred |= name == "optimization_barrier"
        value = value.owner.operands[list(value.owner.results).index(value)]
    return value, barred


def _readers(value: Value) -> list[Any]:
    """The operations that read a value or a view of it."""
    found: list[Any] = []
    for use in value.uses:
        op = use.owner.operation
        found += _readers(op.results[use.operand_number]) if base_name(op.name) in _VIEWS else [op]
    return found


def _are_for(op: Any, readers: list[Any], places: dict[Any, int]) -> bool:
    """Whether readers, and all that reads their results, lead to an operation and nowhere else."""
    found, stack = {op}, list(readers)
    while stack:
        reader = stack.pop()
        if reader in found:
            continue
        users = [use.owner.operation for result in reader.results for use in result.uses]
        if not users or reader.block != op.block or places[reader] > places[op]:
            return False
        found.add(reader)
        stack += users
    return True
