"""Have commands wait for all that they did wait for when they read what the host has waited for.

Problem: where a command reads memory for which the host has waited, IREE 3.13 has it wait for that as the host did, and
for nothing else any more: it begins before its memory is there ("transient buffer has not been committed"), or before
what it reads is computed. Example: in a loop, a branch that reads a number on the host, then gives several numbers, of
which some are read on the host. Fix: such commands read the memory itself, and wait for all. Test:
tests/lowering/test_awaits.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, maker, operations

_AWAIT, _EXECUTE = "stream.timepoint.await", "stream.cmd.execute"
_PASSING = frozenset(("arith.select", "stream.resource.subview"))  # give memory that they are given


def wait_for_all(module: ir.Module) -> None:
    """Change the commands of a module in place; before they are simplified for the first time."""
    for op in operations(module.operation):
        if op.name == _EXECUTE and _waits(op):
            with op.location, ir.InsertionPoint(op):
                _wait_for_all(op)


def _waits(op: Any) -> bool:
    """Whether a command waits for something: it has that as its last operand."""
    return bool(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[2])


def _wait_for_all(op: Any) -> None:
    last = len(op.operands) - 1
    joined = [op.operands[last]]
    for i, x in enumerate(op.operands):
        op.operands[i] = _itself(x, joined)
    if len(joined) > 1:
        op.operands[last] = ir.Operation.create("stream.timepoint.join", [joined[0].type], joined).results[0]


def _itself(x: ir.Value, joined: list[ir.Value]) -> ir.Value:
    """The memory that a value is once the host has waited for it; adds what the host waits for."""
    if maker(x) == _AWAIT:
        *given, until = x.owner.operands
        joined.append(until)
        return given[ir.OpResult(x).result_number]
    if maker(x) not in _PASSING:
        return x
    operands = list(x.owner.operands)
    own = [_itself(operand, joined) for operand in operands]
    if own == operands:
        return x
    copy = x.owner.operation.clone()
    for i, operand in enumerate(own):
        copy.operands[i] = operand
    return copy.results[0]
