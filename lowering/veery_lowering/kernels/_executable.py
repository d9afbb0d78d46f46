"""What the operations of a kernel become: an executable, and a function that calls it."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Lines, Unfit
from veery_lowering.kernels._bindings import Binding, bindings
from veery_lowering.kernels._forms import Buffer
from veery_lowering.kernels._placing import MOST_BINDINGS, packed, unpacked
from veery_lowering.mlir import CODE, IN_PLACE, WRITTEN_AS, ir

_NAME = "<name>"  # in texts, in the place of a kernel's

# How IREE compiles a shader that is written out: as it is.
_SHADER = "#iree_gpu.spirv_pipeline<BaseLowering>"

# What a dispatch of several results is given that reads nothing: IREE 3.13 would run it again where it copies a result,
# and take the first one of that run for whichever it was.
_UNREAD = Buffer("%unread", np.dtype("float32"), 1)

# A table's address is asked for when a program is loaded, before its commands are recorded.
_TABLE = """
util.func private @host.routines() -> i64 attributes {iree.abi.model = "sync", nosideeffects}
util.global private @veery_routines : i64
util.initializer {
  %table = util.call @host.routines() : () -> i64
  util.global.store %table, @veery_routines : i64
  util.return
}"""
_LOAD_TABLE = """
  %table = util.global.load @veery_routines : i64
  %low = arith.trunci %table : i64 to i32
  %bits = arith.constant 32 : i64
  %above = arith.shrui %table, %bits : i64
  %high = arith.trunci %above : i64 to i32"""


class Executable:
    """What was written, as a dispatch.

    Args:
        out: the operations.
        inputs: the buffers of what is read.
        outputs: the buffers of the results.
        workgroups: how many run it.
        scratch: memory beyond the stack.
        group: the invocations of a workgroup, on GPUs; 0 on the CPU.
        in_place: inputs and outputs that may be the same memory.
        takes_table: whether it is told, as two numbers, where the table of routines is (see veery_lowering.addresses).

    Raises:
        Unfit: it has more buffers than a dispatch may have.
    """

    def __init__(
        self,
        out: Lines,
        inputs: Mapping[Any, Buffer],
        outputs: Sequence[Buffer],
        workgroups: int = 1,
        scratch: Sequence[Buffer] = (),
        group: int = 0,
        in_place: Iterable[tuple[Buffer, Buffer]] = (),
        takes_table: bool = False,
    ) -> None:
        self.out, self.inputs, self.workgroups, self.scratch, self.group = out, inputs, workgroups, scratch, group
        self.taken = bindings(inputs.values() or [_UNREAD] * (len(outputs) > 1))
        self.made = bindings(outputs)
        self._in_place = list(in_place)
        self._takes_table = takes_table
        if not group:
            self.join(MOST_BINDINGS)
        elif self._count > MOST_BINDINGS:
            raise Unfit("more buffers than a dispatch has")

    def join(self, most: int) -> None:
        """Have small buffers share bindings if there are more than so many. (In SPIR-V a buffer has no parts.)

        Raises:
            Unfit: there are more even so.
        """
        if self._count > most:
            self.taken, self.made = (
                bindings([buffer for binding in each for buffer in binding.buffers], shared=True)
                for each in (self.taken, self.made)
            )
        if self._count > most:
            raise Unfit("more buffers than a dispatch has")

    def call(self, module: Any, name: str, before: Any, results: Mapping[Buffer, Any], of: Any = None) -> None:
        """Put a call in front of an operation, and what it gives in the place of values.

        If the module has a function of this name, it is the same kernel. It is said to come from where the operation
        does, or another one, `of`.
        """
        with (of or before).location:
            function = self._written(module, name) or self._write(module, name)
            types = list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results)
            with ir.InsertionPoint(before):
                values = {buffer: packed(value, (buffer.length,)) for value, buffer in self.inputs.items()}
                if any(_UNREAD in binding.buffers for binding in self.taken):
                    values[_UNREAD] = hlo.full(0, (_UNREAD.size,), _UNREAD.dtype)
                given = [binding.joined(values) for binding in self.taken]
                for binding, made in zip(self.made, hlo.call(name, given, types)):
                    for buffer, part in binding.parts(made):
                        result = results[buffer]
                        result.replace_all_uses_with(unpacked(part, list(hlo.shape_of(result)), hlo.dtype_of(result)))

    def settle(self, numbers: Mapping[Any, int]) -> None:
        """Keep of what was written the text alone, and numbers in the place of values; see `reading`."""
        self.inputs = {numbers[value]: buffer for value, buffer in self.inputs.items()}
        _ = self.written_as
        self.out = Lines()

    def reading(self, values: Sequence[Any]) -> Executable:
        """The same of other values, in the place of the numbers of these."""
        other = copy.copy(self)
        other.inputs = {values[number]: buffer for number, buffer in self.inputs.items()}
        return other

    def _written(self, module: Any, name: str) -> Any:
        functions = [op for op in module.regions[0].blocks[0] if op.operation.name == "func.func"]
        return next((f for f in functions if ir.StringAttr(f.attributes["sym_name"]).value == name), None)

    def _write(self, module: Any, name: str) -> Any:
        parsed = ir.Module.parse(self._interface.replace(_NAME, name), module.context)
        *table, executable, function = parsed.body.operations
        for attribute, text in ((CODE, self.code.replace(_NAME, name)), (WRITTEN_AS, self.written_as)):
            executable.operation.attributes[attribute] = ir.StringAttr.get(text, module.context)
        block = module.regions[0].blocks[0]
        if table and not any(op.operation.name == "util.global" for op in block):
            first = block.operations[0].operation
            for op in table:
                op.operation.move_before(first)
        for op in (executable, function):
            block.append(op.operation.detach_from_parent())
        return function

    @functools.cached_property
    def written_as(self) -> str:
        """What it is known by: equal kernels have the same, whatever they are called."""
        return hashlib.sha256((self._interface + self.code).encode()).hexdigest()

    @functools.cached_property
    def _interface(self) -> str:
        """The executable without its code, and the function that calls it."""
        inputs, outputs = self.taken, [*self.made, *self._scratch()]
        given = ", ".join(f"%a{k}: {binding.tensor}" for k, binding in enumerate(inputs))
        names = ", ".join(f"%a{k}" for k in range(len(inputs)))
        taken, made = (", ".join(binding.tensor for binding in each) for each in (inputs, outputs))
        before, table = (_TABLE, "%low, %high, ") if self._takes_table else ("", "")
        numbers = "i32, i32, " if self._takes_table else ""
        return f"""{before}
hal.executable.source private @{_NAME}_code{self._shared()} {{
  hal.executable.export public @{_NAME}_run ordinal(0) layout({self._layout})
      count(%device: !hal.device) -> (index, index, index) {{
    %count = arith.constant {self.workgroups} : index
    %one = arith.constant 1 : index
    hal.return %count, %one, %one : index, index, index
  }}
  builtin.module {{}}
}}
func.func private @{_NAME}({given}) -> ({made}) {{
{_LOAD_TABLE if self._takes_table else ""}
  %result:{len(outputs)} = flow.dispatch @{_NAME}_code::@{_NAME}_run({table}{names}) : ({numbers}{taken}) -> ({made})
  return {", ".join(f"%result#{k}" for k in range(len(outputs)))} : {made}
}}
"""

    @functools.cached_property
    def code(self) -> str:
        """What stands in the executable's module, with another name in the place of the kernel's."""
        lowering = f"#iree_codegen.translation_info<pipeline = {_SHADER} workgroup_size = [{self.group}, 1, 1]>"
        how = f" attributes {{translation_info = {lowering}}}" if self.group else ""
        lines = "\n".join(self._lines([*self.taken, *self.made, *self._scratch()]))
        return f"#layout = {self._layout}\nfunc.func @{_NAME}_run(){how} {{\n{lines}\nreturn\n}}\n"

    @functools.cached_property
    def _layout(self) -> str:
        outputs = [*self.made, *self._scratch()]
        # Indirect: else IREE records the commands of a program anew in each call, 0.3 us a dispatch.
        access = ["ReadOnly|Indirect"] * len(self.taken) + ["Indirect"] * len(outputs)
        listed = ", ".join(f'#hal.pipeline.binding<storage_buffer, "{flags}">' for flags in access)
        constants = "constants = 2, " if self._takes_table else ""
        return f"#hal.pipeline.layout<{constants}bindings = [{listed}], flags = Indirect>"

    def _shared(self) -> str:
        """Which bindings may be the same memory, as an attribute: numbers of inputs, each with one of an output."""
        singles = {each.single: k for k, each in enumerate([*self.taken, *self.made]) if each.single is not None}
        pairs = [(singles[a], singles[b]) for a, b in self._in_place if a in singles and b in singles]
        numbers = ", ".join(str(k) for pair in pairs for k in pair)
        return f" attributes {{{IN_PLACE} = array<i64: {numbers}>}}" if pairs else ""

    @property
    def _count(self) -> int:
        return len(self.taken) + len(self.made) + len(self._scratch())

    def _scratch(self) -> list[Binding]:
        """The memory beyond the stack: as one binding, but shaders have no views of other types."""
        if self.group:
            return bindings(self.scratch)
        return [Binding("i8", tuple(self.scratch))] if self.scratch else []

    def _lines(self, given: Sequence[Binding]) -> list[str]:
        out, bound = self.out, []
        for k, binding in enumerate(given):
            subspan = f"hal.interface.binding.subspan layout(#layout) binding({k}) offset({out.index(0)})"
            if binding.single is not None:
                bound.append(f"{binding.single.name} = {subspan} : {binding.single.type}")
                continue
            whole = f"memref<{binding.nbytes}xi8>"
            bound.append(f"%bytes{k} = {subspan} : {whole}")
            for buffer, start in binding.starts():
                bound.append(f"{buffer.name} = memref.view %bytes{k}[{out.index(start)}][] : {whole} to {buffer.type}")
        return [*out.head, *bound, *out.prologue, *out.lines]
