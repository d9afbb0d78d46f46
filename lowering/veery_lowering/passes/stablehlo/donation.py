"""Write results into the memory of donated arguments.

IREE writes a result into an argument that is marked as given away (`iree.abi.consume`) if the result is an update of
the whole argument. Were the argument's shape known, IREE would see that nothing of the old value remains, and drop the
argument; so its type has an unknown size here.

Problem: what computes the result and the update become one dispatch. That is correct where each element is read before
it is written, but IREE 3.13 does not look at what else reads the argument, later or in the same dispatch. Example:
`x - x @ y` of a donated x. Fix: other readers are moved before the update, and `overwriting` checks what IREE made of
it. Updates in place of donated arguments need none of this, see `aliasing`. Test: tests/lowering/test_donation.py.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import LEAST_REUSED, ir, operations, terminator
from veery_lowering.types import is_static

_ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs add and atan2 broadcast_in_dim cbrt ceil clamp compare complex convert cosine count_leading_zeros divide"
        " exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply"
        " negate not or popcnt power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select"
        " shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
    ).split()
)


@dataclass(frozen=True)
class _Reuse:
    """A result that may be written into an argument, and what reads the argument beside."""

    argument: int
    result: int
    readers: tuple[Any, ...]


def reuse_donated(module: Any, donated: Sequence[bool], refused: Collection[int] = ()) -> list[int]:
    """Have results written into donated arguments.

    Args:
        module: the operation of a StableHLO module without calls; it is changed.
        donated: for each argument of `main`, whether it may be overwritten.
        refused: arguments that are left alone.

    Returns:
        The numbers of the arguments that are overwritten, if IREE does what is wanted.
    """
    function = next((op.operation for op in module.regions[0].blocks[0] if _is_main(op.operation)), None)
    if function is None or not any(donated):
        return []
    block = function.regions[0].blocks[0]
    wanted = [i for i, given in enumerate(donated) if given and i not in refused]
    found = _in_order(block, list(_reuses(block, wanted)))
    if found:
        _mark(function, block, found, len(donated))
    return [reuse.argument for reuse in found]


def _is_main(operation: Any) -> bool:
    return bool(operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main")


def _reuses(block: Any, arguments: Sequence[int]) -> Iterator[_Reuse]:
    returned = list(terminator(block).operands)
    taken: set[int] = set()
    for number in arguments:
        argument = block.arguments[number]
        static = all(map(is_static, hlo.shape_of(argument)))
        if not static or hlo.dtype_of(argument).kind in "ub" or _nbytes(argument) < LEAST_REUSED:
            continue
        for index, result in enumerate(returned):
            if index in taken or result.type != argument.type or isinstance(result.owner, ir.Block):
                continue
            readers = _other_readers(argument, result)
            if readers is not None and returned.count(result) == 1:
                taken.add(index)
                yield _Reuse(number, index, readers)
                break


def _nbytes(value: ir.Value) -> int:
    return int(math.prod(hlo.shape_of(value)) * hlo.dtype_of(value).itemsize)


def _other_readers(argument: ir.Value, result: ir.Value) -> tuple[Any, ...] | None:
    """What reads the argument and is not on the way to the result, element by element; None if nothing is."""
    uses = [use.owner.operation for use in argument.uses]
    others = tuple(op for op in uses if not _leads_only_to(op, result))
    blocked = any(op.name == "func.return" for op in others)
    return None if blocked or len(others) == len(uses) else others


def _leads_only_to(op: Any, result: ir.Value) -> bool:
    """Whether all that is computed from an operation's result, element by element, is `result`."""
    shape = hlo.shape_of(result)
    seen: set[ir.Value] = set()
    stack = [op]
    while stack:
        op = stack.pop()
        if op.name not in _ELEMENTWISE or hlo.shape_of(op.results[0]) != shape:
            return False
        value = op.results[0]
        if value != result and value not in seen:
            seen.add(value)
            stack += [use.owner.operation for use in value.uses]
    return True


def _in_order(block: Any, reuses: Sequence[_Reuse]) -> list[_Reuse]:
    """Move the other readers of arguments before what overwrites them; returns the reuses for which that can be."""
    order = _Order(block)
    found = [reuse for reuse in reuses if order.require(reuse)]
    order.apply()
    return found


class _Order:
    """The operations of a block, but for the last, and in which order they are to be."""

    def __init__(self, block: Any):
        self._end = terminator(block)
        self._block = block
        self._operations = [op.operation for op in block.operations][:-1]
        self._number = {op: i for i, op in enumerate(self._operations)}
        # Sets of operations are the bits of integers: as many as a training step has make other sets slow.
        self._direct = [self._used(op) for op in self._operations]
        self._before: list[int] = []
        for direct in self._direct:
            self._before.append(sum({1 << i for i in direct}) | self._all_before(direct))
        self._required: list[tuple[int, int]] = []

    def _used(self, op: Any) -> set[int]:
        """The operations of the block whose results an operation uses, its regions included."""
        found: set[int] = set()
        for inner in operations(op):
            for x in inner.operands:
                owner = x.owner
                number = None if isinstance(owner, ir.Block) else self._number.get(owner.operation)
                if number is not None:
                    found.add(number)
        return found - {self._number[op]}

    def _all_before(self, numbers: Collection[int]) -> int:
        found = 0
        for i in numbers:
            found |= self._before[i]
        return found

    def require(self, reuse: _Reuse) -> bool:
        """Have the readers come before what only the result needs, unless that cannot be."""
        readers = 0
        for op in reuse.readers:
            while op.parent.operation != self._block.owner.operation:
                op = op.parent.operation
            for number in self._frontier(self._number[op]):
                readers |= 1 << number | self._before[number]
        result = self._number[terminator(self._block).operands[reuse.result].owner.operation]
        writers = (self._before[result] | 1 << result) & ~readers
        if not writers >> result & 1:
            return False  # a reader needs the result
        self._required.append((readers, writers))
        if self._sorted() is None:
            self._required.pop()
            return False
        return True

    def _frontier(self, number: int) -> Iterator[int]:
        """The operation, and those in whose dispatch it may be computed."""
        stack, seen = [number], {number}
        while stack:
            number = stack.pop()
            yield number
            op = self._operations[number]
            if op.name in _ELEMENTWISE or op.name in ("stablehlo.reshape", "stablehlo.transpose"):
                for use in op.results[0].uses:
                    after = self._number.get(use.owner.operation)
                    if after is not None and after not in seen:
                        seen.add(after)
                        stack.append(after)

    def _sorted(self) -> list[int] | None:
        """The operations in the order that is nearest to theirs; None if there is none."""
        count = len(self._operations)
        waits = [set(direct) for direct in self._direct]
        for i, (readers, writers) in enumerate(self._required):  # a node between them saves an edge for each pair
            waits.append(set(_bits(readers)))
            for j in _bits(writers):
                waits[j].add(count + i)
        after: list[list[int]] = [[] for _ in waits]
        for i, before in enumerate(waits):
            for j in before:
                after[j].append(i)
        missing = [len(before) for before in waits]
        ready = [i for i, n in enumerate(missing) if not n]
        found = []
        while ready:
            i = heapq.heappop(ready)
            found.append(i)
            for j in after[i]:
                missing[j] -= 1
                if not missing[j]:
                    heapq.heappush(ready, j)
        return [i for i in found if i < count] if len(found) == len(waits) else None

    def apply(self) -> None:
        """Move the operations."""
        for i in self._sorted() or ():
            self._operations[i].move_before(self._end)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _mark(function: Any, block: Any, reuses: Sequence[_Reuse], count: int) -> None:
    """Make each of the results an update of its argument, which is given away."""
    end = terminator(block)
    with ir.Location.unknown():
        for reuse in reuses:
            argument = block.arguments[reuse.argument]
            known = ir.RankedTensorType(argument.type)
            sizes = [ir.ShapedType.get_dynamic_size(), *known.shape[1:]]
            with ir.InsertionPoint.at_block_begin(block):
                value = hlo.cast_shape(argument, known)
            argument.replace_all_uses_except(value, value.owner.operation)
            argument.set_type(ir.RankedTensorType.get(sizes, known.element_type))
            with ir.InsertionPoint(end):
                end.operands[reuse.result] = hlo.overwrite(argument, end.operands[reuse.result])
    consumed = {reuse.argument for reuse in reuses}
    attributes = [{"iree.abi.consume": ir.UnitAttr.get()} if i in consumed else {} for i in range(count)]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in attributes])
    types = [x.type for x in block.arguments], [x.type for x in end.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
