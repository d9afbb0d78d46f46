"""The commands of programs that are calls of kernels, written down.

Where kernels of veery's own compute all that a program computes, nothing is left to decide but the order in which they
run and where their values lie. IREE's passes up to the end of "stream" come to that through four dialects; here it is
written as the text of one function, which the passes behind them take as theirs. As with IREE a kernel runs as late as
those allow that read its results, with all of which that is true at the same time; and a value's memory is another
one's where nobody reads it any more.

ms of one processor to the first result, by IREE's passes and so: `x + 1` 57 and 49, a gelu 82 and 72, a batch of small
products 65 and 52.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from veery_lowering.mlir import inside, ir
from veery_lowering.passes.stream.arguments import donated_arguments, tell_donated

_ALIGNMENT = 64  # of values in the memory that they share, in bytes
_BYTES = {
    **{"i8": 1, "i16": 2, "i32": 4, "i64": 8, "bf16": 2, "f16": 2, "f32": 4, "f64": 8},
    **{"complex<f32>": 8, "complex<f64>": 16},
}
# Of which the result is the operand's memory, if it is as large.
_ALIASES = ("stablehlo.bitcast_convert", "stablehlo.reshape", "flow.tensor.clone")
_DEVICE = "__device_0"  # as IREE calls it
# How a function that calls a kernel of LAPACK's routines loads the two numbers that this is given first: where their
# table is. Here they are globals, which are set when a program is loaded.
_LOADS_TABLE = ["util.global.load", "arith.trunci", "arith.constant", "arith.shrui", "arith.trunci"]
_TABLE = """
util.func private @host.routines() -> i64 attributes {iree.abi.stub, nosideeffects}
util.global private @table_low : i32
util.global private @table_high : i32
util.initializer {
  %table = util.call @host.routines() {nosideeffects} : () -> i64
  %low = arith.trunci %table : i64 to i32
  %bits = arith.constant 32 : i64
  %above = arith.shrui %table, %bits : i64
  %high = arith.trunci %above : i64 to i32
  util.global.store %low, @table_low : i32
  util.global.store %high, @table_high : i32
  util.return
}"""
_LOADED_TABLE = """%low = util.global.load immutable @table_low : i32
%high = util.global.load immutable @table_high : i32"""
_ON = f"on(#hal.device.affinity<@{_DEVICE}>)"


class _Unknown(Exception):
    """Something in a module that is not written down here."""


class _Type(NamedTuple):
    """The type of an array.

    Attributes:
        text: as MLIR spells it.
        shape: its sizes.
        element: the type of its elements, as MLIR spells it.
        nbytes: its size.
    """

    text: str
    shape: tuple[int, ...]
    element: str
    nbytes: int

    @staticmethod
    def of(type_: ir.Type) -> _Type:
        if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
            raise _Unknown
        shape, element = tuple(type_.shape), str(type_.element_type).removeprefix("u")  # IREE's integers have no signs
        nbytes = math.prod(shape) * _BYTES.get(element, 0)
        if not nbytes:
            raise _Unknown
        return _Type(f"tensor<{'x'.join([*map(str, shape), element])}>", shape, element, nbytes)


@dataclass(eq=False)
class _Value:
    """What lies in memory: an argument of the program, or a result of a call.

    Attributes:
        nbytes: its size.
        argument: which argument it is, if it is one.
        output: which result of the program it is, if it is one.
        made: the number of the step in which it is written.
        read: that of the last one in which it is read.
        start: where it begins in the memory that it shares with others.
    """

    nbytes: int
    argument: int | None = None
    output: int | None = None
    made: int = 0
    read: int = 0
    start: int = 0


class _Call(NamedTuple):
    """A call of a kernel.

    Attributes:
        entry: the kernel's, as MLIR spells it.
        takes_table: whether it is told where the table of routines is.
        reads, writes: what it is given, and what it gives.
    """

    entry: str
    takes_table: bool
    reads: list[_Value]
    writes: list[_Value]


class _Program:
    """What a module of StableHLO computes.

    Args:
        module: it has a function `main`, and a function for each kernel, which calls it.

    Attributes:
        arguments, results: the types of what is taken and given.
        given: the arguments.
        calls: those of which something is read, in their order.
        returned: the results.

    Raises:
        _Unknown: it computes something beside.
    """

    def __init__(self, module: ir.Module) -> None:
        functions = {op.attributes["sym_name"].value: op for op in inside(module.operation) if op.name == "func.func"}
        main = functions.pop("main")
        self._kernels = {name: _kernel(function) for name, function in functions.items()}
        values = {x: _Value(_Type.of(x.type).nbytes, number) for number, x in enumerate(_arguments(main))}
        self.given = list(values.values())
        self.arguments = [_Type.of(x.type) for x in _arguments(main)]
        self.calls: list[_Call] = []
        *body, end = inside(main)
        for op in body:
            if op.name == "func.call":
                call = self._call(op, values)
                values.update(zip(op.results, call.writes))
                self.calls.append(call)
            elif op.name in _ALIASES and _is_as_large(op):
                values[op.results[0]] = values[op.operands[0]]
            elif any(True for x in op.results for _ in x.uses):
                raise _Unknown
        self.results = [_Type.of(x.type) for x in end.operands]
        self.returned = [values[x] for x in end.operands]
        for number, value in enumerate(self.returned):
            if value.argument is not None or value.output is not None:
                raise _Unknown  # a copy of something else
            value.output = number

    def _call(self, op: Any, values: dict[ir.Value, _Value]) -> _Call:
        kernel = self._kernels[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
        given = [values[x] for x in op.operands]
        made = [_Value(_Type.of(x.type).nbytes) for x in kernel.made]
        return _Call(kernel.entry, kernel.takes_table, [given[k] for k in kernel.taken], made)

    def schedule(self) -> list[list[_Call]]:
        """The calls in steps, those of one at the same time: each in the last one before all that read its results."""
        steps: list[list[_Call]] = []
        latest: dict[_Value, int] = {}  # counted from the end
        for call in reversed(self.calls):
            if not any(value in latest or value.output is not None for value in call.writes):
                continue  # nobody reads it
            step = max((latest[value] + 1 for value in call.writes if value in latest), default=0)
            if step == len(steps):
                steps.append([])
            steps[step].append(call)
            for value in call.reads:
                latest[value] = max(step, latest.get(value, 0))
        steps = [calls[::-1] for calls in reversed(steps)]
        for number, calls in enumerate(steps):
            for call in calls:
                for value in call.writes:
                    value.made = value.read = number
                for value in call.reads:
                    value.read = number
        return steps


class _Kernel(NamedTuple):
    """A function that calls a kernel.

    Attributes:
        entry: the kernel's, as MLIR spells it.
        takes_table: as of _Call.
        taken: which arguments of the function the kernel is given.
        made: what the kernel gives; the function may give less.
    """

    entry: str
    takes_table: bool
    taken: list[int]
    made: list[ir.Value]


def _kernel(function: Any) -> _Kernel:
    arguments = {x: number for number, x in enumerate(_arguments(function))}
    operations = inside(function)
    *before, called, returned = [op.name for op in operations]
    if (called, returned) != ("flow.dispatch", "func.return") or before not in ([], _LOADS_TABLE):
        raise _Unknown
    *_, dispatch, end = operations
    table = [operations[1].results[0], operations[4].results[0]] if before else []
    numbers, given = list(dispatch.operands)[: len(table)], list(dispatch.operands)[len(table) :]
    if numbers != table:
        raise _Unknown
    made = list(dispatch.results)
    if list(end.operands) != made[: len(end.operands)]:
        raise _Unknown
    (entry,) = dispatch.attributes["entry_points"]
    return _Kernel(str(entry), bool(table), [arguments[x] for x in given], made)


def _is_as_large(op: Any) -> bool:
    return _Type.of(op.results[0].type).nbytes == _Type.of(op.operands[0].type).nbytes


def _arguments(function: Any) -> list[ir.Value]:
    return list(function.regions[0].blocks[0].arguments)


def write_commands(module: ir.Module, device: str) -> ir.Module | None:
    """What IREE's passes up to the end of "stream" make of a module, for calls that do not wait.

    Args:
        module: of StableHLO; its kernels are moved to the result.
        device: what it is compiled for, as an attribute.

    Returns:
        A module in the same context; None for one that does more than call kernels, or returns something twice.
    """
    try:
        program = _Program(module)
    except _Unknown:
        return None
    if not program.calls or not program.returned:
        return None
    name = module.operation.attributes["sym_name"] if "sym_name" in module.operation.attributes else None
    written = ir.Module.parse(_Text(program, device).module(), module.context)
    if name is not None:
        written.operation.attributes["sym_name"] = name
    donated = donated_arguments(module)
    tell_donated(written.operation, [number in donated for number in range(len(program.given))])
    for op in inside(module.operation):
        if op.name == "hal.executable.source":
            written.body.append(op.detach_from_parent())
    return written


class _Text:
    """The text of a program's commands.

    Args:
        program: what is computed.
        device: what it is compiled for, as an attribute.
    """

    def __init__(self, program: _Program, device: str) -> None:
        self._program, self._device = program, device
        self._numbers: dict[int, None] = {}
        self._elements: dict[str, None] = {}
        self._steps = program.schedule()
        made = [value for calls in self._steps for call in calls for value in call.writes]
        # One allocation for what is returned, and one for what is not.
        self._results = sum(_padded(value.nbytes) for value in program.returned[:-1]) + program.returned[-1].nbytes
        start = 0
        for value in program.returned:
            value.start = start
            start += _padded(value.nbytes)
        self._scratch = _place(value for value in made if value.output is None)
        self._read = list(dict.fromkeys(value for calls in self._steps for call in calls for value in call.reads))

    def module(self) -> str:
        """A module of the function alone."""
        count, results = len(self._program.given), self._program.results
        arguments = ", ".join(f"%arg{k}: !hal.{'buffer_view' if k < count else 'fence'}" for k in range(count + 2))
        lines = [*self._takes(), *self._allocates(), *self._executes(), *self._gives()]
        constants = [f"%c{n} = arith.constant {n} : index" for n in self._numbers]
        elements = [f"%{_plain(e)} = hal.element_type<{e}> : i32" for e in self._elements]
        takes_table = any(call.takes_table for calls in self._steps for call in calls)
        table, loaded = (_TABLE, [_LOADED_TABLE]) if takes_table else ("", [])
        body = "\n".join([*constants, *elements, *loaded, *lines])
        taken = ", ".join(f"%input{k}: {x.text}" for k, x in enumerate(self._program.arguments))
        given = ", ".join(f"%output{k}: {x.text}" for k, x in enumerate(results))
        declaration = f"async func @main({taken}) -> ({given})"
        reflection = f'{{iree.abi.declaration = "{declaration}", iree.abi.model = "coarse-fences"}}'
        return f"""
module attributes {{stream.affinity.default = #hal.device.affinity<@{_DEVICE}>}} {{
util.global private @{_DEVICE} = {self._device}{table}
util.func public @main({arguments}) -> ({", ".join(["!hal.buffer_view"] * len(results))})
    attributes {{iree.abi.stub, iree.reflection = {reflection}}} {{
%rows = hal.encoding_type<dense_row_major> : i32
{body}
}}
}}"""

    def _takes(self) -> Iterable[str]:
        for k, type_ in enumerate(self._program.arguments):
            shape = ", ".join(map(self._number, type_.shape))
            yield (
                f'hal.buffer_view.assert<%arg{k} : !hal.buffer_view> message("input{k}") shape([{shape}])'
                f" type({self._element(type_.element)}) encoding(%rows)"
            )
            resource = self._resource("external", type_.nbytes)
            yield f"%in{k} = stream.tensor.import {_ON} %arg{k} : !hal.buffer_view -> {type_.text} in {resource}"

    def _allocates(self) -> Iterable[str]:
        fence = f"%arg{len(self._program.given)}"
        yield f"%called = stream.timepoint.import {_ON} {fence} : (!hal.fence) => !stream.timepoint"
        yield self._allocated("results", "external", self._results)
        if self._scratch:
            yield self._allocated("scratch", "transient", self._scratch)
            yield "%allocated = stream.timepoint.join max(%results_there, %scratch_there) => !stream.timepoint"

    def _allocated(self, name: str, kind: str, nbytes: int) -> str:
        resource = self._resource(kind, nbytes)
        return (
            f"%{name}, %{name}_there = stream.resource.alloca uninitialized {_ON} await(%called) => {resource}"
            " => !stream.timepoint"
        )

    def _executes(self) -> Iterable[str]:
        given = [value for value in self._read if value.argument is not None]
        captured = [(f"in{v.argument}", self._memory(v)) for v in given]
        captured += [("results", self._resource("external", self._results))]
        captured += [("scratch", self._resource("transient", self._scratch))] * bool(self._scratch)
        listed = ", ".join(f"%{name} as %_{name}: {resource}" for name, resource in captured)
        start = "%allocated" if self._scratch else "%results_there"
        yield f"%executed = stream.cmd.execute {_ON} await({start}) => with({listed}) {{"
        for calls in self._steps:
            yield from ["stream.cmd.concurrent {"] * (len(calls) > 1)
            for call in calls:
                accesses = [self._access("ro", value) for value in call.reads]
                accesses += [self._access("wo", value) for value in call.writes]
                told = "(%low, %high : i32, i32)" * call.takes_table
                yield f"stream.cmd.dispatch {call.entry}{told} {{ {', '.join(accesses)} }}"
            yield from ["}"] * (len(calls) > 1)
        yield "} => !stream.timepoint"

    def _access(self, mode: str, value: _Value) -> str:
        start, nbytes = self._number(value.start), self._number(value.nbytes)
        return f"{mode} %_{self._name(value)}[{start} for {nbytes}] : {self._memory(value)}"

    def _name(self, value: _Value) -> str:
        """That of the memory in which a value is."""
        if value.argument is not None:
            return f"in{value.argument}"
        return "scratch" if value.output is None else "results"

    def _memory(self, value: _Value) -> str:
        """The type of the memory in which a value is."""
        if value.argument is not None:
            return self._resource("external", value.nbytes)
        if value.output is None:
            return self._resource("transient", self._scratch)
        return self._resource("external", self._results)

    def _gives(self) -> Iterable[str]:
        end, whole = "%executed", self._resource("external", self._results)
        if self._scratch:
            memory = self._resource("transient", self._scratch)
            given_back = f"%scratch : {memory} => !stream.timepoint"
            yield f"%freed = stream.resource.dealloca {_ON} await(%executed) => {given_back}"
            end = "%freed"
        yield f"stream.timepoint.chain_external {_ON} {end} => (%arg{len(self._program.given) + 1} : !hal.fence)"
        for k, (value, type_) in enumerate(zip(self._program.returned, self._program.results)):
            resource = self._resource("external", value.nbytes)
            source = "%results"
            if len(self._program.returned) > 1:
                source = f"%result{k}"
                start = self._number(value.start)
                yield f"{source} = stream.resource.subview %results[{start}] : {whole} -> {resource}"
            yield f"%out{k} = stream.tensor.export {_ON} {source} : {type_.text} in {resource} -> !hal.buffer_view"
        count = len(self._program.returned)
        names, types = (", ".join(each) for each in ([f"%out{k}" for k in range(count)], ["!hal.buffer_view"] * count))
        yield f"util.return {names} : {types}"

    def _resource(self, kind: str, nbytes: int) -> str:
        return f"!stream.resource<{kind}>{{{self._number(nbytes)}}}"

    def _number(self, n: int) -> str:
        self._numbers[n] = None
        return f"%c{n}"

    def _element(self, name: str) -> str:
        self._elements[name] = None
        return f"%{_plain(name)}"


def _plain(element: str) -> str:
    """The name of a type of elements in names of values."""
    return re.sub(r"\W", "_", element)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _place(values: Iterable[_Value]) -> int:
    """Give values places in memory that they share, those that are needed at the same time apart; returns its size.

    The large ones come first, each into the smallest gap that there is for it: Pisarchyk and Lee, "Efficient Memory
    Management for Deep Neural Net Inference", 2020.
    """
    placed: list[_Value] = []
    for value in sorted(values, key=lambda value: -value.nbytes):
        others = [x for x in placed if x.made <= value.read and value.made <= x.read]
        value.start = _gap(others, _padded(value.nbytes))
        placed.append(value)
        placed.sort(key=lambda value: value.start)
    return max((value.start + _padded(value.nbytes) for value in placed), default=0)


def _gap(others: Sequence[_Value], nbytes: int) -> int:
    """Where the smallest gap between values begins that has so many bytes, or the place behind them."""
    end, best = 0, None
    for other in others:
        gap = other.start - end
        if gap >= nbytes and (best is None or gap < best[0]):
            best = gap, end
        end = max(end, other.start + _padded(other.nbytes))
    return end if best is None else best[1]
