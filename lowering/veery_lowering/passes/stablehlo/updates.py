"""Copy values that are updated in place while something else reads them.

Reads behind writes. Problem: IREE 3.13 updates a value in place at its last use, and moves independent work together,
as early as its operands allow. So a write can move before a read that stood in front of it, or before the copy that was
made for that read. Example: of `y = x * 2`, both results of `(y, y.at[1].set(7), cumsum(w))` had the 7. Fix: the
updated value is a copy, unless all other readers are needed for the update itself and no other trip of a loop reads it.
Nor is a constant safe in a loop: IREE copies it once, before the loop, if its elements differ, and all trips write to
that copy.

Overlapping reads and writes. Problem: IREE computes the new part directly at its place, even if it is computed from
what it overwrites there. Example: later elements of `y.at[1:].set(y[:-1] + 1)` came from new ones;
`y.at[1:].set(y[:-1])` failed ("source and target ranges overlap within the same buffer"). Fix: the updated value is a
copy, unless the new part comes from the same place or from a disjoint one. Of a single element only a copy fails, where
it is one of the same place; that it is one may be found out when IREE folds the index, or when the program is loaded.

Joins that begin alike. Problem: IREE writes the operands of a concatenation one after the other, so that two which
begin with the same operand are updates of one value. Where one dispatch computes the operands, it has results for both
in the same memory: of `h = x[2:3] * 3`, `cumsum([h, -x[:1]])` and `[h, -x[1:2]]` of complex numbers one was the other.
Fix: the first operand of all but one is a copy.

Tests: tests/lowering/test_updates.py, tests/lowering/test_updates_of_joins.py.
"""

from __future__ import annotations

import itertools
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, maker, operations, sizes
from veery_lowering.passes.stablehlo.aliasing import Use, masked_copy, overwritten
from veery_lowering.passes.stablehlo.crossings import is_elementwise
from veery_lowering.stablehlo import Value

# What gives its operand in another shape or type, and costs nothing.
_VIEWS = frozenset(
    "reshape bitcast_convert broadcast_in_dim transpose convert optimization_barrier flow.tensor.clone"
    " flow.tensor.tie_shape tensor.cast tensor.collapse_shape tensor.expand_shape".split()
)
_MOVES = frozenset(("slice", "dynamic_slice", "gather", "reverse"))
_CONSTANTS = frozenset(("constant", "iota"))
_COMPUTED_BEFORE = frozenset(("while", "case", "if", "sort", "scatter"))


def part_updates(module: Any) -> None:
    """Have operations write into copies, or copies, where they would write what is read, in place."""
    shared, crossed = endangered_writes(module)
    limits = itertools.count(-2, -1)
    for op, number in shared:
        _copy(op, number, next(limits))
    for op, number in crossed:
        _copy(op, number, next(limits))
        if is_single(op.operands[number]):
            continue
        with op.location, ir.InsertionPoint(op):
            op.operands[number] = hlo.clone(op.operands[number])
        _copy(op, number, next(limits))
    for op in _joined_again(module):
        with op.location, ir.InsertionPoint(op):
            (op.operands[0],) = hlo.optimization_barrier([op.operands[0]])  # a copy of a constant is one
        _copy(op, 0, next(limits))


def _joined_again(module: Any) -> list[Any]:
    """Concatenations that begin with a computed value with which another one of the same type has begun."""
    begun: set[Any] = set()
    found = []
    for op in operations(module):
        if base_name(op.name) == "concatenate" and maker(viewed(op.operands[0])[0]):
            start = op.operands[0], str(op.results[0].type)
            found += [op] if start in begun else []
            begun.add(start)
    return found


def _copy(op: Any, number: int, limit: int) -> None:
    with op.location, ir.InsertionPoint(op):
        op.operands[number] = masked_copy(op.operands[number], limit)


def endangered_writes(module: Any) -> tuple[list[Use], list[Use]]:
    """What is written into that something else may read, and what is written that is computed from what it is written
    into.
    """
    shared: list[Use] = []
    crossed: list[Use] = []
    places = {op: place for place, op in enumerate(operations(module))}
    for op in places:
        for number in overwritten(op):
            written, barred = viewed(op.operands[number])
            if base_name(maker(written)) in _CONSTANTS and not barred:
                # What is written is a copy of it; of one whose elements differ IREE makes that before a loop.
                if not hlo.is_constant(written) or hlo.splat_of(written) is not None or not is_there_again(op, written):
                    continue
            reading = readers(written)
            if is_there_again(op, written) or not _are_for(op, reading, places):
                shared.append((op, number))
            elif reading != [op]:
                crossed += [(op, other) for other in _given(op) if crosses(op, op.operands[number], other)]
    return shared, crossed


def viewed(value: Value) -> tuple[Value, bool]:
    """What a value is a view of, and whether there is a barrier between."""
    barred = False
    while (name := base_name(maker(value))) in _VIEWS:
        barred |= name == "optimization_barrier"
        value = value.owner.operands[list(value.owner.results).index(value)]
    return value, barred


def readers(value: Value) -> list[Any]:
    """The operations that read a value or a view of it."""
    found: list[Any] = []
    for use in value.uses:
        op = use.owner.operation
        found += readers(op.results[use.operand_number]) if base_name(op.name) in _VIEWS else [op]
    return found


def is_there_again(op: Any, written: Value) -> bool:
    """Whether the next trip of a loop around an operation gets the same value."""
    owner = written.owner
    outside = owner if isinstance(owner, ir.Block) else owner.operation.block
    block = op.block
    while block != outside:
        around = block.owner.operation
        if base_name(around.name) == "while":
            return True
        block = around.block
    return False


def _are_for(op: Any, reading: list[Any], places: dict[Any, int]) -> bool:
    """Whether operations that read, and all that reads their results, lead to an operation and nowhere else."""
    found, stack = {op}, list(reading)
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


def _given(op: Any) -> list[int]:
    """The operands that a writing operation is computed from beside those it writes into."""
    if base_name(op.name) == "sort":
        return []
    return [number for number in range(len(op.operands)) if number not in overwritten(op)]


def crosses(op: Any, target: Value, number: int) -> bool:
    """Whether an operand is, or may be, computed from other places of `target` than it goes to.

    A single element is read before it is written; it crosses if it is copied to where it is.
    """
    written, x = viewed(target)[0], op.operands[number]
    if is_single(x):
        return _is_moved(op, target, x)
    stack = [(x, True)]  # and whether what is computed from it is in the same places
    found = set(stack)
    while stack:
        value, aligned = stack.pop()
        if value == written:
            return True
        if isinstance(value.owner, ir.Block) or base_name(maker(value)) in _COMPUTED_BEFORE:
            continue
        made = value.owner.operation
        given = list(made.operands)
        if given and given[0] == target and (_is_apart(made, op) or (aligned and _is_same_part(made, op))):
            given = given[1:]
        reached = {(y, aligned and is_elementwise(made)) for y in given} - found
        found |= reached
        stack += reached
    return False


def is_single(x: Value) -> bool:
    """Whether a value has one element."""
    return set(sizes(x)) <= {1}


def _is_moved(op: Any, target: Value, x: Value) -> bool:
    """Whether an element is, or may be, copied from and to the same place."""
    written = viewed(target)[0]
    while base_name(maker(x := viewed(x)[0])) in _MOVES:
        if x.owner.operands[0] == target and _is_apart(x.owner, op):
            return False
        x = x.owner.operands[0]
    return bool(x == written)


def _is_same_part(read: Any, write: Any) -> bool:
    """Whether a part is read where another one of this size is written."""
    if base_name(write.name) != "dynamic_update_slice":
        return False
    if sizes(read.results[0]) != sizes(write.operands[1]):
        return False
    if base_name(read.name) == "dynamic_slice":
        return list(read.operands)[1:] == list(write.operands)[2:]
    ranges = _ranges(read, write)
    return bool(ranges) and all(step == 1 and begin == start for (begin, _, step), (start, _) in ranges)


def _is_apart(read: Any, write: Any) -> bool:
    """Whether what is read is not among what is written."""
    return any(end <= start or stop <= begin for (begin, end, _), (start, stop) in _ranges(read, write))


def _ranges(read: Any, write: Any) -> list[tuple[Any, Any]]:
    """By axis: beginning, end and step of what a slice reads, and beginning and end of where an update writes.

    Empty where these are not known.
    """
    if (base_name(read.name), base_name(write.name)) != ("slice", "dynamic_update_slice"):
        return []
    starts = list(write.operands)[2:]
    if any(base_name(maker(start)) != "constant" for start in starts):
        return []
    writes = []
    for n, size, start in zip(*map(sizes, list(write.operands)[:2]), starts, strict=True):
        if n is None or size is None:
            return []
        (at,) = ir.DenseIntElementsAttr(start.owner.attributes["value"])
        at = min(max(at, 0), n - size)
        writes.append((at, at + size))
    names = "start_indices", "limit_indices", "strides"
    return list(zip(zip(*(read.attributes[name] for name in names)), writes))
