"""Loops as shaders, for GPUs: of arrays of one size each invocation has an element, others are one invocation's.

IREE runs the trips of a loop as dispatches, and asks the host before each whether there is another. Here they are one
dispatch, or several for loops of many rounds: llvmpipe ends the loops of a shader after 65535 rounds in all, without a
word, and drivers end shaders that run for seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._buffered import BufferedKernel
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Buffer, stored
from veery_lowering.kernels._nests import INVOCATION
from veery_lowering.kernels._placing import move_out
from veery_lowering.kernels._rounds import LoopInParts, most_trips
from veery_lowering.kernels._writer import Cells, Writer, names_of

# Invocations of a workgroup.
_GROUP = 64
_MOST_ROUNDS = 1 << 15


class ShaderKernel:
    """A loop as calls of a kernel, each of no more rounds than a shader may make.

    Raises:
        Unfit: a single trip makes more, or nobody knows how many.
    """

    def __init__(self, loop: Any, make: Callable[[Any], InvocationKernel | BufferedKernel]) -> None:
        self.kernel, self.parts = make(loop), None
        rounds, most = self.kernel.rounds, _MOST_ROUNDS - self.kernel.once
        if rounds > most:
            raise Unfit("a trip has more rounds than a shader may")
        if most_trips(loop) * rounds > most:
            self.parts = LoopInParts(loop, int(most // rounds))
            try:
                self.kernel = make(self.parts.inner)
            except Unfit:
                self.parts.undo()
                raise

    @property
    def form(self) -> str:
        return self.kernel.form

    @property
    def executable(self) -> Executable:
        return self.kernel.executable

    def replace(self, module: Any, name: str) -> None:
        """Put calls of the kernel in the place of the loop."""
        self.kernel.replace(module, name)
        if self.parts is not None:
            self.parts.take_place()


def for_one_invocation(loop: Any) -> BufferedKernel:
    """A kernel whose arrays lie in buffers."""
    return BufferedKernel(loop, INVOCATION)


class InvocationKernel:
    """A loop as an executable whose invocations have an element of each array, and all numbers.

    Attributes:
        rounds: of a trip, those of the loops within it counted.
        once: the rounds before the first trip.
    """

    form = "in invocations"
    once = 0

    def __init__(self, loop: Any, lanes: int) -> None:
        self.loop, self.writer = loop, Writer(lanes, 0)
        results = self.writer.loop(loop, [self.writer.read(x) for x in loop.operands], 1)
        self.rounds, _ = self.writer.out.last
        used = [i for i, x in enumerate(loop.results) if any(True for _ in x.uses)]
        inputs = {value: self._buffer(f"%in_{k}", form) for k, (value, form) in enumerate(self.writer.inputs.items())}
        self.outputs = {i: self._buffer(f"%out_{i}", results[i]) for i in used}
        self._write(list(inputs.values()), [results[i] for i in used])
        groups = -(-lanes // _GROUP)
        taken = {**inputs, **self.writer.tables}
        self.executable = Executable(self.writer.out, taken, list(self.outputs.values()), groups, group=_GROUP)

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the loop."""
        move_out(self.writer.before, self.loop)
        self.executable.call(module, name, self.loop, {b: self.loop.results[i] for i, b in self.outputs.items()})
        self.loop.operation.erase()

    def _buffer(self, name: str, form: Cells) -> Buffer:
        return Buffer(name, form.dtype, self.writer.lanes if form.lanes else form.names.size)

    def _write(self, inputs: Sequence[Buffer], results: Sequence[Cells]) -> None:
        """Put the loop, which is written, behind what reads its values and before what writes its results."""
        writer, out = self.writer, self.writer.out
        loop, out.lines = out.lines, []
        group, number = out.add("hal.interface.workgroup.id[0] : index"), out.add("gpu.thread_id x")
        first = out.add(f"arith.muli {group}, {out.index(_GROUP)} : index")
        lane = out.add(f"arith.addi {first}, {number} : index")
        inside = out.add(f"arith.cmpi ult, {lane}, {out.index(writer.lanes)} : index")
        out.lines.append(f"scf.if {inside} {{")
        for buffer, form in zip(inputs, writer.inputs.values()):
            for i, cell in enumerate(names_of(form)):
                self._load(cell, buffer, lane if form.lanes else out.index(i))
        out.lines += loop
        arrays = [(buffer, form) for buffer, form in zip(self.outputs.values(), results) if form.lanes]
        numbers = [(buffer, form) for buffer, form in zip(self.outputs.values(), results) if not form.lanes]
        for buffer, form in arrays:
            self._store(form.names.item(), form, buffer, lane)
        if numbers:
            first = out.add(f"arith.cmpi eq, {lane}, {out.index(0)} : index")
            out.lines.append(f"scf.if {first} {{")
            for buffer, form in numbers:
                for i, cell in enumerate(names_of(form)):
                    self._store(cell, form, buffer, out.index(i))
            out.lines.append("}")
        out.lines.append("}")

    def _store(self, name: str, form: Cells, buffer: Buffer, place: str) -> None:
        value = self.writer.to_store(name, form.dtype, form.lanes)
        self.writer.out.lines.append(f"memref.store {value}, {buffer.name}[{place}] : {buffer.type}")

    def _load(self, name: str, buffer: Buffer, place: str) -> None:
        """Give an element in memory the name under which the loop knows it."""
        out, memory = self.writer.out, stored(buffer.dtype)
        read = f"memref.load {buffer.name}[{place}] : {buffer.type}"
        if buffer.dtype.kind == "b":
            zero = out.constant(0, memory, "")
            read = f"arith.cmpi ne, {out.add(read)}, {zero} : i8"
        out.lines.append(f"{name} = {read}")
