"""What is small and would be several dispatches, as one.

IREE makes a dispatch for each reduction, product, join and lookup, with what is elementwise around it. Each takes it 12
ms to compile at least, and 0.6 us to run, whatever is computed. Here operations that follow from each other without
anything between that a kernel cannot hold are one kernel, on one thread, where all they compute is little.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import _control, _indexed, _moves, _sliding, _sums  # noqa: F401  (each registers what it writes)
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._body import OPERATIONS, VIEWS, Body, checked, is_same, reads
from veery_lowering.kernels._complex import part_block, reads_complex
from veery_lowering.kernels._elements import is_end
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Affine, Buffer, Uniform, whole
from veery_lowering.kernels._isolated import Isolated
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._reading import integers, is_added, static_shape
from veery_lowering.kernels._rounds import counting
from veery_lowering.kernels._transforms import is_transform, may_be_transform
from veery_lowering.mlir import base_name, context, ir, maker
from veery_lowering.stablehlo import product_axes

# Operations that IREE makes dispatches of, and how many at least.
_DISPATCHES = {
    **dict.fromkeys("concatenate convolution dot_general gather pad reduce reduce_window reverse scatter".split(), 1),
    "dynamic_update_slice": 2,
}
_SUMMING = frozenset("convolution dot_general reduce_window".split())
# Operations, and those that compute single numbers, which are worth a kernel even where they would be one dispatch: the
# time that IREE takes to make that grows with a power of how many there are. 100 steps of
# `a, b = a * 0.5 + b, b - a * 0.1` took it 9.6 s, 20 of them 40 ms; 10 times ten normal random numbers 1.1 s.
_MANY, _MANY_NUMBERS = 100, 64
# Results that nothing else of a piece reads: each would be a dispatch. A step of Adam has so many of all that is small.
_MANY_ENDS = 8
BRANCHING = frozenset("case if while".split())
# Elements that a kernel computes at most, one of its operations, and products the terms that they add up: from some 2
# us on an operation is worth all cores.
_MOST_WORK = 1 << 17
_MOST_ELEMENTS = 1 << 14
_MOST_TERMS = 1 << 16
# What the operations of a whole function compute if they are one kernel, and so many terms each of their products may
# have then: another kernel takes 10 to 20 ms to compile. The sum of tanh(x @ x), 64x64, takes 53 instead of 75 ms, and
# 13 us as before; where two cores would have 20 us and more to share, it took twice as long.
_MOST_ALONE = 1 << 19
_MOST_TERMS_ALONE = 1 << 18
# Elements of an array that is written in part: larger ones IREE updates in place where they are given away.
_MOST_COPIED = 1 << 12
# Operations of a kernel, and lines of its text: what has more takes longer to compile than its parts.
_MOST_OPERATIONS = 200
_MOST_LINES = 1000


class PieceKernel:
    """Operations of a block, which nothing else comes between, as an executable.

    Args:
        operations: in their order, one behind the other in the block.

    Raises:
        Unwritten: one of them cannot be written so.
        Unfit: all of them are too much text.
    """

    form = "in one piece"

    def __init__(self, operations: Sequence[Any], machine: Machine) -> None:
        self.operations = operations
        isolated = Isolated(operations)
        written = _written(isolated.text, machine)
        if isinstance(written, _Refused):
            if written.number is None:
                raise Unfit(written.reason)
            raise Unwritten(operations[written.number], written.reason)
        with operations[0].location, ir.InsertionPoint(operations[0]):
            tables = list(map(hlo.constant, written.tables))
        self.executable = written.executable.reading([*isolated.given, *tables])
        self.results = dict(zip(isolated.left, written.results))

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the operations."""
        self.executable.call(module, name, self.operations[0], {buffer: x for x, buffer in self.results.items()})
        for op in reversed(self.operations):
            op.operation.erase()


class _Written(NamedTuple):
    """What is written of a function.

    Attributes:
        executable: its inputs are numbers, of what the function is given, and behind these of `tables`.
        results: where the results are.
        tables: what transforms read besides.
    """

    executable: Executable
    results: Sequence[Buffer]
    tables: Sequence[np.ndarray]


class _Refused(NamedTuple):
    """Why there is none: because of all operations, or of one of this number."""

    reason: str
    number: int | None = None


# Equal layers of a network, and parts of a program that an edit left as they were, are written once: a step of a
# recurrent network takes 4.5 ms to be written, and 0.4 to be found.
@functools.lru_cache(256)
def _written(text: str, machine: Machine) -> _Written | _Refused:
    """What is written of a function."""
    with context():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        block = function.regions[0].blocks[0]
        constants = [op.results[0] for op in block.operations if op.name == "stablehlo.constant"]
        *operations, end = (op for op in block.operations if op.name != "stablehlo.constant")
        body = Body(machine)
        left = list(end.operands)
        results = [Buffer(f"%out{k}", hlo.dtype_of(x), math.prod(static_shape(x))) for k, x in enumerate(left)]
        body.destined = {x: whole(buffer, static_shape(x)) for x, buffer in zip(left, results) if buffer.size > 1}
        number = -1
        try:
            for op in operations:
                number += 1
                body.operation(op)
                if len(body.out.lines) > _MOST_LINES:
                    return _Refused("more text than its parts are worth")
            for value, buffer in zip(left, results):
                number = operations.index(value.owner)
                _leave(body, value, buffer)
            executable = Executable(body.out, body.inputs, results, scratch=body.scratch)
        except Unfit as unfit:
            return _Refused(str(unfit), number)
        given = [*block.arguments, *constants]
        tables = [x for x in executable.inputs if x not in given]
        executable.settle({x: number for number, x in enumerate([*given, *tables])})
        return _Written(executable, results, [table for x in tables if (table := hlo.elements_of(x)) is not None])


def _leave(body: Body, value: Any, buffer: Buffer) -> None:
    """Write a result to where it is read from."""
    form, target = body.read(value), whole(buffer, static_shape(value))
    if isinstance(form, Uniform) and buffer.size == 1:
        body.nests.store(form.name, target, Affine(), 0, 1)
    elif not is_same(target, form):
        body.nests.fill(target, form)


class Unwritten(Exception):
    """An operation cannot be written, and why."""

    def __init__(self, op: Any, reason: str) -> None:
        super().__init__(reason)
        self.op = op


class Pieces:
    """The operations of a block that kernels may compute together.

    An operation is as deep as the most operations are that no kernel holds on a way to it. What is equally deep can be
    computed at once; what would be alone there is computed with what reads it. Those that may have effects keep their
    order.
    """

    def __init__(self, block: Any) -> None:
        self.operations = list(block.operations)[:-1]
        self.end = block.operations[len(self.operations)]
        self._is_function = block.owner.operation.name == "func.func"
        self._held: list[bool] | None = None
        self._most = _MOST_WORK

    def without(self, op: Any) -> None:
        """Leave an operation out."""
        if not self.divide():
            assert self._held is not None
            self._held[self.operations.index(op)] = False

    def divide(self) -> bool:
        """Have several pieces where all was to be one because it is a function's; whether that was so."""
        was_one = self._most == _MOST_ALONE
        if was_one:
            self._held, self._most, self._is_function = None, _MOST_WORK, False
        return was_one

    def in_order(self) -> list[list[Any]]:
        """The pieces that are worth a kernel, after their operations were put one behind the other."""
        if not _is_worth(self.operations):
            return []
        if self._held is None:
            self._held = self._holdable()
        held = self._held
        depths = self._depths(held)
        order = sorted((depth, not held[number], number) for number, depth in enumerate(depths))
        found: dict[int, list[Any]] = {}
        for depth, left, number in order:
            if not left:
                found.setdefault(depth, []).append(self.operations[number])
        pieces = [
            piece for equally_deep in found.values() for piece in _parts(equally_deep, self._most) if _is_worth(piece)
        ]
        if pieces:
            for _, _, number in order:
                self.operations[number].operation.move_before(self.end)
        return pieces

    def _holdable(self) -> list[bool]:
        """Whether each operation may be held: also larger products if all of a function is one kernel then."""
        held = [holds(op) for op in self.operations]
        count = counting(self.end.operation.block)
        if count is not None:
            held[self.operations.index(count)] = False
        rest = [op for op, is_held in zip(self.operations, held) if not (is_held or op.name == "stablehlo.constant")]
        if not rest or not self._is_function or len(self.operations) > _MOST_OPERATIONS:
            return held
        larger = all(base_name(op.name) in _SUMMING and holds(op, _MOST_TERMS_ALONE) for op in rest)
        if not larger or any(map(_adds_up_along_rows, rest)) or sum(map(work_of, self.operations)) > _MOST_ALONE:
            return held
        self._most = _MOST_ALONE
        return [is_held or op in rest for op, is_held in zip(self.operations, held)]

    def _depths(self, held: Sequence[bool]) -> list[int]:
        """How deep each operation is, of which some are held; constants are before all."""
        known: dict[Any, int] = {}
        depths, last = [], 0
        for op, is_held in zip(self.operations, held):
            constant = op.name == "stablehlo.constant"
            depth = max((known.get(x, 0) for x in reads(op)), default=0)
            if not (is_held or constant or is_pure(op)):
                last = depth = max(depth, last)
            depths.append(-1 if constant else depth)
            known.update(dict.fromkeys(op.results, depth if is_held or constant else depth + 1))
        self._postpone(held, depths)
        return depths

    def _postpone(self, held: Sequence[bool], depths: list[int]) -> None:
        """Let what would be alone be as deep as what reads it, but for what kernels of products compute, too."""
        deepest = max(depths)
        dispatches = [0] * (deepest + 2)  # the last is that of constants
        for op, is_held, depth in zip(self.operations, held, depths):
            dispatches[depth] += _dispatches(op) * is_held
        following: set[Any] = set()
        for op, is_held in zip(self.operations, held):
            passes_on = op.name in VIEWS or base_name(op.name) in ELEMENTWISE
            if op.name != "stablehlo.constant" and (not is_held or passes_on and not following.isdisjoint(op.operands)):
                following.update(op.results)
        latest: dict[Any, int] = {}
        for number, op in reversed(list(enumerate(self.operations))):
            depth = depths[number]
            alone = dispatches[depth] < 2 and following.isdisjoint(op.results)
            if held[number] and (alone or op.name in VIEWS):
                most = min(latest.get(x, deepest) for x in op.results)
                depths[number] = next((d for d in range(most, depth, -1) if dispatches[d]), depth)
            for x in reads(op):
                latest[x] = min(latest.get(x, deepest), depths[number])


def _dispatches(op: Any) -> int:
    return _DISPATCHES.get(base_name(op.name), 0)


def is_pure(op: Any) -> bool:
    """Whether an operation has no effects, as far as one knows."""
    pure = op.name.startswith(("stablehlo.", "chlo.")) and base_name(op.name) not in (*BRANCHING, "custom_call")
    return pure or is_transform(op)


def holds(op: Any, most_terms: int = _MOST_TERMS) -> bool:
    """Whether a kernel may hold an operation, whose products have so many terms at most."""
    dialect, _, name = op.name.partition(".")
    if dialect != "stablehlo" or not (name in ELEMENTWISE or name in OPERATIONS) or not is_pure(op) or is_transform(op):
        return False
    try:
        if work_of(op) > _most_work(name, most_terms):
            return False
        for x in (*op.results, *op.operands):
            checked(x)
    except Unfit:
        return False
    return True


def part_numbers(block: Any) -> None:
    """Write what is small of a block and computes complex numbers in parts, in place, if pieces would hold that."""
    is_called = any(map(may_be_transform, block.operations))
    if is_called or sum(_dispatches(op) for op in block.operations if reads_complex(op) and _holds_parts(op)) > 1:
        part_block(block, _holds_parts)


def _holds_parts(op: Any) -> bool:
    """Whether a kernel may hold an operation on complex numbers, if that comes in parts."""
    return (is_pure(op) or may_be_transform(op)) and work_of(op) <= _most_work(base_name(op.name))


def _most_work(name: str, most_terms: int = _MOST_TERMS) -> int:
    """How much an operation of a kernel may compute."""
    if name in _SUMMING:
        return most_terms
    return _MOST_COPIED if name in ("dynamic_update_slice", "scatter") else _MOST_ELEMENTS


def _adds_up_along_rows(op: Any) -> bool:
    """Whether it is a product x @ y.T, of 60x60 18 us in a piece, and 11 as a kernel of products with its copies."""
    if op.name != "stablehlo.dot_general":
        return False
    y, along = op.operands[1], product_axes(op, "contracting")[1]
    last = len(static_shape(y)) - 1
    return last > 0 and (maker(y) == "stablehlo.transpose" or last in along)


def work_of(op: Any) -> int:
    """How many elements an operation computes, or adds up; of convolutions more, since each has one of many filters."""
    name = base_name(op.name)
    size = max((math.prod(static_shape(x)) for x in (*op.results, *op.operands)), default=0)
    if name not in _SUMMING:
        return size
    if name == "dot_general":
        shape, axes = static_shape(op.operands[0]), product_axes(op, "contracting")[0]
        terms = math.prod(shape[i] for i in axes)
    elif name == "convolution":
        terms = math.prod(static_shape(op.operands[1]))
    else:
        terms = math.prod(integers(op.attributes["window_dimensions"]))
    return max(size, math.prod(static_shape(op.results[0])) * terms)


def halves(operations: Sequence[Any]) -> list[list[Any]]:
    """Parts of a piece that is too much text, those that are worth a kernel; none of a single operation."""
    if len(operations) == 1:
        return []
    return list(filter(_is_worth, _parts(operations, _MOST_WORK, (len(operations) + 1) // 2)))


def _parts(operations: Sequence[Any], most_work: int, most: int = _MOST_OPERATIONS) -> list[list[Any]]:
    """Operations in parts of so many that a kernel may hold them, and of so much work.

    No part ends between a product and what is added to it, if its second half has another place; it ends before what
    would be a dispatch, if there is such: what is repeated gives equal parts.
    """
    works = list(map(work_of, operations))
    if len(operations) <= most and sum(works) <= most_work:
        return [list(operations)]
    places = {op.operation: place for place, op in enumerate(operations)}
    added = [_last_use(op, places) if is_added(op.results[0]) else 0 for op in operations]
    parts: list[list[Any]] = []
    start = work = 0
    for place in range(len(operations)):
        work += works[place]
        if place - start == most or work > most_work:
            ends = range(place, (start + place) // 2, -1)
            fit = [end for end in ends if all(last < end for last in added[start:end])] or list(ends) or [place]
            end = next((end for end in fit if _dispatches(operations[end])), fit[0])
            parts.append(list(operations[start:end]))
            start, work = end, sum(works[end : place + 1])
    return [*parts, list(operations[start:])]


def _last_use(op: Any, places: Mapping[Any, int]) -> int:
    return max(places.get(use.owner.operation, 0) for x in op.results for use in x.uses)


def _is_worth(operations: Sequence[Any]) -> bool:
    if sum(map(_dispatches, operations)) > 1 or len(operations) >= _MANY:
        return True
    if len(operations) >= _MANY_ENDS and sum(map(is_end, operations)) >= _MANY_ENDS:
        return True
    return len(operations) >= _MANY_NUMBERS and sum(map(_is_number, operations)) >= _MANY_NUMBERS


def _is_number(op: Any) -> bool:
    """Whether an operation computes a single number."""
    return base_name(op.name) in ELEMENTWISE and math.prod(static_shape(op.results[0])) == 1
