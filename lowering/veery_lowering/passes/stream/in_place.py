"""Write results where donated arguments are.

When it is known in which order a program's dispatches run, and which memory each of them reads and writes, a result can
be put into the memory of an argument that is given away: no dispatch is another one for that, and commands are recorded
once, as of a program that gives nothing away. A result may be there if it is written when all else has read the
argument. A dispatch that reads the argument may write it, too, if of each element it has read all when it writes it:
kernels say which of their inputs and outputs those are (`in_place` of `kernels/_followers.py`), of IREE's dispatches it
is looked up. Where something else would read the argument at the same time, or later, what writes it runs behind that,
if nothing in between is in its way.

IREE 3.13 does such things, too, but decides on them before it forms dispatches, and so forms others: of a step of Adam
it computed the products in dispatches of their own, and it recorded its commands anew in each call, which had to wait
for the call before: 1.6 ms a step of a network of 784-256-256-10, where this takes 1.1. Test:
tests/lowering/test_in_place.py.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from veery_lowering.mlir import IN_PLACE, LEAST_REUSED, inside, ir, operations, terminator
from veery_lowering.passes.stream.arguments import donated_arguments
from veery_lowering.passes.stream.same_elements import is_elementwise

_ALIGNMENT = 64  # of each result in the memory that they share
_DISPATCH, _COPY, _FILL = "stream.cmd.dispatch", "stream.cmd.copy", "stream.cmd.fill"
_EXECUTE, _CONCURRENT, _SERIAL = "stream.cmd.execute", "stream.cmd.concurrent", "stream.cmd.serial"
_READS, _WRITES = 1, 2  # bits of `resource_accesses`


class _Access(NamedTuple):
    """A part of memory that a command reads or writes: which operands say so, and what they are."""

    memory: ir.Value
    start: int
    end: int
    mode: int
    operand: int  # the number of the memory's
    size: int  # of that of its size
    offset: int  # of that of the part's start

    def meets(self, other: _Access) -> bool:
        return self.memory == other.memory and self.start < other.end and other.start < self.end


@dataclass(eq=False)
class _Command:
    op: Any
    accesses: list[_Access]
    step: _Step = field(init=False)

    def touches(self, part: _Part) -> list[_Access]:
        return [a for a in self.accesses if a.memory == part.memory and a.start < part.end and part.start < a.end]

    def hinders(self, other: _Command) -> bool:
        """Whether the order of the two matters."""
        return any((a.mode | b.mode) & _WRITES and a.meets(b) for a in self.accesses for b in other.accesses)


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the memory that commands are given: of a result, or all of an argument."""

    memory: ir.Value  # as the commands know it
    start: int
    end: int
    value: ir.Value  # as the function knows it
    number: int = 0  # which of the results it is


@dataclass(eq=False)
class _Step:
    """Commands that run at the same time; `parted`, if each of them stands for itself."""

    commands: list[_Command]
    parted: bool = True
    number: int = 0

    def __post_init__(self) -> None:
        for command in self.commands:
            command.step = self


def place_results(module: ir.Module, smallest: int = LEAST_REUSED) -> list[int]:
    """Have results take the places of donated arguments, in place.

    Args:
        module: in IREE's "stream" dialect, of commands on memory that is allocated.
        smallest: bytes of arguments from which on their places are taken.

    Returns:
        The numbers of the arguments that are overwritten.
    """
    donated = donated_arguments(module)
    if not donated:
        return []
    (function,) = (op for op in inside(module.operation) if _is_main(op))
    kernels = _kernels(module)
    found: list[int] = []
    for op in operations(function):
        if op.name == _EXECUTE and _runs_once(op, function):
            execution = _Execution.of(op, kernels)
            if execution is not None:
                found += execution.place(function, donated, smallest)
    return sorted(found)


def _is_main(op: Any) -> bool:
    return bool(op.name == "util.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main")


def _kernels(module: ir.Module) -> dict[str, Any]:
    """The functions of IREE's dispatches, and the executables of kernels, by what calls name."""
    found = {}
    for op in inside(module.operation):
        name = op.attributes["sym_name"].value if "sym_name" in op.attributes else ""
        if op.name == "hal.executable.source":
            found[name] = op
        elif op.name == "stream.executable":
            for inner in operations(op):
                if inner.name == "func.func":
                    found[f"{name}::@{inner.attributes['sym_name'].value}"] = inner
    return found


def _runs_once(execution: Any, function: Any) -> bool:
    """Whether it is in no loop of a function: in its first block, or its last one."""
    block = execution.block
    return bool(block == function.regions[0].blocks[0] or terminator(block).name == "util.return")


class _Execution:
    """Commands that are submitted together.

    Args:
        op: the operation.
        steps: the commands, those that run at the same time together.
        kernels: as `_kernels` gives them.
    """

    def __init__(self, op: Any, steps: list[_Step], kernels: dict[str, Any]) -> None:
        self.op, self.steps, self._kernels = op, steps, kernels
        self._body = op.regions[0].blocks[0]
        self._is_moved = False
        self._touching: dict[ir.Value, dict[_Command, None]] = {}  # by the memory
        for step in steps:
            for command in step.commands:
                for access in command.accesses:
                    self._touching.setdefault(access.memory, {})[command] = None
        self._writing: dict[_Part, list[_Command]] = {}  # by the results that they touch
        self._number()

    def _number(self) -> None:
        for number, step in enumerate(self.steps):
            step.number = number

    @staticmethod
    def of(op: Any, kernels: dict[str, Any]) -> _Execution | None:
        """None if it has commands of which it is not known what they read and write."""
        steps = []
        for outer in inside(op)[:-1]:
            inner = [each for each in operations(outer) if each.name not in (_CONCURRENT, _SERIAL, "stream.yield")]
            commands = [_command(each) for each in inner]
            if None in commands:
                return None
            parted = outer.name != _SERIAL and all(each.parent in (op, outer) for each in inner)
            steps.append(_Step([each for each in commands if each is not None], parted))
        return _Execution(op, steps, kernels)

    def place(self, function: Any, donated: Collection[int], smallest: int) -> list[int]:
        """Have results take arguments' places; returns the numbers of these."""
        shared = self._results()
        if shared is None:
            return []
        self._writing = {part: [] for part in shared.parts}
        for command in self._touching.get(shared.memory, ()):
            for part in {shared.part_at(a.start): None for a in command.accesses if a.memory == shared.memory}:
                self._writing[part].append(command)
        free = [part for part in shared.parts if part.end - part.start >= smallest]
        free.sort(key=lambda part: part.number)
        arguments = {number: self._argument(function, number) for number in donated}
        placed: dict[int, tuple[_Part, _Part]] = {}
        # What reads an argument is first to take its place; what has to run later for that is last.
        for may_place in (self._is_updated, self._is_later, self._may_be_later):
            for number, argument in arguments.items():
                if argument is not None and number not in placed:
                    result = next((part for part in free if may_place(part, argument)), None)
                    if result is not None:
                        free.remove(result)
                        placed[number] = result, argument
                        self._note(result, argument)
        if placed:
            self._rewrite(shared, list(placed.values()))
            if self._is_moved:
                self._order()
        return list(placed)

    # What there is.

    def _argument(self, function: Any, number: int) -> _Part | None:
        """The memory of an argument that only these commands read."""
        given = function.regions[0].blocks[0].arguments[number]
        users = [use.owner for use in given.uses if use.owner.name != "hal.buffer_view.assert"]
        if len(users) != 1 or users[0].name != "stream.tensor.import":  # it is returned itself
            return None
        value, size = users[0].results[0], _constant(users[0].operands[1])
        uses = list(value.uses)
        if size is None or len(uses) != 1 or uses[0].owner != self.op:
            return None
        memory = self._body.arguments[uses[0].operand_number]
        if any(a.mode & _WRITES for c in self._touching.get(memory, ()) for a in c.accesses if a.memory == memory):
            return None
        return _Part(memory, 0, size, value)

    def _results(self) -> _Shared | None:
        """The memory that these commands are given for results of the program, if all of it is known."""
        for k, x in enumerate(self._captured()):
            made = x.owner
            if isinstance(made, ir.Block) or made.name != "stream.resource.alloca" or "external" not in str(x.type):
                continue
            memory, total, parts = self._body.arguments[k], _constant(made.operands[0]), []
            for use in x.uses:
                user = use.owner.operation
                if user.name == "stream.tensor.export" and total is not None:
                    parts.append(_Part(memory, 0, total, x, _number(user)))
                elif user.name == "stream.resource.subview":
                    start, length = _constant(user.operands[2]), _constant(user.operands[3])
                    exports = [each.owner for each in user.results[0].uses]
                    if start is None or length is None or [each.name for each in exports] != ["stream.tensor.export"]:
                        return None
                    parts.append(_Part(memory, start, start + length, user.results[0], _number(exports[0])))
                elif user != self.op:
                    return None
            if not parts or len(parts) > 1 and any(part.value == x for part in parts):
                return None
            shared = _Shared(k, memory, made, sorted(parts, key=lambda part: part.start))
            every = [a for c in self._touching.get(memory, ()) for a in c.accesses if a.memory == memory]
            within = all(a.end <= shared.part_at(a.start).end for a in every)
            captured = [use for use in x.uses if use.owner == self.op]
            return shared if within and len(captured) == 1 else None
        return None

    def _captured(self) -> list[ir.Value]:
        count = list(ir.DenseI32ArrayAttr(self.op.attributes["operandSegmentSizes"]))[0]
        return list(self.op.operands)[:count]

    # Whether it may be.

    def _is_updated(self, result: _Part, argument: _Part) -> bool:
        """Whether a result may be where an argument is since what writes it reads that; it is the last to do so."""
        writer, _ = self._writer(result, argument)
        if writer is None or not writer.touches(argument) or not self._is_in_place(writer, argument, result):
            return False
        return self._runs_behind_others(writer, argument)

    def _is_later(self, result: _Part, argument: _Part) -> bool:
        """Whether a result is written when all has read an argument."""
        writer, last = self._writer(result, argument)
        return writer is not None and last < writer.step.number

    def _may_be_later(self, result: _Part, argument: _Part) -> bool:
        """Whether a result may be written when all has read an argument; it is then."""
        writer, _ = self._writer(result, argument)
        return writer is not None and not writer.touches(argument) and self._runs_behind_others(writer, argument)

    def _writer(self, result: _Part, argument: _Part) -> tuple[_Command | None, int]:
        """The first command that writes a result, and the number of the last step that reads an argument.

        None writes it if the argument has another size, or if several read or write the result up to that step.
        """
        if result.end - result.start != argument.end - argument.start:
            return None, 0
        last = max((c.step.number for c in self._touching.get(argument.memory, ())), default=-1)
        writing = sorted(self._writing[result], key=lambda command: command.step.number)
        early = [command for command in writing if command.step.number <= last] or writing[:1]
        return early[0] if len(early) == 1 else None, last

    def _runs_behind_others(self, writer: _Command, argument: _Part) -> bool:
        """Have a command of a step run behind all others that read an argument, if nothing is in its way."""
        others = [c.step.number for c in self._touching.get(argument.memory, ()) if c is not writer]
        last = max(others, default=-1)
        return last < writer.step.number or self._moved(writer, last)

    def _is_in_place(self, command: _Command, argument: _Part, result: _Part) -> bool:
        """Whether a command has read all of an element of the argument when it writes that of the result."""
        if command.op.name != _DISPATCH:
            return False
        touched = [command.touches(part) for part in (argument, result)]
        reads, writes = ([k for k, a in enumerate(command.accesses) if a in parts] for parts in touched)
        whole = all(
            (a.start, a.end) == (part.start, part.end)
            for part, parts in zip((argument, result), touched)
            for a in parts
        )
        if not whole or len(writes) != 1 or command.accesses[writes[0]].mode != _WRITES:
            return False
        (entry,) = command.op.attributes["entry_points"]
        executable, _, function = str(entry).removeprefix("@").partition("::@")
        if executable in self._kernels:
            attributes = self._kernels[executable].attributes
            flat = list(ir.DenseI64ArrayAttr(attributes[IN_PLACE])) if IN_PLACE in attributes else []
            return all((k, writes[0]) in zip(flat[::2], flat[1::2]) for k in reads)
        kernel = self._kernels.get(f"{executable}::@{function}")
        return kernel is not None and is_elementwise(kernel, reads, writes)

    def _moved(self, writer: _Command, last: int) -> bool:
        """Have a command run behind a step, if nothing is in its way."""
        before, steps = writer.step, self.steps
        between = [c for step in steps[before.number : last + 1] for c in step.commands if c is not writer]
        if not before.parted or any(c.hinders(writer) for c in between):
            return False
        before.commands.remove(writer)
        after = steps[last + 1] if last + 1 < len(steps) else None
        if after is not None and after.parted and not any(c.hinders(writer) for c in after.commands):
            after.commands.append(writer)
            writer.step = after
        else:
            steps.insert(last + 1, _Step([writer]))
            self._number()
        self._is_moved = True
        return True

    def _note(self, result: _Part, argument: _Part) -> None:
        """Commands write an argument where they did a result; the operands of their operations are changed later."""
        for command in self._writing[result]:
            touched = command.touches(result)
            command.accesses = [
                a._replace(memory=argument.memory, start=a.start - result.start, end=a.end - result.start)
                if a in touched
                else a
                for a in command.accesses
            ]
            self._touching.setdefault(argument.memory, {})[command] = None

    # Changes.

    def _rewrite(self, shared: _Shared, placed: Sequence[tuple[_Part, _Part]]) -> None:
        """Change which memory commands are given."""
        starts, total = shared.packed([result for result, _ in placed])
        constants = _Constants(self.op)
        sizes = {argument.memory: argument.end for _, argument in placed}
        sizes[shared.memory] = total
        for step in self.steps:
            for command in step.commands:
                for a in command.accesses:
                    if a.memory not in sizes:
                        continue
                    start = a.start
                    if a.memory == shared.memory:
                        part = shared.part_at(start)
                        start += starts[part] - part.start
                    command.op.operands[a.operand] = a.memory
                    command.op.operands[a.size] = constants(sizes[a.memory])
                    command.op.operands[a.offset] = constants(start)
        for result, argument in placed:
            result.value.replace_all_uses_except(argument.value, [self.op])
        shared.resize(self.op, total, {part: constants(start) for part, start in starts.items()}, constants)
        for result, _ in placed:
            if result.value.owner != shared.alloca:
                result.value.owner.erase()
        if not total:
            shared.drop(self.op, placed[0][1].value, constants(placed[0][1].end))

    def _order(self) -> None:
        """Put the commands into the order of the steps."""
        end = self._body.operations[len(self._body.operations) - 1]
        before = inside(self.op)[:-1]
        for step in self.steps:
            ops = [command.op for command in step.commands]
            if not step.parted:
                top = ops[0]
                while top.parent.operation != self.op:
                    top = top.parent.operation
                top.move_before(end)
                before.remove(top)
            elif len(ops) == 1:
                ops[0].move_before(end)
            elif ops:
                self._concurrent(ops, end)
        for op in before:
            if op.name == _CONCURRENT:
                op.erase()

    def _concurrent(self, ops: Sequence[Any], end: Any) -> None:
        """Have commands run at the same time."""
        with ir.InsertionPoint(end), self.op.location:
            together = ir.Operation.create(_CONCURRENT, regions=1)
        block = together.regions[0].blocks.append()
        with ir.InsertionPoint(block), self.op.location:
            last = ir.Operation.create("stream.yield")
        for op in ops:
            op.move_before(last)


@dataclass(eq=False)
class _Shared:
    """The memory of results: they are parts of one allocation.

    Attributes:
        number: that of the operand by which commands have it.
        memory: as they know it.
        alloca: allocates it.
        parts: the results, as they lie there.
    """

    number: int
    memory: ir.Value
    alloca: Any
    parts: list[_Part]

    def __post_init__(self) -> None:
        self._starts = [part.start for part in self.parts]

    def part_at(self, place: int) -> _Part:
        """The part that a place is in, or the one before it."""
        return self.parts[max(0, bisect.bisect_right(self._starts, place) - 1)]

    def packed(self, gone: Sequence[_Part]) -> tuple[dict[_Part, int], int]:
        """Where the parts are that are left, one behind the other, and how many bytes they have."""
        starts, total, without = {}, 0, set(gone)
        for part in self.parts:
            if part not in without:
                starts[part] = total
                total += -(-(part.end - part.start) // _ALIGNMENT) * _ALIGNMENT
        return starts, total

    def resize(self, execution: Any, total: int, starts: dict[_Part, ir.Value], constants: _Constants) -> None:
        """Allocate less, and have the parts be where they are now."""
        size = constants(total)
        self.alloca.operands[0] = size
        execution.operands[len(execution.regions[0].blocks[0].arguments) + self.number] = size
        for part, start in starts.items():
            if part.value.owner != self.alloca:
                part.value.owner.operands[1] = size
                part.value.owner.operands[2] = start

    def drop(self, execution: Any, other: ir.Value, size: ir.Value) -> None:
        """Allocate nothing; commands, which use nothing of it, are given something else in its place."""
        execution.operands[self.number] = other
        execution.operands[len(execution.regions[0].blocks[0].arguments) + self.number] = size
        memory, allocated = self.alloca.results
        if len(self.alloca.operands) > 1:
            before = self.alloca.operands[1]
        else:
            with ir.InsertionPoint(self.alloca), self.alloca.location:
                before = ir.Operation.create("stream.timepoint.immediate", [allocated.type]).results[0]
        allocated.replace_all_uses_with(before)
        self.alloca.erase()


class _Constants:
    """Makes numbers in front of all else in a block, each once."""

    def __init__(self, op: Any) -> None:
        self._block = op.block.region.blocks[0]
        self._made: dict[int, ir.Value] = {}

    def __call__(self, number: int) -> ir.Value:
        if number not in self._made:
            with ir.InsertionPoint.at_block_begin(self._block), ir.Location.unknown():
                index = ir.IndexType.get()
                value = {"value": ir.IntegerAttr.get(index, number)}
                self._made[number] = ir.Operation.create("arith.constant", [index], attributes=value).results[0]
        return self._made[number]


def _command(op: Any) -> _Command | None:
    """A command, and what it reads and writes; None if that is not known."""
    if op.name == _DISPATCH:
        sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        count, start = sizes[2], sum(sizes[:2])
        modes = [ir.IntegerAttr(each).value for each in op.attributes["resource_accesses"]]
        places = [(start + k, start + count + k, start + 2 * count + k, start + 3 * count + k) for k in range(count)]
    elif op.name == _COPY:
        places, modes = [(0, 1, 2, 6), (3, 4, 5, 6)], [_READS, _WRITES]
    elif op.name == _FILL:
        places, modes = [(0, 1, 2, 3)], [_WRITES]
    else:
        return None
    accesses = []
    for (memory, size, offset, length), mode in zip(places, modes, strict=True):
        start_, bytes_ = _constant(op.operands[offset]), _constant(op.operands[length])
        if start_ is None or bytes_ is None:
            return None
        accesses.append(_Access(op.operands[memory], start_, start_ + bytes_, mode, memory, size, offset))
    return _Command(op, accesses)


def _number(export: Any) -> int:
    """Which result of a function is exported."""
    return min((use.operand_number for use in export.results[0].uses), default=0)


def _constant(x: ir.Value) -> int | None:
    if isinstance(x.owner, ir.Block) or x.owner.name != "arith.constant":
        return None
    return int(ir.IntegerAttr(x.owner.attributes["value"]).value)
