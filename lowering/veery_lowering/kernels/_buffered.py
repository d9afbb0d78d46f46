"""Loops whose arrays lie in buffers: an executable of our own, and its call in the place of the loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import _control, _indexed, _moves, _sums  # noqa: F401  (each registers what it writes)
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._bindings import Binding, bindings
from veery_lowering.kernels._body import Body, checked
from veery_lowering.kernels._forms import Affine, Buffer, Uniform, View, whole
from veery_lowering.kernels._placing import MOST_BINDINGS, move_out, packed, unpacked
from veery_lowering.mlir import ir


class BufferedKernel:
    """A loop as an executable that reads and writes buffers.

    Raises:
        Unfit: the loop cannot be written so.
    """

    def __init__(self, loop: Any) -> None:
        self.loop, self.body = loop, Body()
        used = [any(True for _ in x.uses) for x in loop.results]
        types = [checked(x) for x in loop.operands]
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
        self.body.loop(loop, places)
        for i, place in enumerate(places):
            if place is None and used[i]:
                form = self.body.read(loop.results[i])
                assert isinstance(form, Uniform)
                self.body.nests.store(form.name, whole(self.outputs[i], (1,)), Affine(), 0, 1)

        self.taken, self.made = bindings(self.body.inputs.values()), bindings(self.outputs.values())
        if len(self.taken) + len(self.made) + bool(self.body.scratch) > MOST_BINDINGS:
            taken, made = (bindings(given.values(), shared=True) for given in (self.body.inputs, self.outputs))
            self.taken, self.made = taken, made
        if len(self.taken) + len(self.made) + bool(self.body.scratch) > MOST_BINDINGS:
            raise Unfit("more buffers than a dispatch has")

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the loop."""
        loop, top = self.loop, module.regions[0].blocks[0]
        with loop.location:
            parsed = ir.Module.parse(self.text(name), module.context)
            executable, function = parsed.body.operations
            types = list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results)
            move_out(self.body.before, loop)
            for op in (executable, function):
                top.append(op.operation.detach_from_parent())
            with ir.InsertionPoint(loop):
                values = {buffer: packed(value, (buffer.size,)) for value, buffer in self.body.inputs.items()}
                results = {buffer: loop.results[i] for i, buffer in self.outputs.items()}
                given = [binding.joined(values) for binding in self.taken]
                for binding, made in zip(self.made, hlo.call(name, given, types)):
                    for buffer, part in binding.parts(made):
                        result = results[buffer]
                        result.replace_all_uses_with(unpacked(part, list(hlo.shape_of(result)), hlo.dtype_of(result)))
        loop.operation.erase()

    def text(self, name: str) -> str:
        """The executable, and the function of this name that calls it."""
        inputs, outputs = self.taken, [*self.made, *self._scratch()]
        given = ", ".join(f"%a{k}: {binding.tensor}" for k, binding in enumerate(inputs))
        names = ", ".join(f"%a{k}" for k in range(len(inputs)))
        taken, made = (", ".join(binding.tensor for binding in each) for each in (inputs, outputs))
        bindings = ["ReadOnly" for _ in inputs] + ["" for _ in outputs]
        listed = ", ".join(f"#hal.pipeline.binding<storage_buffer{', ' * bool(b)}{b}>" for b in bindings)
        layout = f"#hal.pipeline.layout<bindings = [{listed}]>"
        return f"""
hal.executable.source private @{name}_code {{
  hal.executable.export public @{name}_run ordinal(0) layout({layout})
      count(%device: !hal.device) -> (index, index, index) {{
    %one = arith.constant 1 : index
    hal.return %one, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @{name}_run() {{
{chr(10).join(self._lines(layout, [*inputs, *outputs]))}
      return
    }}
  }}
}}
func.func private @{name}({given}) -> ({made}) {{
  %result:{len(outputs)} = flow.dispatch @{name}_code::@{name}_run({names}) : ({taken}) -> ({made})
  return {", ".join(f"%result#{k}" for k in range(len(outputs)))} : {made}
}}
"""

    def _scratch(self) -> list[Binding]:
        """The memory beyond the stack as one binding."""
        return [Binding("i8", tuple(self.body.scratch))] if self.body.scratch else []

    def _lines(self, layout: str, given: Sequence[Binding]) -> list[str]:
        out, bound = self.body.out, []
        for k, binding in enumerate(given):
            subspan = f"hal.interface.binding.subspan layout({layout}) binding({k}) offset({out.index(0)})"
            if binding.single is not None:
                bound.append(f"{binding.single.name} = {subspan} : {binding.single.type}")
                continue
            whole = f"memref<{binding.nbytes}xi8>"
            bound.append(f"%bytes{k} = {subspan} : {whole}")
            for buffer, start in binding.starts():
                bound.append(f"{buffer.name} = memref.view %bytes{k}[{out.index(start)}][] : {whole} to {buffer.type}")
        return [*out.head, *bound, *self.body.prologue, *out.lines]
