"""Let loops write into what they carry.

Problem: IREE 3.13 does not see on which device an argument of a loop's body is, and transfers it to the only one there
is: each trip copies all that it reads or writes a part of. 50 trips of a scan that gives 200x200 floats each copied 8
MB each, 17 ms; without 1.4. Fix: no such transfer where the memory is the loop's alone. That is shown here: IREE's own
analysis takes two carries that begin with one array for two arrays. Test: tests/lowering/test_carries.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from veery_lowering.mlir import ir, operations

# What gives memory that nothing else has, if nothing else has the result.
_MAKERS = frozenset(
    f"stream.async.{name}" for name in "alloca clone concat copy dispatch fill splat transfer update".split()
) | {"scf.for", "scf.while"}
_READERS = frozenset(f"stream.async.{name}" for name in "clone copy dispatch slice transfer update".split())
_ENDS = {"scf.yield": 0, "scf.condition": 1}  # and how many operands are before the values that are passed on
_LOOPS = {"scf.for": 3, "scf.while": 0}  # likewise

Use = tuple[Any, int]  # an operation, and which of its operands


def carry_in_place(module: ir.Module) -> None:
    """Drop the transfers of what loops carry and alone have, and let them begin with zeros of their own, in place."""
    for function in module.body.operations:
        if function.name == "util.func":
            found = operations(function.operation)
            for op in found:
                if op.name in _LOOPS or op.name in _ENDS:
                    _give_own_zeros(op)
            for op in found:
                if op.name in _LOOPS and len(op.operands) == len(op.results) + _LOOPS[op.name]:
                    for k in range(len(op.results)):
                        _settle(op, k)


def _settle(loop: Any, k: int) -> None:
    """Drop the transfers of what a loop carries in its place k, if they are for nothing."""
    flow = _carried(loop, k)
    if flow is None or flow.is_written and not (flow.place == k and _is_alone(loop, k)):
        return
    for argument in _arguments(loop, k):
        for op in _transfers(argument):
            op.results[0].replace_all_uses_with(argument)
            op.erase()


class _Flow(NamedTuple):
    """What becomes of a value: whether it is written, and in which place it is passed on, if it is."""

    is_written: bool
    place: int | None


def _carried(loop: Any, k: int) -> _Flow | None:
    """What becomes of what a loop carries in its place k in a trip; None if that cannot be done in its memory."""
    flow = _Flow(False, k)
    for region, argument in zip(loop.regions, _arguments(loop, k), strict=True):
        inner = _flow(_all_uses(argument), region.blocks[0])
        if inner is None or flow.place != k:
            return None
        flow = _Flow(flow.is_written or inner.is_written, inner.place)
    return flow


def _flow(uses: list[Use], block: Any) -> _Flow | None:
    """What becomes of a value in a block; None if that cannot be done in its memory.

    It can if what was there before is read by the trip alone, and only before it is written (`part_updates` sees to it
    that such reads are done by then), and only the last write's result is passed on. What else reads that result may
    still do so in the next trip, unless all of a trip is submitted together.

    Args:
        uses: of the value, in the block.
        block: of a loop.
    """
    order = {op.operation: i for i, op in enumerate(block.operations)}
    is_written = False
    while not all(_is_read(*use) for use in uses):
        places = [_place(op, order) for op, _ in uses]
        last = max(places)
        if any(place < last and not _is_read(*use) for use, place in zip(uses, places, strict=True)):
            return None
        user = block.operations[last].operation
        there = [use for use, place in zip(uses, places, strict=True) if place == last]
        if user.name in _ENDS:
            is_read = is_written and len(uses) > 1 and not all(map(_is_submitted, block.operations))
            return None if len(there) > 1 or is_read else _Flow(is_written, there[0][1] - _ENDS[user.name])
        result = tied(user).get(there[0][1]) if len(there) == 1 else None
        if result is None or there[0][0] != user:
            return None
        is_written = True
        uses = _uses(user.results[result])
    return None if is_written else _Flow(False, None)


def _is_submitted(op: Any) -> bool:
    """Whether an operation is a part of what a trip submits, or needs nothing of that."""
    if op.name == "stream.async.load":
        return False
    return op.name in _ENDS or op.name.startswith(("stream.async.", "stream.resource.", "arith."))


def tied(op: Any) -> dict[int, int]:
    """The operands in whose memory results are, and which results."""
    if op.name in ("stream.async.copy", "stream.async.fill", "stream.async.update"):
        return {0: 0}
    if op.name != "stream.async.dispatch" or "tied_operands" not in op.attributes:
        return {}
    before = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
    numbers = [ir.IntegerAttr(each).value for each in op.attributes["tied_operands"]]
    return {before + n: result for result, n in enumerate(numbers) if n >= 0}


def _is_read(op: Any, i: int) -> bool:
    return op.name in _READERS and i not in tied(op)


def _uses(value: ir.Value) -> list[Use]:
    return [(use.owner.operation, use.operand_number) for use in value.uses]


def _arguments(loop: Any, k: int) -> list[ir.Value]:
    """What a loop carries in its place k, in each of its regions."""
    return [region.blocks[0].arguments[k + (loop.name == "scf.for")] for region in loop.regions]


def _transfers(argument: ir.Value) -> list[Any]:
    """The transfers of a value that change nothing; those of which it is a size are not its own."""
    return [use.owner.operation for use in argument.uses if use.operand_number == 0 and _is_idle(use.owner.operation)]


def _is_idle(op: Any) -> bool:
    return bool(op.name == "stream.async.transfer" and op.operands[0].type == op.results[0].type)


def _all_uses(argument: ir.Value) -> list[Use]:
    """The uses of a value, as if it were not transferred."""
    transfers = _transfers(argument)
    own = [use for use in _uses(argument) if use[0] not in transfers]
    return own + [use for op in transfers for use in _uses(op.results[0])]


def _place(op: Any, order: dict[Any, int]) -> int:
    """Where in a block an operation is, or what it is in."""
    while op not in order:
        op = op.parent.operation
    return order[op]


def _give_own_zeros(op: Any) -> None:
    """Have a loop, a trip or a branch hand on zeros that nothing else has."""
    for i, value in enumerate(op.operands):
        if isinstance(value.owner, ir.Block):
            continue
        maker = value.owner.operation
        if maker.name == "stream.async.splat" and (len(list(value.uses)) > 1 or maker.block != op.block):
            with ir.InsertionPoint(op):
                op.operands[i] = maker.clone().results[0]


def _is_alone(loop: Any, k: int) -> bool:
    """Whether the memory that a carry begins with is for this loop alone.

    `part_shared` has seen to it that what loops hand on is. Of a loop in another one nothing else may read the result:
    in the next trip it is written again.
    """
    start = loop.operands[_LOOPS[loop.name] + k]
    if len(list(start.uses)) > 1:
        return False
    if isinstance(start.owner, ir.Block):
        return start.owner.owner.name in _LOOPS and [op.name in _ENDS for op, _ in _uses(loop.results[k])] == [True]
    maker = start.owner.operation
    return maker.name in _MAKERS and maker.block == loop.block and not _is_idle(maker)
