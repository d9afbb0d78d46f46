"""Loops whose values stay in registers: as scalars, or as vectors that a trip after the other is computed on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit, spelled
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Buffer, stored
from veery_lowering.kernels._placing import move_out
from veery_lowering.kernels._reading import static_shape
from veery_lowering.kernels._writer import Cells, Writer, names_of

# Of larger arrays IREE updates those that are given away in place.
_MOST_LANES = 1 << 22
# Elements for which a workgroup is worth its start, and how many there are at most.
_LEAST_SHARE = 1 << 11
_MOST_WORKGROUPS = 64
# Elements of a vector. A trip's few values stay in registers, and are enough for several operations at once.
_WIDTH = 64


def _operations(loop: Any) -> Iterator[Any]:
    for region in loop.regions:
        for op in region.blocks[0].operations:
            yield op
            if op.name == "stablehlo.while":
                yield from _operations(op)


def lanes_of(loop: Any) -> int:
    """The number of elements of the arrays that a loop computes; 0 if there are none, or it reads or writes in part."""
    operations = list(_operations(loop))
    if any(op.name.startswith("stablehlo.dynamic_") for op in operations):
        return 0
    values = [op.results[0] for op in operations if op.name.partition(".")[2] in ELEMENTWISE]
    try:
        sizes = Counter(math.prod(static_shape(x)) for x in values)
    except Unfit:
        return 0
    return next((n for n, _ in sizes.most_common() if 1 < n <= _MOST_LANES), 0)


class RegisterKernel:
    """A loop as an executable whose workgroups have vectors of their own.

    Attributes:
        rounds: of a trip, those of the loops within it counted.
        once: the rounds before the first trip.
    """

    form = "in registers"
    width, group = _WIDTH, 0  # elements of a vector, and invocations of a workgroup
    once = 0

    def __init__(self, loop: Any, lanes: int) -> None:
        self.loop, self.writer = loop, Writer(lanes, min(lanes, self.width))
        results = self.writer.loop(loop, [self.writer.read(x) for x in loop.operands], 1)
        self.rounds, _ = self.writer.out.last
        used = [i for i, x in enumerate(loop.results) if any(True for _ in x.uses)]
        inputs = {value: self._buffer(f"%in_{k}", form) for k, (value, form) in enumerate(self.writer.inputs.items())}
        self.outputs = {i: self._buffer(f"%out_{i}", results[i]) for i in used}
        workgroups = self._workgroups()
        self._write(list(inputs.values()), [results[i] for i in used], workgroups)
        taken, made = {**inputs, **self.writer.tables}, list(self.outputs.values())
        self.executable = Executable(self.writer.out, taken, made, workgroups, group=self.group)

    def _workgroups(self) -> int:
        return max(1, min(self.writer.lanes // _LEAST_SHARE, _MOST_WORKGROUPS))

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the loop."""
        move_out(self.writer.before, self.loop)
        self.executable.call(module, name, self.loop, {b: self.loop.results[i] for i, b in self.outputs.items()})
        self.loop.erase()

    def _buffer(self, name: str, form: Cells) -> Buffer:
        return Buffer(name, form.dtype, self.writer.lanes if form.lanes else form.names.size)

    def _write(self, inputs: Sequence[Buffer], results: Sequence[Cells], workgroups: int) -> None:
        """Put the loop, which is written, behind what reads its values and before what writes its results."""
        writer, out = self.writer, self.writer.out
        loop, out.lines = out.lines, []
        forms = list(zip(inputs, writer.inputs.values()))
        for buffer, form in forms:
            if not form.lanes:
                for i, cell in enumerate(form.names.flat):
                    self._name(cell, form, f"memref.load {buffer.name}[{out.index(i)}] : {buffer.type}")
        out.prologue += out.lines
        share = -(-writer.lanes // (workgroups * writer.width)) * writer.width
        first, last = out.index(0), out.index(writer.lanes)
        out.lines = []
        if workgroups > 1:
            number = out.add("hal.interface.workgroup.id[0] : index")
            first = out.add(f"arith.muli {number}, {out.index(share)} : index")
            end = out.add(f"arith.addi {first}, {out.index(share)} : index")
            last = out.add(f"arith.minui {end}, {last} : index")
        out.lines.append(f"scf.for %start = {first} to {last} step {out.index(writer.width)} {{")
        for buffer, form in forms:
            if form.lanes:
                zero, vector = out.constant(0, stored(form.dtype), ""), spelled(stored(form.dtype), f"{writer.width}x")
                read = f"vector.transfer_read {buffer.name}[%start], {zero} : {buffer.type}, {vector}"
                self._name(form.names.item(), form, read)
        out.lines += loop
        for buffer, form in zip(self.outputs.values(), results):
            names = [writer.to_store(name, form.dtype, form.lanes) for name in names_of(form)]
            if form.lanes:
                vector = spelled(stored(form.dtype), f"{writer.width}x")
                out.lines.append(f"vector.transfer_write {names[0]}, {buffer.name}[%start] : {vector}, {buffer.type}")
            else:  # the same in all workgroups
                places = enumerate(names)
                out.lines += [f"memref.store {x}, {buffer.name}[{out.index(i)}] : {buffer.type}" for i, x in places]
        out.lines.append("}")

    def _name(self, name: str, form: Cells, read: str) -> None:
        """Give what is read from memory the name under which the loop knows it."""
        out = self.writer.out
        if form.dtype.kind != "b":
            out.lines.append(f"{name} = {read}")
            return
        memory, shape = stored(form.dtype), self.writer.shape(form.lanes)
        zero = out.constant(0, memory, shape)
        out.lines.append(f"{name} = arith.cmpi ne, {out.add(read)}, {zero} : {spelled(memory, shape)}")
