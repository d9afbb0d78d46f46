"""A loop as MLIR text in the scf, arith, math, vector and tensor dialects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Lines, Unfit, elementwise, is_half, spelled, supported
from veery_lowering.kernels._endings import flag_of, own_ending
from veery_lowering.kernels._forms import Buffer, row_major, stored
from veery_lowering.kernels._indexed import gathered
from veery_lowering.kernels._reading import detail_of, integers, static_shape
from veery_lowering.kernels._rounds import most_trips

_MOST_LINES = 4000
# Operations that are moved out of the loop where they depend on nothing in it.
_MOVABLE = frozenset("reshape slice transpose broadcast_in_dim iota concatenate reverse".split())


@dataclass(frozen=True, eq=False)
class Cells:
    """A value in registers: the one element of an array, or a vector of the elements of one with `lanes`."""

    names: np.ndarray[Any, Any]
    dtype: np.dtype
    lanes: bool = False


class Writer:
    """Writes a loop and all that is in it.

    Attributes:
        lanes: the number of elements of the arrays that are kept in vectors; others have one.
        width: of these vectors; those of a trip over all elements begin at the index %start. 0 where the text is for
            one element.
        inputs: what is used from outside, with its name in the text.
        tables: arrays from outside in which elements are looked up.
        before: operations in the loop that depend on nothing in it and are to be moved out.
    """

    def __init__(self, lanes: int, width: int) -> None:
        self.lanes, self.width = lanes, width
        self.out = Lines()
        self.inputs: dict[Any, Cells] = {}
        self.tables: dict[Any, Buffer] = {}
        self.before: list[Any] = []
        self._env: dict[Any, Cells] = {}
        self._inside: set[Any] = set()
        self._endings: set[Any] = set()

    # Values.

    def read(self, value: Any) -> Cells:
        """A value of the loop, or from outside."""
        found = self._env.get(value)
        if found is None:
            if value in self._inside:
                raise Unfit("a value without a form")
            found = self._env[value] = self._from_outside(value)
        return found

    def scalar(self, value: Any) -> str:
        return str(self.read(value).names.item())

    def in_lanes(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        """Whether a value is kept in vectors.

        Raises:
            Unfit: it can be kept neither in vectors nor in scalars.
        """
        count = math.prod(shape)
        if count == self.lanes and supported(dtype):
            return True
        if not supported(dtype) or count != 1:
            raise Unfit(f"{dtype} of shape {tuple(shape)}")
        return False

    def type(self, value: Cells) -> str:
        return spelled(value.dtype, self.shape(value.lanes))

    def shape(self, lanes: bool) -> str:
        """The vector's part of the type of a value: "8x", or "" of scalars."""
        return f"{self.width}x" if lanes and self.width else ""

    def _from_outside(self, value: Any) -> Cells:
        return self.splat(value) or self.input(value)

    def input(self, value: Any) -> Cells:
        """A value from outside."""
        if value not in self.inputs:
            shape, dtype = static_shape(value), hlo.dtype_of(value)
            lanes = self.in_lanes(shape, dtype)
            if hlo.is_constant(value):
                self._move_out(value.owner)
            name = f"%in{len(self.inputs)}"
            self.inputs[value] = Cells(np.array(name, object) if lanes else np.full(shape, name, object), dtype, lanes)
        return self.inputs[value]

    def splat(self, value: Any) -> Cells | None:
        """A constant of equal elements in registers; None for other values."""
        element = hlo.splat_of(value)
        if element is None:
            return None
        shape, dtype = static_shape(value), hlo.dtype_of(value)
        lanes = self.in_lanes(shape, dtype)
        name = self.out.constant(element, dtype, self.shape(lanes))
        return Cells(np.array(name, object) if lanes else np.full(shape, name, object), dtype, lanes)

    # Operations.

    def block(self, block: Any, arguments: Sequence[Cells]) -> list[Any]:
        """Write the operations of a block; returns the operands of its last one."""
        self._inside.update(block.arguments)
        self._env.update(zip(block.arguments, arguments))
        operations = list(block.operations)
        for op in operations[:-1]:
            self._operation(op)
            if len(self.out.lines) > _MOST_LINES:
                raise Unfit("more than fits into a kernel")
        return list(operations[-1].operands)

    def _operation(self, op: Any) -> None:
        dialect, _, name = op.name.partition(".")
        if dialect != "stablehlo" or (len(op.results) != 1 and name not in ("while", "optimization_barrier")):
            raise Unfit(op.name)
        if name == "constant":
            return
        if not any(x in self._inside for x in op.operands) and self._may_move(op, name):
            self._move_out(op)
            return
        self._inside.update(op.results)
        if name == "while":
            self._env.update(zip(op.results, self.loop(op, list(map(self.read, op.operands)))))
        elif name == "optimization_barrier":
            self._env.update(zip(op.results, map(self.read, op.operands)))
        else:
            write = _STRUCTURAL.get(name)
            self._env[op.results[0]] = write(self, op) if write else self._elementwise(op, name)

    def _may_move(self, op: Any, name: str) -> bool:
        """Whether what depends on nothing in the loop is computed before it."""
        fits = math.prod(static_shape(op.results[0])) in (1, self.lanes)
        return name in _MOVABLE or (name in ELEMENTWISE and not fits)

    def _move_out(self, op: Any) -> None:
        for x in op.operands:
            if hlo.is_constant(x):
                self._move_out(x.owner)
        if op not in self.before:
            self.before.append(op)

    def loop(self, op: Any, starts: Sequence[Cells], times: float | None = None) -> list[Cells]:
        """Write a loop; returns its results. `times` are its trips, as `repeated` counts them."""
        condition, body = (region.blocks[0] for region in op.regions)
        if self.width and (ending := own_ending(op)) is not None:
            self._endings.add(ending)
        types = [self.type(value) for value in starts for _ in names_of(value)]
        joined, lines = ", ".join(types), self.out.lines
        before, inside = ([self._renamed(value) for value in starts] for _ in range(2))
        pairs = zip(itertools.chain(*map(names_of, before)), itertools.chain(*map(names_of, starts)))
        result = self.out.new()
        carried = ", ".join(f"{a} = {b}" for a, b in pairs)
        lines.append(f"{result}:{len(types)} = scf.while ({carried}) : ({joined}) -> ({joined}) {{")
        with self.out.repeated(most_trips(op) if times is None else times):
            (goes_on,) = self.block(condition, before)
            names = ", ".join(itertools.chain(*map(names_of, before)))
            lines.append(f"scf.condition({self.scalar(goes_on)}) {names} : {joined}")
            arguments = ", ".join(f"{a}: {t}" for a, t in zip(itertools.chain(*map(names_of, inside)), types))
            lines += ["} do {", f"^bb0({arguments}):"]
            ends = [self.read(x) for x in self.block(body, inside)]
        for start, end in zip(starts, ends):
            if start.lanes != end.lanes:
                raise Unfit("a value changes its form")
        lines += [f"scf.yield {', '.join(itertools.chain(*map(names_of, ends)))} : {joined}", "}"]
        numbers = itertools.count()
        return [_with_names(value, [f"{result}#{next(numbers)}" for _ in names_of(value)]) for value in starts]

    def _renamed(self, value: Cells) -> Cells:
        return _with_names(value, [self.out.new() for _ in names_of(value)])

    def _elementwise(self, op: Any, name: str) -> Cells:
        operands = [self.read(x) for x in op.operands]
        (result,) = op.results
        shape, dtype = static_shape(result), hlo.dtype_of(result)
        lanes = self.in_lanes(shape, dtype)
        detail = detail_of(op)
        of = operands[-1].dtype
        if lanes:
            names = [self._spread(x) for x in operands]
            made = elementwise(self.out, name, detail, names, of, dtype, self.shape(True))
            return Cells(np.array(made, object), dtype, True)
        if any(x.names.shape not in ((), shape) for x in operands):
            raise Unfit(op.name)
        columns = [np.broadcast_to(x.names, shape).reshape(-1) for x in operands]
        rows = [elementwise(self.out, name, detail, list(row), of, dtype, "") for row in zip(*columns)]
        return Cells(np.array(rows, object).reshape(shape), dtype)

    def _spread(self, x: Cells) -> str:
        """A value as a vector."""
        name = str(x.names.item())
        if x.lanes or not self.width:
            return name
        return self.out.spread(name, x.dtype, self.shape(True))

    def reshape(self, op: Any) -> Cells:
        x = self.read(op.operands[0])
        return x if x.lanes else Cells(x.names.reshape(static_shape(op.results[0])), x.dtype)

    def transpose(self, op: Any) -> Cells:
        x, order = self.read(op.operands[0]), integers(op.attributes["permutation"])
        if not x.lanes:
            return Cells(x.names.transpose(order), x.dtype)
        shape = static_shape(op.operands[0])
        if (moved := [axis for axis in order if shape[axis] > 1]) != sorted(moved):
            raise Unfit("transpose")
        return x

    def broadcast_in_dim(self, op: Any) -> Cells:
        x, shape = self.read(op.operands[0]), static_shape(op.results[0])
        if x.lanes:
            return x
        if self.in_lanes(shape, x.dtype):
            return Cells(np.array(self._spread(x), object), x.dtype, True)
        sizes = [1] * len(shape)
        for axis, n in zip(integers(op.attributes["broadcast_dimensions"]), x.names.shape):
            sizes[axis] = n
        return Cells(np.broadcast_to(x.names.reshape(sizes), shape), x.dtype)

    def gather(self, op: Any) -> Cells:
        """Elements of an array from outside, each at an index of its own."""
        table, index = op.operands[0], self.read(op.operands[1])
        windows, (shape, limits) = gathered(op), map(static_shape, (op.results[0], table))
        dtype, of = hlo.dtype_of(table), index.dtype
        alone = len(windows.mapped) == 1 and not windows.window and not windows.batched
        if not (alone and index.lanes and self.in_lanes(shape, dtype)) or of == np.uint64 or table in self._inside:
            raise Unfit("gather")
        if math.prod(limits) > np.iinfo(np.int32).max or is_half(dtype):
            raise Unfit("gather")
        if table not in self.tables:
            if hlo.is_constant(table):
                self._move_out(table.owner)
            self.tables[table] = Buffer(f"%table{len(self.tables)}", dtype, math.prod(limits))
        buffer, wide, vector = self.tables[table], np.dtype(np.int32), self.shape(True)
        (axis,) = windows.mapped
        ends = [self.out.constant(min(n, np.iinfo(of).max), of, vector) for n in (0, limits[axis] - 1)]
        place = elementwise(self.out, "clamp", "", [ends[0], index.names.item(), ends[1]], of, of, vector)
        place = elementwise(self.out, "convert", "", [place], of, wide, vector)
        if (stride := row_major(limits)[axis]) != 1:
            factor = self.out.constant(stride, wide, vector)
            place = elementwise(self.out, "multiply", "", [place, factor], wide, wide, vector)
        held = stored(dtype)
        name = self._looked_up(buffer, place, held)
        name = elementwise(self.out, "convert", "", [name], held, dtype, vector)
        return Cells(np.array(name, object), dtype, True)

    def reduce(self, op: Any) -> Cells:
        """Whether any element of the vector goes on, in a loop whose vectors may end on their own."""
        flags = self.read(flag_of(op)) if op in self._endings else None
        if flags is None or not flags.lanes:
            raise Unfit("reduce")
        name, vector = flags.names.item(), self.type(flags)
        if self.lanes % self.width:  # behind the last element are none
            rest = self.out.add(f"arith.subi {self.out.index(self.lanes)}, %start : index")
            name = self.out.add(
                f"arith.andi {name}, {self.out.add(f'vector.create_mask {rest} : {vector}')} : {vector}"
            )
        name, dtype = self.out.add(f"vector.reduction <or>, {name} : {vector} into i1"), hlo.dtype_of(op.results[0])
        return Cells(np.array(elementwise(self.out, "convert", "", [name], flags.dtype, dtype, ""), object), dtype)

    def _looked_up(self, buffer: Buffer, place: str, held: np.dtype) -> str:
        """The elements of a buffer at places of type int32."""
        wide, flags, vector = np.dtype(np.int32), np.dtype(bool), self.shape(True)
        if not vector:
            index = self.out.add(f"arith.index_cast {place} : i32 to index")
            return self.out.add(f"memref.load {buffer.name}[{index}] : {buffer.type}")
        every, none = self.out.constant(True, flags, vector), self.out.constant(0, held, vector)
        types = f"{buffer.type}, {spelled(wide, vector)}, {spelled(flags, vector)}, {spelled(held, vector)}"
        read = f"vector.gather {buffer.name}[{self.out.index(0)}] [{place}], {every}, {none} : {types}"
        return self.out.add(f"{read} into {spelled(held, vector)}")

    def to_store(self, name: str, dtype: np.dtype, lanes: bool) -> str:
        return elementwise(self.out, "convert", "", [name], dtype, stored(dtype), self.shape(lanes))


_STRUCTURAL = {name: getattr(Writer, name) for name in ("reshape", "transpose", "broadcast_in_dim", "gather", "reduce")}


def names_of(value: Cells) -> list[str]:
    return list(value.names.flat)


def _with_names(value: Cells, names: list[str]) -> Cells:
    return Cells(np.array(names, object).reshape(value.names.shape), value.dtype, value.lanes)
