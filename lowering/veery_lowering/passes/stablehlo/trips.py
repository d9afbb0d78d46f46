"""Make several trips of loops at a time where each is a submission to a GPU.

IREE submits each trip by itself, and where the device decides whether there is another one the host waits for that:
80 to 160 us a trip on an H200, whatever is computed. Here a loop of a known number of trips makes several at a time,
which are equal dispatches, compiled once. So does a loop that asks the device, if its trips are cheap: those behind the
last one leave everything as it is.

An LSTM of 20 steps takes an H200 0.9 ms, with a trip at a time 2.3, a network of 50 0.95 and 4.0; on lavapipe the first
takes 2.9 ms for 7.1, roots by Newton's method 6 for 48. Test: tests/lowering/test_trips.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._rounds import Counter, counter_of, function_of
from veery_lowering.mlir import base_name, ir, operations
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

_MOST = 16  # trips at a time
_LONGEST = 1000  # operations of these: one takes IREE a millisecond
_MOST_ASKED = 4  # at a time, where the device decides
_CHEAP = 1 << 18  # elements that such a trip reads or computes
# What costs more than its elements tell, and what must not be done once too often.
_DEAR = frozenset("dot_general convolution sort custom_call while case if fft cholesky triangular_solve".split())

Trip = Callable[[Sequence[Value]], list[Value]]


def join_trips(module: ir.Module) -> None:
    """Have loops make several trips at a time, in place, where that pays; the inner ones first."""
    for loop in [op for op in operations(module.operation) if op.name == "stablehlo.while"]:
        with loop.location, ir.InsertionPoint(loop):
            results = _joined(loop)
        if results is not None:
            for old, new in zip(loop.results, results):
                old.replace_all_uses_with(new)
            loop.operation.erase()


def _joined(loop: Any) -> list[Value] | None:
    """The results of a loop that makes several trips at a time; None where it stays as it is."""
    condition, body = (region.blocks[0] for region in loop.regions)
    goes_on, trip = function_of(condition), function_of(body)
    counter = counter_of(loop)
    if counter is None:
        return _asking(list(loop.operands), goes_on, trip) if _is_cheap(loop) else None
    at_a_time = _at_a_time(counter.trips, min(_MOST, _LONGEST // max(1, _size(body))))
    return _counting(list(loop.operands), goes_on, trip, counter, at_a_time) if at_a_time > 1 else None


def _at_a_time(trips: int, most: int) -> int:
    """How many trips to make at a time, so that little is submitted; the rest is made one by one.

    Not all of them: IREE writes out a loop of one trip, and compiles what reads another part in each trip for each.
    """
    return min(range(1, min(trips // 2, most) + 1), key=lambda n: (trips // n + trips % n, n), default=0)


def _size(block: Any) -> int:
    inner = [each for op in block.operations for region in op.regions for each in region.blocks]
    return len([op for op in block.operations if op.name != "stablehlo.constant"]) - 1 + sum(map(_size, inner))


def _counting(values: list[Value], goes_on: Trip, trip: Trip, counter: Counter, at_a_time: int) -> list[Value]:
    place = counter.place
    dtype = hlo.dtype_of(values[place])
    constant: Callable[[int], Value] = lambda number: hlo.constant(np.array(number, dtype))
    rest = counter.trips % at_a_time
    middle = counter.first + rest * counter.step

    def several(*values: Value) -> list[Value]:
        after = list(values)
        for i in range(1, at_a_time + 1):
            after = trip(after)
            # Not a sum of sums: IREE looks for a loop that counts.
            after[place] = hlo.add(values[place], constant(i * counter.step))
        return after

    if rest:
        is_rest: Callable[..., Value] = lambda *values: hlo.compare(values[place], constant(middle), "LT")
        values = hlo.while_(values, is_rest, lambda *values: trip(values))
        values[place] = constant(middle)
    return hlo.while_(values, lambda *values: goes_on(values), several)


def _asking(values: list[Value], goes_on: Trip, trip: Trip) -> list[Value]:
    def chosen(still: Value, new: Value, old: Value) -> Value:
        # Not by the number itself, for which the host would wait.
        return old if new == old else hlo.select(hlo.spread(still, hlo.shape_of(old)), new, old)

    def several(*values: Value) -> list[Value]:
        after = trip(values[:-1])
        for _ in range(_MOST_ASKED - 1):
            (still,) = goes_on(after)
            after = [chosen(still, *each) for each in zip(trip(after), after)]
        return [*after, *goes_on(after)]

    return hlo.while_([*values, *goes_on(values)], lambda *values: values[-1], several)[:-1]


def _is_cheap(loop: Any) -> bool:
    """Whether trips of a loop are short, and may be made once too often."""
    elements = 0
    for op in operations(loop)[:-1]:
        if not op.name.startswith(("stablehlo.", "chlo.")) or base_name(op.name) in _DEAR:
            return False
        shapes = [hlo.shape_of(x) for x in (*op.operands, *op.results)]
        if not all(is_static(n) for shape in shapes for n in shape):
            return False
        elements += max((math.prod(shape) for shape in shapes), default=0)
    return elements <= _CHEAP
