"""How many rounds a loop makes, and loops that make a part of their rounds at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, terminator
from veery_lowering.stablehlo import Value


def most_trips(loop: Any) -> float:
    """The trips of a loop, where they are not known infinity."""
    trips = trips_of(loop)
    return math.inf if trips is None else trips


def trips_of(loop: Any) -> int | None:
    """The trips of a loop that counts from one known integer to another; None for other loops."""
    counter = counter_of(loop)
    return None if counter is None else counter.trips


class Counter(NamedTuple):
    """The number that a loop counts with: which of its carries, where it begins, what a trip adds, how often."""

    place: int
    first: int
    step: int
    trips: int


def counter_of(loop: Any) -> Counter | None:
    """The counter of a loop that counts from one known integer to another; None for other loops."""
    compared = _compared(loop)
    if compared is None:
        return None
    place, end = compared
    start, step = loop.operands[place], _step(loop.regions[1].blocks[0], place)
    numbers = [hlo.splat_of(x) for x in (start, end)]
    if step is None or any(number is None for number in numbers):
        return None
    first, last = (int(number) for number in numbers if number is not None)
    trips = max(0, math.ceil((last - first) / step))
    fits = first + trips * step <= np.iinfo(hlo.dtype_of(end)).max
    return Counter(place, first, step, trips) if fits else None


def _compared(loop: Any) -> tuple[int, Any] | None:
    """Which carry of a loop has to be less than an integer for another trip, and that integer; None for others."""
    condition = loop.regions[0].blocks[0]
    (goes_on,) = terminator(condition).operands
    if maker(goes_on) != "stablehlo.compare" or hlo.direction_of(goes_on.owner) != "LT":
        return None
    number, end = goes_on.owner.operands
    is_integer = hlo.dtype_of(end).kind in "iu"
    return next(((i, end) for i, x in enumerate(condition.arguments) if x == number and is_integer), None)


def _step(body: Any, place: int) -> int | None:
    """What a trip adds to a number that the loop carries."""
    argument, result = body.arguments[place], terminator(body).operands[place]
    if maker(result) != "stablehlo.add":
        return None
    others = [x for x in result.owner.operands if x != argument]
    step = hlo.splat_of(others[0]) if len(others) == 1 else None
    return int(step) if step is not None and int(step) > 0 else None


def counting(body: Any) -> Any:
    """The addition by which the body of a loop counts, while its number is less than another; None if there is none.

    IREE has the host count then. Where a kernel adds, the host waits for that in each trip, which takes 0.3 ms.
    """
    loop = body.owner.operation
    compared = _compared(loop) if loop.name == "stablehlo.while" else None
    if compared is None:
        return None
    place, _ = compared
    result = terminator(body).operands[place]
    counts = maker(result) == "stablehlo.add" and body.arguments[place] in list(result.owner.operands)
    return result.owner.operation if counts else None


def overwritten(loop: Any) -> set[int]:
    """Which arrays a loop writes row by row, to the last one, and reads nothing of: what they begin with is lost."""
    counter = counter_of(loop)
    if counter is None or (counter.first, counter.step) != (0, 1):
        return set()
    condition, body = (region.blocks[0] for region in loop.regions)
    number, ends = body.arguments[counter.place], terminator(body).operands
    unread = [i for i, argument in enumerate(condition.arguments) if not any(True for _ in argument.uses)]
    return {i for i in unread if _is_filled(body.arguments[i], ends[i], number, counter.trips)}


def _is_filled(argument: Any, end: Any, number: Any, trips: int) -> bool:
    """Whether so many trips, each with its number, write all rows of an argument, which nothing reads."""
    if maker(end) != "stablehlo.dynamic_update_slice" or end.owner.operands[0] != argument:
        return False
    if len(list(argument.uses)) != 1 or len(list(end.uses)) != 1:
        return False
    _, update, *starts = end.owner.operands
    sizes = list(zip(hlo.shape_of(argument), hlo.shape_of(update)))
    parted = [axis for axis, (whole, part) in enumerate(sizes) if whole != part]
    if len(parted) != 1 or sizes[parted[0]] != (trips, 1):
        return False
    start = starts[parted[0]]
    if maker(start) != "stablehlo.subtract":  # from the last one back, else
        return bool(start == number)
    last, subtracted = start.owner.operands
    return bool(subtracted == number) and hlo.splat_of(last) == trips - 1


class LoopInParts:
    """A loop of which each trip makes many of another loop's, in front of that one.

    Attributes:
        inner: the loop within it that makes them.
    """

    def __init__(self, loop: Any, trips: int) -> None:
        self._loop = loop
        condition, body = (function_of(region.blocks[0]) for region in loop.regions)

        def part(*values: Value) -> list[Value]:
            *state, goes_on = values
            none, one, most = (hlo.constant(np.array(n, np.int32)) for n in (0, 1, trips))

            def trip(*values: Value) -> list[Value]:
                *state, number, _ = values
                after = body(state)
                return [*after, hlo.add(number, one), *condition(after)]

            test: Callable[..., Value] = lambda *values: hlo.and_(values[-1], hlo.compare(values[-2], most, "LT"))
            *after, _, still = hlo.while_([*state, none, goes_on], test, trip)
            self.inner: Any = still.owner
            return [*after, still]

        with loop.location, ir.InsertionPoint(loop):
            starts = list(loop.operands)
            self._results = hlo.while_([*starts, *condition(starts)], lambda *values: values[-1], part)

    def take_place(self) -> None:
        """Have it do what the other loop does."""
        for old, new in zip(self._loop.results, self._results):
            old.replace_all_uses_with(new)
        self._loop.operation.erase()

    def undo(self) -> None:
        """Leave the other loop as it is."""
        self._results[0].owner.erase()


def function_of(block: Any) -> Callable[[Sequence[Value]], list[Value]]:
    """A function that writes the operations of a block where it is called, and returns what the block does."""

    def write(arguments: Sequence[Value]) -> list[Value]:
        values = dict(zip(block.arguments, arguments, strict=True))
        *operations, last = block.operations
        for op in operations:
            copy = op.operation.clone()
            _exchange(copy, values)
            values.update(zip(op.results, copy.results))
        return [values.get(x, x) for x in last.operands]

    return write


def _exchange(op: Any, values: dict[Value, Value]) -> None:
    """Put other values in the place of operands of an operation, and of all in its regions."""
    for i, operand in enumerate(op.operands):
        op.operands[i] = values.get(operand, operand)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _exchange(inner, values)
