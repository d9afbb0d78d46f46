"""Dispatches that do not know where in a call's memory their values lie.

IREE makes these places a part of a dispatch's code where all its calls agree on them. One more layer, or another loss,
moves the values, and each dispatch of a program was a new one (parts.py). So places are passed to dispatches, which
know no more of them than how they are aligned.

With a network of three layers known, so many dispatches of others are known too, before and now: with a layer more
1 and 20 of 20, with tanh for relu 0 and 16 of 20, with another loss 4 and 11 of 16.
"""

from __future__ import annotations

import math
from typing import Any

from veery_lowering.mlir import ir, maker, operations

_ALIGNMENT = 64  # of what is allocated, in bytes
_MOST_NUMBERS = 32  # a dispatch takes 64 words of constants, and a number may be two
_BARRIER = "util.optimization_barrier"
_OURS = "veery.place"  # of barriers: others keep apart what a program waits for


def pass_places(module: ir.Module) -> None:
    """Let places in memory be operands of dispatches, once IREE has noted in the dispatches what is known of them.

    What is passed stands behind barriers until `show_places`, so that it is not folded into the dispatches.
    """
    calls: dict[str, list[Any]] = {}
    for op in operations(module.operation):
        if op.name == "stream.cmd.dispatch":
            for entry in op.attributes["entry_points"]:
                calls.setdefault(str(entry), []).append(op)
    for op in module.body.operations:
        if op.operation.name == "stream.executable":
            for function in [x for x in operations(op.operation) if x.name == "func.func"]:
                name = f"@{op.attributes['sym_name'].value}::@{function.attributes['sym_name'].value}"
                _pass_places(function, calls.get(name, []))


def show_places(module: ir.Module) -> None:
    """Remove the barriers that `pass_places` made."""
    for op in [op for op in operations(module.operation) if op.name == _BARRIER and _OURS in op.attributes]:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _pass_places(function: Any, calls: list[Any]) -> None:
    arguments = list(function.regions[0].blocks[0].arguments)
    numbers = [x for x in arguments if not str(x.type).startswith("!stream.binding")]
    if len(numbers) > _MOST_NUMBERS:
        return
    for op in [op for op in operations(function) if op.name == "stream.binding.subspan"]:
        binding, offset = op.operands[0], op.operands[1]
        if maker(offset) != "util.assume.int":
            continue
        known = offset.owner.operation
        result = list(known.results).index(offset)
        argument = known.operands[result]
        passed = [_Passed(call, numbers.index(argument)) for call in calls]
        if all(each.place is not None for each in passed) and any(
            each.place or each.is_transient(arguments.index(binding)) for each in passed
        ):
            alignment = math.gcd(_ALIGNMENT, *(each.place or 0 for each in passed))
            _set(known, "assumptions", result, f"[#util.int.assumption<umin = 0, udiv = {alignment}>]")
            _set(function, "arg_attrs", arguments.index(argument), f"{{stream.alignment = {alignment} : index}}")
            for each in passed:
                each.hide()


class _Passed:
    """A number that a call passes to a dispatch.

    Attributes:
        place: its value, if that is known.
    """

    def __init__(self, call: Any, number: int):
        self._call = call
        self._dimensions, self._numbers, *_ = call.attributes["operandSegmentSizes"]
        self._index = self._dimensions + number
        value = call.operands[self._index]
        if maker(value) == _BARRIER:  # of a place that is passed once for two values
            value = value.owner.operation.operands[0]
        self.place: int | None = None
        if maker(value) == "arith.constant":
            self.place = ir.IntegerAttr(value.owner.attributes["value"]).value

    def is_transient(self, binding: int) -> bool:
        """Whether what is bound is memory of the call, in which values lie at other places in other programs."""
        return "transient" in str(self._call.operands[self._dimensions + self._numbers + binding].type)

    def hide(self) -> None:
        value = self._call.operands[self._index]
        if maker(value) != _BARRIER:
            with self._call.location, ir.InsertionPoint(self._call):
                ours = {_OURS: ir.UnitAttr.get()}
                barrier = ir.Operation.create(_BARRIER, results=[value.type], operands=[value], attributes=ours)
            self._call.operands[self._index] = barrier.result


def _set(op: Any, name: str, index: int, text: str) -> None:
    changed = list(op.attributes[name])
    changed[index] = ir.Attribute.parse(text)
    op.attributes[name] = ir.ArrayAttr.get(changed)
