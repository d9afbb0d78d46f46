"""A loop as MLIR text in the scf, arith, math, vector and tensor dialects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Lines, Unfit, elementwise, spelled, supported
from veery_lowering.kernels._reading import comparison, integers, is_constant, read_later, splat_of, static_shape

_MOST_LINES = 4000
# Operations that are moved out of the loop where they depend on nothing in it.
_MOVABLE = frozenset("reshape slice transpose broadcast_in_dim iota concatenate reverse".split())


@dataclass(frozen=True, eq=False)
class Cells:
    """A value in registers: a scalar for each of its elements or, of `lanes`, one vector of them."""

    names: np.ndarray[Any, Any]
    dtype: np.dtype
    lanes: bool = False


@dataclass(frozen=True, eq=False)
class Record:
    """A value in memory, as a matrix: a trip reads or writes a row. `lanes`: the rows are kept in vectors."""

    name: str
    dtype: np.dtype
    rows: int
    row: int
    lanes: bool

    @property
    def type(self) -> str:
        return f"tensor<{self.rows}x{self.row}x{spelled(stored(self.dtype))}>"

    def like(self, other: Record) -> bool:
        return (self.type, self.lanes) == (other.type, other.lanes)


Value = Cells | Record


def stored(dtype: np.dtype) -> np.dtype:
    """The dtype in which a value lies in memory."""
    return np.dtype(np.int8) if dtype.kind == "b" else dtype


class Writer:
    """Writes a loop and all that is in it.

    Attributes:
        lanes: the number of elements of the arrays that are kept in vectors; 0 where there are none.
        width: of these vectors; those of a trip over all elements begin at the index %start.
        inputs: what is used from outside, with its name in the text.
        before: operations in the loop that depend on nothing in it and are to be moved out.
    """

    def __init__(self, lanes: int, width: int) -> None:
        self.lanes, self.width = lanes, width
        self.out = Lines()
        self.inputs: dict[tuple[Any, int, bool], Value] = {}
        self.before: list[Any] = []
        self._env: dict[Any, Value] = {}
        self._inside: set[Any] = set()

    # Values.

    def read(self, value: Any) -> Value:
        """A value of the loop, or from outside."""
        found = self._env.get(value)
        if found is None:
            if value in self._inside:
                raise Unfit("a value without a form")
            found = self._env[value] = self._from_outside(value)
        return found

    def cells(self, value: Any) -> Cells:
        found = self.read(value)
        if isinstance(found, Record):
            raise Unfit("a record is computed with")
        return found

    def scalar(self, value: Any) -> str:
        return str(self.cells(value).names.item())

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

    def type(self, value: Value) -> str:
        if isinstance(value, Record):
            return value.type
        return spelled(value.dtype, self._shape(value.lanes))

    def _shape(self, lanes: bool) -> str:
        return f"{self.width}x" if lanes else ""

    def _from_outside(self, value: Any) -> Value:
        return self.splat(value) or self.input(value, 1)

    def input(self, value: Any, rows: int, lanes: bool | None = None) -> Value:
        """A value from outside, in registers (rows = 1) or as a record."""
        shape, dtype = static_shape(value), hlo.dtype_of(value)
        row = math.prod(shape) // rows
        lanes = self.in_lanes((row,), dtype) if lanes is None else lanes
        key = (value, rows, lanes)
        if key not in self.inputs:
            if is_constant(value):
                self._move_out(value.owner)
            name = f"%in{len(self.inputs)}"
            if rows > 1:
                self.inputs[key] = Record(name, dtype, rows, row, lanes)
            elif lanes:
                self.inputs[key] = Cells(np.array(name, object), dtype, True)
            else:
                names = np.array([f"{name}_{i}" for i in range(row)], object)
                self.inputs[key] = Cells(names.reshape(shape), dtype)
        return self.inputs[key]

    def splat(self, value: Any) -> Cells | None:
        """A constant of equal elements in registers; None for other values."""
        element = splat_of(value)
        if element is None:
            return None
        shape, dtype = static_shape(value), hlo.dtype_of(value)
        lanes = self.in_lanes(shape, dtype)
        name = self.out.constant(element, dtype, self._shape(lanes))
        return Cells(np.array(name, object) if lanes else np.full(shape, name, object), dtype, lanes)

    # Operations.

    def block(self, block: Any, arguments: Sequence[Value]) -> list[Any]:
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
        if name in _MOVABLE and not any(x in self._inside for x in op.operands):
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

    def _move_out(self, op: Any) -> None:
        for x in op.operands:
            if is_constant(x):
                self._move_out(x.owner)
        if op not in self.before:
            self.before.append(op)

    def loop(self, op: Any, starts: Sequence[Value]) -> list[Value]:
        """Write a loop; returns its results."""
        condition, body = (region.blocks[0] for region in op.regions)
        types = [self.type(value) for value in starts for _ in names_of(value)]
        joined, lines = ", ".join(types), self.out.lines
        before, inside = ([self._renamed(value) for value in starts] for _ in range(2))
        pairs = zip(itertools.chain(*map(names_of, before)), itertools.chain(*map(names_of, starts)))
        result = self.out.new()
        carried = ", ".join(f"{a} = {b}" for a, b in pairs)
        lines.append(f"{result}:{len(types)} = scf.while ({carried}) : ({joined}) -> ({joined}) {{")
        (goes_on,) = self.block(condition, before)
        names = ", ".join(itertools.chain(*map(names_of, before)))
        lines.append(f"scf.condition({self.scalar(goes_on)}) {names} : {joined}")
        arguments = ", ".join(f"{a}: {t}" for a, t in zip(itertools.chain(*map(names_of, inside)), types))
        lines += ["} do {", f"^bb0({arguments}):"]
        ends = [self.read(x) for x in self.block(body, inside)]
        for start, end in zip(starts, ends):
            if type(start) is not type(end) or (isinstance(start, Record) and not start.like(end)):  # type: ignore[arg-type]
                raise Unfit("a value changes its form")
        lines += [f"scf.yield {', '.join(itertools.chain(*map(names_of, ends)))} : {joined}", "}"]
        numbers = itertools.count()
        return [_with_names(value, [f"{result}#{next(numbers)}" for _ in names_of(value)]) for value in starts]

    def _renamed(self, value: Value) -> Value:
        return _with_names(value, [self.out.new() for _ in names_of(value)])

    def _elementwise(self, op: Any, name: str) -> Cells:
        operands = [self.cells(x) for x in op.operands]
        (result,) = op.results
        shape, dtype = static_shape(result), hlo.dtype_of(result)
        lanes = self.in_lanes(shape, dtype)
        detail = comparison(op)
        of = operands[-1].dtype
        if lanes:
            names = [self._spread(x) for x in operands]
            made = elementwise(self.out, name, detail, names, of, dtype, self._shape(True))
            return Cells(np.array(made, object), dtype, True)
        if any(x.names.shape not in ((), shape) for x in operands):
            raise Unfit(op.name)
        columns = [np.broadcast_to(x.names, shape).reshape(-1) for x in operands]
        rows = [elementwise(self.out, name, detail, list(row), of, dtype, "") for row in zip(*columns)]
        return Cells(np.array(rows, object).reshape(shape), dtype)

    def _spread(self, x: Cells) -> str:
        """A value as a vector."""
        name = str(x.names.item())
        if x.lanes:
            return name
        vector = spelled(x.dtype, self._shape(True))
        return self.out.add(f"vector.broadcast {name} : {spelled(x.dtype)} to {vector}")

    def reshape(self, op: Any) -> Value:
        x = self.cells(op.operands[0])
        return x if x.lanes else Cells(x.names.reshape(static_shape(op.results[0])), x.dtype)

    def transpose(self, op: Any) -> Value:
        x, order = self.cells(op.operands[0]), integers(op.attributes["permutation"])
        if not x.lanes:
            return Cells(x.names.transpose(order), x.dtype)
        shape = static_shape(op.operands[0])
        if (moved := [axis for axis in order if shape[axis] > 1]) != sorted(moved):
            raise Unfit("transpose")
        return x

    def broadcast_in_dim(self, op: Any) -> Value:
        x, shape = self.cells(op.operands[0]), static_shape(op.results[0])
        if x.lanes:
            return x
        if self.in_lanes(shape, x.dtype):
            return Cells(np.array(self._spread(x), object), x.dtype, True)
        sizes = [1] * len(shape)
        for axis, n in zip(integers(op.attributes["broadcast_dimensions"]), x.names.shape):
            sizes[axis] = n
        return Cells(np.broadcast_to(x.names.reshape(sizes), shape), x.dtype)

    # Memory.

    def dynamic_slice(self, op: Any) -> Value:
        source, dtype = op.operands[0], hlo.dtype_of(op.operands[0])
        rows, lanes = row_layout(static_shape(source), integers(op.attributes["slice_sizes"]), self.lanes)
        record = self.read(source) if source in self._inside else self.input(source, rows, lanes)
        if not isinstance(record, Record) or (record.rows, record.lanes) != (rows, lanes):
            raise Unfit("dynamic_slice")
        at = self._row(op.operands[1:], static_shape(source), rows)
        memory, shape = stored(dtype), static_shape(op.results[0])
        if lanes:
            vector = spelled(memory, self._shape(True))
            zero = self.out.constant(0, memory, "")
            read = self.out.add(f"vector.transfer_read {record.name}[{at}, %start], {zero} : {record.type}, {vector}")
            return Cells(np.array(self.loaded(read, dtype, True), object), dtype, True)
        names = []
        for i in range(record.row):
            read = self.out.add(f"tensor.extract {record.name}[{at}, {self.out.index(i)}] : {record.type}")
            names.append(self.loaded(read, dtype, False))
        return Cells(np.array(names, object).reshape(shape), dtype)

    def dynamic_update_slice(self, op: Any) -> Value:
        source, update = op.operands[0], self.cells(op.operands[1])
        rows, lanes = row_layout(static_shape(source), static_shape(op.operands[1]), self.lanes)
        record = self.read(source)
        if isinstance(record, Cells) and not record.names.size:  # nobody reads what is written
            return record
        if not isinstance(record, Record) or (record.rows, record.lanes) != (rows, lanes) or read_later(op):
            raise Unfit("dynamic_update_slice")
        at, name = self._row(op.operands[2:], static_shape(source), rows), record.name
        if lanes:
            x = self.to_store(self._spread(update), update.dtype, True)
            vector = spelled(stored(record.dtype), self._shape(True))
            name = self.out.add(f"vector.transfer_write {x}, {name}[{at}, %start] : {vector}, {record.type}")
        else:
            for i, x in enumerate(update.names.flat):
                x = self.to_store(x, update.dtype, False)
                name = self.out.add(f"tensor.insert {x} into {name}[{at}, {self.out.index(i)}] : {record.type}")
        return _with_names(record, [name])

    def loaded(self, name: str, dtype: np.dtype, lanes: bool) -> str:
        """What was read from memory as a value to compute with."""
        if dtype.kind != "b":
            return name
        return elementwise(self.out, "convert", "", [name], stored(dtype), dtype, self._shape(lanes))

    def to_store(self, name: str, dtype: np.dtype, lanes: bool) -> str:
        return elementwise(self.out, "convert", "", [name], dtype, stored(dtype), self._shape(lanes))

    def _row(self, starts: Sequence[Any], shape: Sequence[int], rows: int) -> str:
        """The number of a row, as an index; starts are clamped as StableHLO does it."""
        total, left = None, rows
        for start, size in zip(starts, shape):
            if left == 1:
                break
            left //= size
            value = self.cells(start)
            wide, index = np.dtype(np.int64), value.names.item()
            index = elementwise(self.out, "convert", "", [index], value.dtype, wide, "")
            bounds = [self.out.constant(n, wide, "") for n in (0, size - 1)]
            index = elementwise(self.out, "clamp", "", [bounds[0], index, bounds[1]], wide, wide, "")
            index = elementwise(self.out, "multiply", "", [index, self.out.constant(left, wide, "")], wide, wide, "")
            total = index if total is None else elementwise(self.out, "add", "", [total, index], wide, wide, "")
        if total is None:
            return self.out.index(0)
        return self.out.add(f"arith.index_cast {total} : i64 to index")


_STRUCTURAL = {
    name: getattr(Writer, name)
    for name in "reshape transpose broadcast_in_dim dynamic_slice dynamic_update_slice".split()
}


def names_of(value: Value) -> list[str]:
    return [value.name] if isinstance(value, Record) else list(value.names.flat)


def _with_names(value: Value, names: list[str]) -> Value:
    if isinstance(value, Record):
        return Record(names[0], value.dtype, value.rows, value.row, value.lanes)
    return Cells(np.array(names, object).reshape(value.names.shape), value.dtype, value.lanes)


def row_layout(shape: Sequence[int], sizes: Sequence[int], lanes: int) -> tuple[int, bool]:
    """How many rows an array has of which slices of these sizes are one, and whether they are kept in vectors.

    Raises:
        Unfit: such slices are no rows.
    """
    inner = math.prod(sizes)
    split = next((k for k in range(len(shape) + 1) if math.prod(shape[k:]) == inner), None)
    if split is None or tuple(shape[split:]) != tuple(sizes[split:]) or inner == 0:
        raise Unfit("a slice of something else than a row")
    if inner not in (1, lanes):
        raise Unfit(f"a row of {inner}")
    rows = math.prod(shape) // inner
    if rows == 1:
        raise Unfit("a slice of one row")
    return rows, bool(lanes and inner == lanes)


def layout_of(argument: Any, lanes: int) -> tuple[int, bool] | None:
    """The layout of a carried value that is read or written by rows; None for others."""
    for use in argument.uses:
        op, number = use.owner, use.operand_number
        if number == 0 and op.name == "stablehlo.dynamic_slice":
            return row_layout(static_shape(argument), integers(op.attributes["slice_sizes"]), lanes)
        if number == 0 and op.name == "stablehlo.dynamic_update_slice":
            return row_layout(static_shape(argument), static_shape(op.operands[1]), lanes)
        if op.name == "stablehlo.while":
            return layout_of(op.regions[1].blocks[0].arguments[number], lanes)
    return None
