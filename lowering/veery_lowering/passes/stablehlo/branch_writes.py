"""Write behind branches what one of them writes into a small part of an array and others hand on.

IREE copies an array that a branch hands on, in each branch (passes/stablehlo/sharing.py). Example: 50 trips of
`cond(p, lambda x: x.at[i].set(v), lambda x: x, x)` copied 8 MB each, 26 ms. Here the branches give what is written, and
where; behind them that is written, or what was there before: 1.1 ms. So is `where(p, x.at[i].set(v), x)`, which
computed all of x; and where each row has a p of its own, as in loops under `vmap` that end at different times: 2000
trips that write one of 2000 numbers in each of 8 rows took 7.1 ms, and take 0.11 (JAX 5.0). What branches hand on
without writing is no result of theirs. Test: tests/lowering/test_branch_writes.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._indexed import is_of_rows, replaces
from veery_lowering.mlir import base_name, ir, maker, operations, terminator
from veery_lowering.passes.stablehlo.crossings import is_elementwise
from veery_lowering.passes.stablehlo.drops import drops_rows
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

_CHOOSING = frozenset(("stablehlo.case", "stablehlo.if", "stablehlo.select"))
_AROUND = frozenset(("func.func", "stablehlo.case", "stablehlo.if", "stablehlo.while"))
_SMALLER = 8  # times, than the array, is all that is written, and each value that it is computed from
_MOST = 64  # operations that are computed whatever is chosen
_CHEAP = frozenset(
    "broadcast_in_dim concatenate constant dynamic_slice gather iota optimization_barrier pad reshape reverse slice"
    " transpose".split()
)
# What leaves the other operand as it is.
_NEUTRAL = {"add": -0.0, "multiply": 1, "or": 0, "and": -1, "maximum": -math.inf, "minimum": math.inf}


def write_behind_branches(module: Any) -> None:
    """Have branches, and choices between arrays, write in part behind them, in place; the inner ones first."""
    root = getattr(module, "operation", module)
    found = [op for op in operations(root) if op.name in _CHOOSING and op.parent.name in _AROUND]
    erased: set[int] = set()  # as identities: what is erased cannot be compared
    for op in found:
        if op.name != "stablehlo.select":
            erased |= _Branches(op).change()
        elif id(op) not in erased:
            erased |= _write_chosen(op)


@dataclass
class _Writes:
    """What is written into an array, one after the other.

    Attributes:
        base: the array.
        chain: the operations that write, and those that change its shape, in their order.
        between: operations that read what is written in between, for the next of them.
    """

    base: Value
    chain: list[Any]
    between: list[Any] = field(default_factory=list)

    @property
    def limit(self) -> int:
        """The most elements of what is computed for it."""
        return int(math.prod(hlo.shape_of(self.base))) // _SMALLER

    def is_worth_it(self, flags: Sequence[int] = ()) -> bool:
        """Whether little is written, and what is not to be written can be told to the operations, by flags so many."""
        writes = [op for op in self.chain if not _is_view(op)]
        sizes = [math.prod(hlo.shape_of(_written(op))) for op in writes]
        can_leave_out = (lambda op: _has_rows_for(flags, op)) if flags else _can_leave_out
        return bool(writes) and sum(sizes) <= self.limit and all(map(can_leave_out, writes))

    def given(self, block: Any) -> list[Value]:
        """What is computed in a block for what is written, but for constants."""
        made = {x for op in (*self.chain, *self.between) for x in op.results}
        found: dict[Value, None] = {}
        for op in self.chain:
            found.update(dict.fromkeys(list(op.operands)[1:]))
        for op in self.between:
            found.update(dict.fromkeys(op.operands))
        return [x for x in found if x not in made and _is_made_in(x, block) and not hlo.is_constant(x)]

    def again(self, base: Value, known: dict[Value, Value], flag: Value) -> Value:
        """Write it all here, if a flag is set, into an array, or in the rows whose flags are; what else is read has
        other names here.
        """
        values = {**known, self.base: base}
        for op in _in_order([*self.chain, *self.between]):
            for x in op.operands:
                if x not in values:
                    values[x] = x.owner.clone().results[0] if hlo.is_constant(x) else x
            copy = op.clone()
            for i, x in enumerate(op.operands):
                copy.operands[i] = values[x]
            if op in self.chain and not _is_view(op):
                _leave_out_unless(flag, copy)
            values.update(zip(op.results, copy.results))
        return values[self.chain[-1].results[0]]


def _written(op: Any) -> Value:
    """What an operation writes."""
    return op.operands[1 if op.name == "stablehlo.dynamic_update_slice" else 2]


def _is_view(op: Any) -> bool:
    return bool(op.name == "stablehlo.reshape")


def _can_leave_out(op: Any) -> bool:
    return op.name == "stablehlo.dynamic_update_slice" or drops_rows(op) or _neutral(op) is not None


def _combination(scatter: Any) -> str:
    """The operation by which a scatter combines what is there with what is written; "" if it is not one."""
    inner = list(scatter.regions[0].blocks[0].operations)
    return base_name(inner[0].name) if len(inner) == 2 else ""


def _has_rows_for(flags: Sequence[int], op: Any) -> bool:
    """Whether an operation writes into rows of which each has one of the flags, of this shape."""
    x, written = hlo.shape_of(op.operands[0]), hlo.shape_of(_written(op))
    if op.name == "stablehlo.dynamic_update_slice":
        return list(x[: len(flags)]) == list(written[: len(flags)]) == list(flags)
    return is_of_rows(op) and x[0] % math.prod(flags) == 0 and (replaces(op) or _neutral(op) is not None)


def _flags_of_written(flags: Value, scatter: Any) -> Value:
    """The flags of what a scatter writes: all that is written to one row has one."""
    (rows, _), (count, row) = (hlo.shape_of(scatter.operands[i]) for i in (0, 2))
    number = math.prod(hlo.shape_of(flags))
    index = _within(scatter.operands[1], rows)
    column = hlo.reshape(hlo.convert(flags, np.int32), (number, 1))
    flag = hlo.take_rows(column, hlo.divide(index, hlo.full_like(index, rows // number)), (count, 1))
    is_set = hlo.reshape(hlo.compare(flag, hlo.full_like(flag, 0), "NE"), (count,))
    return hlo.broadcast_in_dim(is_set, (count, row), (0,))


def _within(index: Value, count: int) -> Value:
    return hlo.minimum(hlo.maximum(index, hlo.full_like(index, 0)), hlo.full_like(index, count - 1))


def _leave_out_unless(flag: Value, op: Any) -> None:
    """Have an operation write nothing new unless a flag is set; it is inserted before the operations that follow."""
    flags = hlo.shape_of(flag)
    with ir.InsertionPoint(op):
        if op.name == "stablehlo.dynamic_update_slice":
            x, update, *starts = op.operands
            old = hlo.dynamic_slice(x, starts, hlo.shape_of(update))
            op.operands[1] = _chosen(flag, update, old)
        elif flags and replaces(op):
            x, index, update = op.operands
            old = hlo.take_rows(x, _within(index, hlo.shape_of(x)[0]), hlo.shape_of(update))
            op.operands[2] = hlo.select(_flags_of_written(flag, op), update, old)
        elif flags:
            neutral = hlo.full_like(op.operands[2], _neutral(op))
            op.operands[2] = hlo.select(_flags_of_written(flag, op), op.operands[2], neutral)
        elif drops_rows(op):
            op.operands[1] = _chosen(flag, op.operands[1], hlo.full_like(op.operands[1], -1))
        else:
            op.operands[2] = _chosen(flag, op.operands[2], hlo.full_like(op.operands[2], _neutral(op)))


def _neutral(scatter: Any) -> Any:
    """The number that changes nothing where a scatter combines it with what is there; None if none is known."""
    name = _combination(scatter)
    dtype: np.dtype = hlo.dtype_of(scatter.operands[2])
    number: Any = _NEUTRAL.get(name)
    if number is None:
        return None
    if dtype.kind == "b":
        return np.bool_(name in ("and", "multiply", "minimum"))
    if dtype.kind == "c":  # of infinities a product with 1 + 0i is NaN
        return np.array(complex(number, number)).astype(dtype) if name == "add" else None
    if dtype.kind in "iu":
        ends = {-math.inf: np.iinfo(dtype).min, math.inf: np.iinfo(dtype).max, -1: np.array(-1).astype(dtype)}
        return np.array(ends.get(number, number)).astype(dtype)
    made = np.array(number).astype(dtype)
    return made if float(made) == number else None  # some floats of 8 bits have no infinities


def _chosen(flag: Value, new: Value, old: Value) -> Value:
    """One of two values, or of their rows, by a flag, or several."""
    return hlo.select(hlo.spread(flag, hlo.shape_of(new)), new, old)


class _Branches:
    """An operation that runs one of several blocks."""

    def __init__(self, op: Any):
        self.op = op
        self.blocks = [region.blocks[0] for region in op.regions]
        self._bases: dict[int, Value] = {}  # what is handed on in a place, whichever block is run

    def change(self) -> set[int]:
        """Make another operation of it, if it hands on arrays that it writes small parts of, or none.

        Returns:
            The identities of what is erased that was in it.
        """
        found = {i: writes for i in range(len(self.op.results)) if (writes := self._writes(i)) is not None}
        if not found:
            return set()
        kept = [i for i in range(len(self.op.results)) if i not in found]
        extra: list[tuple[int, Value]] = []
        for writes in found.values():
            for number, written in writes.items():
                extra += [(number, x) for x in written.given(self.blocks[number]) if (number, x) not in extra]
        new = self._replaced(kept, extra)
        known: list[dict[Value, Value]] = [{} for _ in self.blocks]
        for (number, x), result in zip(extra, list(new.results)[len(kept) :]):
            known[number][x] = result
        with self.op.location, ir.InsertionPoint(self.op):
            for i, writes in found.items():
                x = self._bases[i]
                for number, written in writes.items():
                    x = written.again(x, known[number], self._is_run(number))
                self.op.results[i].replace_all_uses_with(x)
        self.op.erase()
        return set().union(*(_erase_unread(written) for writes in found.values() for written in writes.values()))

    def _writes(self, i: int) -> dict[int, _Writes] | None:
        """What branches write into the array that all of them hand on in place i, by their numbers.

        None where they hand on something else, or it is not worth it.
        """
        found = {number: _chain(terminator(block).operands[i], block) for number, block in enumerate(self.blocks)}
        base = found[0].base
        if any(each.base != base for each in found.values()) or any(_is_made_in(base, block) for block in self.blocks):
            return None
        if not all(map(is_static, hlo.shape_of(base))):
            return None
        self._bases[i] = base
        for block in self.blocks:
            self._read_before(base, block)
        writing = {number: each for number, each in found.items() if each.chain}
        for number, written in writing.items():
            end = terminator(self.blocks[number])
            if not written.is_worth_it() or not _gather_between(written, end, i):
                return None
            if any(math.prod(hlo.shape_of(x)) > written.limit for x in written.given(self.blocks[number])):
                return None
        return writing

    def _read_before(self, base: Value, block: Any) -> None:
        """Have what a block reads of an array be read before the branches, where that is known there, and little."""
        limit = math.prod(hlo.shape_of(base)) // _SMALLER
        for reader in [use.owner.operation for use in base.uses]:
            if reader.block != block:  # or no longer
                continue
            needed, waiting = {reader}, [reader]
            while waiting:
                op = waiting.pop()
                if not _is_cheap(op, limit) or len(needed) > _MOST:
                    break
                made = {x.owner.operation for x in op.operands if _is_made_in(x, block)} - needed
                needed |= made
                waiting += made
            else:
                for op in _in_order(needed):
                    op.move_before(self.op)

    def _replaced(self, kept: Sequence[int], extra: Sequence[tuple[int, Value]]) -> Any:
        """The operation with some of its results, and values of blocks, which are zeros where another one is run."""
        types = [self.op.results[i].type for i in kept] + [x.type for _, x in extra]
        attributes = {attribute.name: attribute.attr for attribute in self.op.attributes}
        with self.op.location, ir.InsertionPoint(self.op):
            new = ir.Operation.create(
                self.op.name, types, list(self.op.operands), attributes, regions=len(self.op.regions)
            )
        for number, (old, region) in enumerate(zip(self.op.regions, new.regions)):
            (block,) = old.blocks
            block.append_to(region)
            end = terminator(block)
            with end.location, ir.InsertionPoint(end):
                values = [end.operands[i] for i in kept]
                for owner, x in extra:
                    values.append(x if owner == number else hlo.full(0, hlo.shape_of(x), hlo.dtype_of(x)))
                ir.Operation.create(end.name, [], values)
            end.erase()
        for i, result in enumerate(new.results):
            if i < len(kept):
                self.op.results[kept[i]].replace_all_uses_with(result)
        self.blocks = [region.blocks[0] for region in new.regions]
        return new

    def _is_run(self, number: int) -> Value:
        """Whether a block is run: the last one, too, where there is none of the number."""
        (chosen,) = self.op.operands
        if self.op.name == "stablehlo.if":
            return hlo.not_(chosen) if number else chosen
        last = len(self.blocks) - 1
        if number < last:
            return hlo.compare(chosen, hlo.full_like(chosen, number), "EQ")
        below = hlo.compare(chosen, hlo.full_like(chosen, 0), "LT")
        return hlo.or_(below, hlo.compare(chosen, hlo.full_like(chosen, last), "GE"))


def _write_chosen(select: Any) -> set[int]:
    """Have what is written into an array be chosen instead of the array, in place; the identities of what is erased."""
    flag, *choices = select.operands
    shape = hlo.shape_of(select.results[0])
    if maker(flag) == "stablehlo.broadcast_in_dim":
        axes = list(ir.DenseI64ArrayAttr(flag.owner.attributes["broadcast_dimensions"]))
        flag = flag.owner.operands[0]
        if axes != list(range(len(axes))):
            return set()
    flags = list(hlo.shape_of(flag))
    if not all(map(is_static, shape)) or flags != list(shape[: len(flags)]) or len(flags) == len(shape) > 0:
        return set()
    trails = [_trail(x, select.block) for x in choices]
    passed = [[x, *(op.operands[0] for op in trail)] for x, trail in zip(choices, trails)]
    base = next((x for x in passed[0] if x in passed[1]), None)
    if base is None:
        return set()
    found = [_Writes(base, trail[: values.index(base)][::-1]) for trail, values in zip(trails, passed)]
    writing = [(i, written) for i, written in enumerate(found) if not all(map(_is_view, written.chain))]
    if not writing:
        return set()
    for number, written in writing:
        if not written.is_worth_it(flags) or not _gather_between(written, select, number + 1):
            return set()
    with select.location, ir.InsertionPoint(select):
        x = base
        for number, written in writing:
            x = _in_shape(written.again(_in_shape(x, base), {}, hlo.not_(flag) if number else flag), select.results[0])
    select.results[0].replace_all_uses_with(x)
    select.erase()
    return set().union(*(_erase_unread(written) for _, written in writing))


def _in_shape(x: Value, like: Value) -> Value:
    shape = hlo.shape_of(like)
    return x if hlo.shape_of(x) == shape else hlo.reshape(x, shape)


def _chain(x: Value, block: Any) -> _Writes:
    """What is written in a block until a value is made, of what is made elsewhere."""
    found = _trail(x, block)
    return _Writes(found[-1].operands[0] if found else x, found[::-1])


def _trail(x: Value, block: Any) -> list[Any]:
    """The operations of a block that write, or change the shape of, what a value is made of, the last one first."""
    found: list[Any] = []
    while _is_made_in(x, block):
        op = x.owner.operation
        one = op.name == "stablehlo.scatter" and len(op.results) == 1
        if not (one or op.name in ("stablehlo.dynamic_update_slice", "stablehlo.reshape")):
            break
        found.append(op)
        x = op.operands[0]
    return found


def _gather_between(written: _Writes, end: Any, place: int) -> bool:
    """Gather what reads the array in between; False if that is for something else, too.

    Args:
        written: is told.
        end: what has the last value as an operand.
        place: which one.
    """
    block, chain = end.block, written.chain
    found: dict[Any, None] = {}
    following = [*chain[1:], end]
    waiting = []
    for op, after in zip(chain, following):
        expected = (after, place if after == end else 0)
        uses = [(use.owner.operation, use.operand_number) for use in op.results[0].uses]
        if uses.count(expected) != 1:
            return False
        waiting += [user for user, number in uses if (user, number) != expected]
    waiting = list(dict.fromkeys(waiting))
    optional = {
        use.owner.operation
        for use in written.base.uses
        if use.owner.operation.block == block and use.owner.operation not in (*chain, end)
    }
    if not _is_for_the_next(waiting, found, written, block):
        return False
    for reader in _in_order(optional):
        also = dict(found)
        if _is_for_the_next([reader], also, written, block):
            found = also
    written.between = list(found)
    return True


def _is_for_the_next(waiting: list[Any], found: dict[Any, None], written: _Writes, block: Any) -> bool:
    """Whether operations, and what is computed of them, are for what a chain writes alone; adds them to `found`."""
    waiting = list(waiting)
    while waiting:
        op = waiting.pop()
        if op in found:
            continue
        if op in written.chain:  # which writes what it would be
            return False
        if op.block != block or not (_is_view(op) or _is_cheap(op, written.limit)) or len(found) > _MOST:
            return False
        found[op] = None
        for use in [use for x in op.results for use in x.uses]:
            user = use.owner.operation
            if user not in written.chain:
                waiting.append(user)
            elif use.operand_number == 0:
                return False
    return True


def _is_cheap(op: Any, limit: int) -> bool:
    """Whether an operation may be computed whatever is chosen."""
    if op.regions or not (is_elementwise(op) or base_name(op.name) in _CHEAP):
        return False
    shapes = [hlo.shape_of(x) for x in op.results]
    if not all(is_static(n) for shape in shapes for n in shape):
        return False
    return max(map(math.prod, shapes)) <= max(1, limit)


def _is_made_in(x: Value, block: Any) -> bool:
    return not isinstance(x.owner, ir.Block) and bool(x.owner.operation.block == block)


def _in_order(ops: Iterable[Any]) -> list[Any]:
    """Operations of one block in their order."""
    wanted = set(ops)
    if len(wanted) < 2:
        return list(wanted)
    block = next(iter(wanted)).block
    return [op.operation for op in block.operations if op.operation in wanted]


def _erase_unread(written: _Writes) -> set[int]:
    """Erase what is written elsewhere now, and what was read for that; the identities of that."""
    erased = set()
    for op in reversed(_in_order([*written.chain, *written.between])):
        if not any(True for x in op.results for _ in x.uses):
            erased.add(id(op))
            op.erase()
    return erased
