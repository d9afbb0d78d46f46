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
from veery_lowering.kernels._forms import Buffer
from veery_lowering.kernels._machine import INVOCATION
from veery_lowering.kernels._placing import MOST_BINDINGS
from veery_lowering.kernels._registers import RegisterKernel
from veery_lowering.kernels._rounds import LoopInParts, most_trips
from veery_lowering.kernels._writer import Cells, names_of

# Invocations of a workgroup.
_GROUP = 64
_MOST_ROUNDS = 1 << 15


class ShaderKernel:
    """A loop as calls of a kernel, each of no more rounds than a shader may make.

    Args:
        make: makes the kernel of a loop.
        most: how many bindings it may have.

    Raises:
        Unfit: a single trip makes more rounds, or nobody knows how many, or there are more bindings.
    """

    def __init__(
        self, loop: Any, make: Callable[[Any], InvocationKernel | BufferedKernel], most: int = MOST_BINDINGS
    ) -> None:
        self.kernel, self.parts = make(loop), None
        rounds, most_rounds = self.kernel.rounds, _MOST_ROUNDS - self.kernel.once
        if rounds > most_rounds:
            raise Unfit("a trip has more rounds than a shader may")
        if most_trips(loop) * rounds <= most_rounds:
            self._bind(most)
        else:
            self.parts = LoopInParts(loop, int(most_rounds // rounds))
            try:
                self.kernel = make(self.parts.inner)
                self._bind(most)
            except Unfit:
                self.parts.undo()
                raise

    def _bind(self, most: int) -> None:
        if most < MOST_BINDINGS:
            self.executable.join(most)

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


class InvocationKernel(RegisterKernel):
    """A loop as an executable whose invocations have an element of each array, and all numbers."""

    form = "in invocations"
    width, group = 0, _GROUP

    def _workgroups(self) -> int:
        return -(-self.writer.lanes // _GROUP)

    def _write(self, inputs: Sequence[Buffer], results: Sequence[Cells], workgroups: int) -> None:
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
                place = lane if form.lanes else out.index(i)
                self._name(cell, form, f"memref.load {buffer.name}[{place}] : {buffer.type}")
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
