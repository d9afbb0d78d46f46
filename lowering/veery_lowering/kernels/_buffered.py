"""Loops whose arrays lie in buffers: an executable of our own, and its call in the place of the loop."""

from __future__ import annotations

import math
from typing import Any

from veery_lowering.kernels import _control, _indexed, _moves, _sliding, _sums, _transforms  # noqa: F401  (each registers what it writes)
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._body import Body, checked
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Affine, Buffer, Uniform, View, whole
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._placing import move_out
from veery_lowering.kernels._reading import read_first

_LARGE = 1 << 16  # elements of an array that is a result even if nobody reads it


class BufferedKernel:
    """A loop as an executable that reads and writes buffers, in one thread.

    Attributes:
        rounds, steps: of a trip, those of the loops within it counted.
        once: the rounds before the first trip.

    Raises:
        Unfit: the loop cannot be written so.
    """

    def __init__(self, loop: Any, machine: Machine) -> None:
        self.form = "in buffers" if machine.has_vectors else "in one invocation"
        self.loop, self.body = loop, Body(machine)
        read_first(loop)
        types = [checked(x) for x in loop.operands]
        used = [any(True for _ in x.uses) or math.prod(shape) >= _LARGE for x, (shape, _) in zip(loop.results, types)]
        self.outputs = {
            i: Buffer(f"%out{i}", dtype, math.prod(shape)) for i, (shape, dtype) in enumerate(types) if used[i]
        }
        places: list[View | None] = []
        for i, (shape, dtype) in enumerate(types):
            if math.prod(shape) == 1:
                places.append(None)
            else:
                places.append(whole(self.outputs[i], shape) if used[i] else self.body.temporary(shape, dtype))
        self.body.invariants(loop)
        self.body.loop(loop, places, 1)
        self.rounds, self.steps = self.body.out.last
        self.once = self.body.out.rounds - self.rounds
        if self.steps > machine.most_steps:
            raise Unfit("a trip is too long for one invocation")
        for i, place in enumerate(places):
            if place is None and used[i]:
                form = self.body.read(loop.results[i])
                assert isinstance(form, Uniform)
                self.body.nests.store(form.name, whole(self.outputs[i], (1,)), Affine(), 0, 1)

        self.executable = Executable(
            self.body.out, self.body.inputs, list(self.outputs.values()), scratch=self.body.scratch, group=machine.group
        )

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the loop."""
        move_out(self.body.before, self.loop)
        self.executable.call(module, name, self.loop, {b: self.loop.results[i] for i, b in self.outputs.items()})
        self.loop.operation.erase()
