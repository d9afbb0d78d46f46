"""Loops whose values stay in registers: as scalars, or as vectors that a trip after the other is computed on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit, spelled
from veery_lowering.kernels._placing import MOST_BINDINGS, move_out, packed, unpacked
from veery_lowering.kernels._reading import static_shape
from veery_lowering.kernels._writer import Cells, Writer, names_of, stored
from veery_lowering.mlir import ir

# Larger arrays keep several cores busy, and a dispatch a trip is little beside the work.
_MOST_LANES = 1 << 15
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
    """A loop as the text of a function with one dispatch."""

    def __init__(self, loop: Any, lanes: int) -> None:
        self.writer = Writer(lanes, min(lanes, _WIDTH))
        self.loop = loop
        results = self.writer.loop(loop, [self.writer.read(x) for x in loop.operands])
        used = [i for i, x in enumerate(loop.results) if any(True for _ in x.uses)]
        self.results = {i: results[i] for i in used}
        if len(self.writer.inputs) + len(self.results) > MOST_BINDINGS:
            raise Unfit("more buffers than a dispatch has")

    # The module.

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the loop."""
        loop, body = self.loop, module.regions[0].blocks[0]
        with loop.location:
            parsed = ir.Module.parse(self.text(name), module.context)
            function = next(iter(parsed.body.operations))
            types = list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results)
            move_out(self.writer.before, loop)
            body.append(function.operation.detach_from_parent())
            with ir.InsertionPoint(loop):
                inputs = self.writer.inputs.items()
                given = [packed(value, _memory_shape(form, self.writer)) for value, form in inputs]
                for i, made in zip(self.results, hlo.call(name, given, types)):
                    result = loop.results[i]
                    result.replace_all_uses_with(unpacked(made, static_shape(result), hlo.dtype_of(result)))
        loop.erase()

    # The text.

    def text(self, name: str) -> str:
        """The kernel as a function of this name."""
        inputs = [self._memory(form) for form in self.writer.inputs.values()]
        outputs = [self._memory(form) for form in self.results.values()]
        listed: Callable[[Iterable[str]], str] = lambda items: ", ".join(items)
        given = listed(f"%a{k}" for k in range(len(inputs)))
        parameters = listed(f"%a{k}: {t}" for k, t in enumerate(inputs))
        arguments = [f"%r{k}: {_TENSOR}<readonly:{t}>" for k, t in enumerate(inputs)]
        arguments += [f"%w{k}: {_TENSOR}<writeonly:{t}>" for k, t in enumerate(outputs)]
        body = "\n".join(self._dispatch(inputs, outputs))
        return f"""
func.func private @{name}({parameters}) -> ({listed(outputs)}) {{
  %one = arith.constant 1 : index
  %result:{len(outputs)} = flow.dispatch.workgroups[%one]({given}) : ({listed(inputs)}) -> ({listed(outputs)}) =
      ({listed(arguments)}) {{
{body}
    flow.return
  }} count(%n: index) -> (index, index, index) {{
    %c = arith.constant 1 : index
    flow.return %c, %c, %c : index, index, index
  }}
  return {listed(f"%result#{k}" for k in range(len(outputs)))} : {listed(outputs)}
}}
"""

    def _dispatch(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """The operations of the dispatch."""
        out, loop = self.writer.out, self.writer.out.lines
        out.lines = []
        for k, (form, type_) in enumerate(zip(self.writer.inputs.values(), inputs)):
            self._load(k, form, type_)
        empty = [f"tensor.empty() : {self._memory(form)}" for form in self.results.values() if form.lanes]
        tensors = [out.add(text) for text in empty]
        if self.writer.width < self.writer.lanes:
            results = self._in_chunks(loop, tensors)
        else:
            out.lines.append("%start = arith.constant 0 : index")
            results = self._once(loop, tensors)
        for k, (type_, tensor) in enumerate(zip(outputs, self._as_tensors(results))):
            store = f"iree_tensor_ext.dispatch.tensor.store {tensor}, %w{k}, {_whole(type_)}"
            out.lines.append(f"{store} : {type_} -> {_TENSOR}<writeonly:{type_}>")
        return [*out.head, *out.lines]

    def _in_chunks(self, loop: Sequence[str], tensors: Sequence[str]) -> list[str]:
        """Run the loop on one vector after the other."""
        out, starts, inside, types = self.writer.out, [], [], []
        rest = iter(tensors)
        for form in self.results.values():
            if form.lanes:
                starts.append(next(rest))
                types.append(self._memory(form))
            else:
                starts += [out.constant(0, form.dtype, "")] * len(names_of(form))
                types += [spelled(form.dtype)] * len(names_of(form))
        inside = [out.new() for _ in starts]
        result, joined = out.new(), ", ".join(types)
        carried = ", ".join(f"{a} = {b}" for a, b in zip(inside, starts))
        bounds = f"{out.index(0)} to {out.index(self.writer.lanes)} step {out.index(self.writer.width)}"
        out.lines.append(f"{result}:{len(types)} = scf.for %start = {bounds} iter_args({carried}) -> ({joined}) {{")
        ends = self._once(loop, [name for name, start in zip(inside, starts) if start in tensors])
        out.lines += [f"scf.yield {', '.join(ends)} : {joined}", "}"]
        return [f"{result}#{k}" for k in range(len(types))]

    def _once(self, loop: Sequence[str], tensors: Sequence[str]) -> list[str]:
        """Run the loop on one vector, or on scalars alone; returns the tensors written, and the scalars."""
        out, rest = self.writer.out, iter(tensors)
        places = {i: next(rest) for i, form in self.results.items() if form.lanes}
        for k, form in enumerate(self.writer.inputs.values()):
            if form.lanes:
                read = self._vector(f"%t{k}", out.index(0), self._memory(form), form.dtype)
                self._name(form.names.item(), form, read)
        out.lines += loop
        ends: list[str] = []
        for i, form in self.results.items():
            if form.lanes:
                x = self.writer.to_store(form.names.item(), form.dtype, True)
                ends.append(self._write(x, places[i], out.index(0), self._memory(form), form.dtype))
            else:
                ends += names_of(form)
        return ends

    def _load(self, k: int, form: Cells, type_: str) -> None:
        """Read an input: a tensor, and from it the scalars."""
        out = self.writer.out
        name = f"%t{k}"
        source = f"%r{k}, {_whole(type_)} : {_TENSOR}<readonly:{type_}>"
        out.lines.append(f"{name} = iree_tensor_ext.dispatch.tensor.load {source} -> {type_}")
        if not form.lanes:
            for i, cell in enumerate(form.names.flat):
                self._name(cell, form, f"tensor.extract {name}[{out.index(0)}, {out.index(i)}] : {type_}")

    def _vector(self, tensor: str, row: str, type_: str, dtype: np.dtype) -> str:
        """Reading a vector of a row."""
        zero = self.writer.out.constant(0, stored(dtype), "")
        vector = spelled(stored(dtype), f"{self.writer.width}x")
        return f"vector.transfer_read {tensor}[{row}, %start], {zero} : {type_}, {vector}"

    def _write(self, x: str, tensor: str, row: str, type_: str, dtype: np.dtype) -> str:
        vector = spelled(stored(dtype), f"{self.writer.width}x")
        return self.writer.out.add(f"vector.transfer_write {x}, {tensor}[{row}, %start] : {vector}, {type_}")

    def _name(self, name: str, form: Cells, read: str) -> None:
        """Give what is read from memory the name under which the loop knows it."""
        out = self.writer.out
        if form.dtype.kind != "b":
            out.lines.append(f"{name} = {read}")
            return
        memory, shape = stored(form.dtype), f"{self.writer.width}x" if form.lanes else ""
        zero = out.constant(0, memory, shape)
        out.lines.append(f"{name} = arith.cmpi ne, {out.add(read)}, {zero} : {spelled(memory, shape)}")

    def _as_tensors(self, names: Sequence[str]) -> list[str]:
        """The results as tensors: those of scalars are made of them."""
        rest, tensors = iter(names), []
        for form in self.results.values():
            if form.lanes:
                tensors.append(next(rest))
                continue
            cells = [self.writer.to_store(next(rest), form.dtype, False) for _ in names_of(form)]
            tensors.append(self.writer.out.add(f"tensor.from_elements {', '.join(cells)} : {self._memory(form)}"))
        return tensors

    def _memory(self, form: Cells) -> str:
        """The type of a value in memory."""
        rows, row = _memory_shape(form, self.writer)
        return f"tensor<{rows}x{row}x{spelled(stored(form.dtype))}>"


def _memory_shape(form: Cells, writer: Writer) -> tuple[int, int]:
    """The shape of a value in memory: a matrix of its rows."""
    return 1, writer.lanes if form.lanes else form.names.size


_TENSOR = "!iree_tensor_ext.dispatch.tensor"


def _whole(type_: str) -> str:
    rows, row = type_.removeprefix("tensor<").split("x")[:2]
    return f"offsets = [0, 0], sizes = [{rows}, {row}], strides = [1, 1]"
