"""Programs for CUDA, run without a GPU: the host's part by an interpreter of IREE's "hal" dialect, kernels by `ptx`.

Dispatches between two barriers, which a GPU runs in any order, are compared: what one of them writes no other may
touch. Vectors may be read past the end of a buffer, within its last 64 bytes, which drivers align.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from support.ptx import Kernel

import veery_lowering
from veery_lowering.mlir import context, ir

_GARBAGE = 0xA5  # what memory holds that nobody has written
_ALIGNED = 64
_COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]  # and of naturals
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.maxui": max,
    "arith.minui": min,
    "arith.divui": operator.floordiv,
    "arith.divsi": lambda x, y: int(x / y),
    "arith.remui": operator.mod,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.select": lambda c, x, y: x if c else y,
    "arith.shrui": operator.rshift,
    "arith.shli": operator.lshift,
    "arith.index_cast": lambda x: x,
    "arith.index_castui": lambda x: x,
    "arith.extui": int,
    "arith.extsi": int,
    "arith.trunci": int,
    "util.cmp.eq": lambda x, y: x is y,
    "util.optimization_barrier": lambda x: x,
    "hal.buffer_view.buffer": lambda x: x,
    "hal.buffer.subspan": lambda x, at, size: x[at:],  # whose vectors may be read past its end
    "hal.buffer_view.create": lambda x, at, size, *_: x[at : at + size],
    "hal.devices.count": lambda: 1,
    "hal.devices.get": lambda i: "device",
    "hal.device.query": lambda device: (True, True),
    "hal.executable.create": lambda *_: "executable",
    "hal.allocator.allocate": lambda *given: _memory(given[-1]),
    "hal.device.queue.alloca": lambda *given: _memory(given[-1]),
    "hal.allocator.import": lambda *given: (True, given[4][given[5] :][: given[6]].copy()),
    "hal.ex.file.from_memory": lambda *given: given[2][given[3] :][: given[4]],
    "hal.command_buffer.create": lambda *_: [],
}
# What comes to nothing where all is done in order.
_NOTHING = (
    "hal.fence. hal.buffer_view.assert hal.buffer.assert hal.device.allocator hal.memory_type hal.buffer_usage"
    " hal.element_type hal.encoding_type hal.command_buffer.finalize hal.device.queue.dealloca util.null"
    " util.status.check_ok hal.device.queue.barrier"
).split()

Array = np.ndarray[Any, Any]


class Unsupported(Exception):
    """A program does what is not known here."""


def run(closed: Any, args: Sequence[Array]) -> list[Array]:
    """The results of a program, a closed jaxpr."""
    lowered = veery_lowering.lower(closed, target="cuda", options=veery_lowering.Options(cache=False))
    with context():
        machine = _Machine(lowered.intermediate("hal"), lowered.compile().vmfb)
        found = machine.call([_memory(x.nbytes, np.ascontiguousarray(x).reshape(-1).view(np.uint8)) for x in args])
    shapes = [(aval.shape, np.dtype(aval.dtype)) for aval in closed.out_avals]
    return [
        x[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for x, (shape, dtype) in zip(found, shapes, strict=True)
    ]


def _memory(size: int, values: Any = _GARBAGE) -> Array:
    found = np.full(-(-max(size, 1) // _ALIGNED) * _ALIGNED, _GARBAGE, np.uint8)
    found[:size] = values
    return found


@dataclass
class _Command:
    """A dispatch, a fill, a copy or a barrier; buffers are arrays, or numbers of those that a submission brings."""

    kind: str
    buffers: list[tuple[Any, int, int]] = field(default_factory=list)
    kernel: Kernel | None = None
    grid: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    pattern: bytes = b""


class _Machine:
    def __init__(self, text: str, vmfb: bytes) -> None:
        program = vmfb.decode("latin1")
        codes = program.split(".visible .entry ")[1:]
        self.kernels = {code[: code.index("(")].strip(): Kernel(code, program) for code in codes}
        self.globals: dict[str, Any] = {}
        self.module = ir.Module.parse(text)
        self.functions: dict[str, Any] = {}
        for op in self.module.body.operations:
            if op.operation.name == "util.func":
                self.functions[op.attributes["sym_name"].value] = op.operation

    def call(self, args: Sequence[Array]) -> list[Array]:
        """Run initializers, and `main` on the bytes of its arguments."""
        for op in self.module.body.operations:
            if op.operation.name == "util.initializer":
                self.function(op.operation, [])
        main = self.functions["main"]
        fences = len(main.regions[0].blocks[0].arguments) - len(args)
        results: list[Array] = self.function(main, [*args, *[None] * fences])
        return results

    def function(self, function: Any, args: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}
        blocks = list(function.regions[0].blocks)
        if not blocks:
            raise Unsupported("a call of the host")
        block, given = blocks[0], list(args)
        while True:
            values.update(zip(block.arguments, given, strict=True))
            for each in block.operations:
                op = each.operation
                given = [values[x] for x in op.operands]
                if op.name == "util.return":
                    return given
                if op.name.startswith("cf."):
                    break
                found = self.operation(op, given)
                if len(op.results) == 1:
                    values[op.results[0]] = found
                elif len(op.results) > 1:
                    values.update(zip(op.results, found, strict=True))
            if op.name == "cf.br":
                block = op.successors[0]
            elif op.name == "cf.cond_br":
                _, on_true, _ = op.attributes["operandSegmentSizes"]
                block = op.successors[0 if given[0] else 1]
                given = given[1 : 1 + on_true] if given[0] else given[1 + on_true :]
            else:
                raise Unsupported(op.name)

    def operation(self, op: Any, given: list[Any]) -> Any:
        """What an operation gives."""
        if op.name in _ARITHMETIC:
            return _ARITHMETIC[op.name](*given)
        if any(op.name.startswith(name) for name in _NOTHING):
            return 0 if op.name == "hal.fence.await" else None
        handler = getattr(self, op.name.replace(".", "_"), None)
        if handler is None:
            raise Unsupported(str(op)[:200])
        return handler(op, *given)

    def arith_constant(self, op: Any) -> int:
        return int(op.attributes["value"].value)

    def arith_cmpi(self, op: Any, x: int, y: int) -> bool:
        predicate = int(op.attributes["predicate"])
        return bool(_COMPARE[predicate if predicate < 6 else predicate - 4](x, y))

    def util_global_load(self, op: Any) -> Any:
        return self.globals.get(op.attributes["global"].value)

    def util_global_store(self, op: Any, value: Any) -> None:
        self.globals[op.attributes["global"].value] = value

    def util_call(self, op: Any, *given: Any) -> Any:
        results = self.function(self.functions[op.attributes["callee"].value], given)
        return results[0] if len(results) == 1 else results

    def util_buffer_constant(self, op: Any) -> Array:
        text = str(op.attributes["value"])
        inner = text[text.index("[") + 1 : text.rindex("]")] if text.startswith("#util.composite") else text
        parts = [line.strip().rstrip(",") for line in inner.splitlines() if line.strip()]
        return np.concatenate([_bytes(ir.Attribute.parse(part)) for part in parts])

    def hal_buffer_load(self, op: Any, buffer: Array, at: int) -> int:
        width = max(8, op.results[0].type.width) // 8
        return int.from_bytes(buffer[at : at + width].tobytes(), "little")

    def hal_device_queue_read(self, op: Any, *given: Any) -> None:
        *_, file, start, target, at, size = given
        target[at : at + size] = file[start : start + size]

    def hal_device_queue_copy(self, op: Any, *given: Any) -> None:
        *_, source, start, target, at, size = given
        target[at : at + size] = source[start : start + size]

    def hal_device_queue_fill(self, op: Any, *given: Any) -> None:
        *_, target, at, size, pattern = given
        width = list(op.operands)[-1].type.width // 8
        _fill(target[at : at + size], (pattern % (1 << 8 * width)).to_bytes(width, "little"))

    def hal_executable_lookup_function(self, op: Any, executable: str) -> Kernel:
        return self.kernels[op.attributes["entry_point"].value[-1]]

    def hal_command_buffer_dispatch(self, op: Any, *given: Any) -> None:
        *_, constants, buffers, _, _ = op.attributes["operandSegmentSizes"]
        commands, _, kernel, *rest = given
        grid, rest = tuple(rest[:3]), rest[3:]
        bound = rest[constants:]
        parts = list(zip(bound[:buffers], bound[buffers : 2 * buffers], bound[2 * buffers :], strict=True))
        commands.append(_Command("dispatch", parts, kernel, grid, tuple(rest[:constants])))

    def hal_command_buffer_fill_buffer(
        self, op: Any, commands: Any, target: Any, at: int, size: int, pattern: int
    ) -> None:
        width = op.operands[4].type.width // 8
        data = (pattern % (1 << 8 * width)).to_bytes(width, "little")
        commands.append(_Command("fill", [(target, at, size)], pattern=data))

    def hal_command_buffer_copy_buffer(
        self, op: Any, commands: Any, source: Any, start: int, target: Any, at: int, size: int
    ) -> None:
        commands.append(_Command("copy", [(source, start, size), (target, at, size)]))

    def hal_command_buffer_execution_barrier(self, op: Any, commands: Any) -> None:
        commands.append(_Command("barrier"))

    def hal_device_queue_execute(self, op: Any, device: Any, affinity: Any, wait: Any, signal: Any, *all: Any) -> None:
        for commands in all:
            _submit(commands, [])

    def hal_device_queue_execute_indirect(self, op: Any, *given: Any) -> None:
        commands, bound = given[4], given[5:]
        count = len(bound) // 3
        parts = zip(bound[:count], bound[count : 2 * count], bound[2 * count :], strict=True)
        _submit(commands, [x[at:] for x, at, _ in parts])


def _bytes(attribute: Any) -> Array:
    return np.array(attribute).reshape(-1).view(np.uint8)


def _fill(buffer: Array, pattern: bytes) -> None:
    buffer[:] = np.frombuffer(pattern * (buffer.size // len(pattern)), np.uint8)


def _submit(commands: Sequence[_Command], bound: Sequence[Array]) -> None:
    together: list[list[tuple[bool, Array, Array]]] = []  # of commands that no barrier parts: what each touches
    for command in commands:
        sizes = [size for *_, size in command.buffers]
        wide = [-(-size // _ALIGNED) * _ALIGNED if command.kernel else size for size in sizes]
        buffers = [
            (bound[x] if isinstance(x, int) else x)[at : at + size]
            for (x, at, _), size in zip(command.buffers, wide, strict=True)
        ]
        if command.kind == "barrier":
            together = []
            continue
        if command.kernel is not None:
            touched = command.kernel.run(command.grid, buffers, command.constants)
            assert not any(touched["st", i][size:].any() for i, size in enumerate(sizes)), "written past the end"
            mine = [(op == "st", buffers[i], places) for (op, i), places in touched.items()]
        else:
            if command.kind == "fill":
                _fill(buffers[0], command.pattern)
            else:
                buffers[1][:] = buffers[0]
            mine = [(i == len(buffers) - 1, x, np.ones(x.size, bool)) for i, x in enumerate(buffers)]
        for others in together:
            for writes, x, places in mine:
                for also_writes, y, other_places in others:
                    assert not (writes or also_writes) or not _meet(x, places, y, other_places), "without a barrier"
        together.append(mine)


def _meet(x: Array, places: Array, y: Array, others: Array) -> bool:
    """Whether two buffers have a byte in common that is touched in both."""
    start, other = (each.__array_interface__["data"][0] for each in (x, y))
    low, high = max(start, other), min(start + x.size, other + y.size)
    return low < high and bool((places[low - start : high - start] & others[low - other : high - other]).any())
