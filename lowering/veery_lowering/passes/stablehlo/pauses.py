"""Have the host wait now and then in long loops.

Problem: IREE 3.13 submits the trips of a loop that counts without waiting for any, and keeps some 15 kB for each until
it has run. Example: 40,000 products of 150x150 in a loop take 600 MB. Fix: a loop of more than 1000 trips makes as many
at a time, and waits for what they give. Test: tests/lowering/test_pauses.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._rounds import Counter, counter_of, function_of
from veery_lowering.mlir import ir, terminator
from veery_lowering.stablehlo import Value

_MOST = 1000  # trips that are submitted before one is waited for


def pause_loops(module: Any) -> None:
    """Have loops of many trips make so many at a time, in place; inner loops first."""
    _submitted(module)


def _submitted(op: Any) -> int:
    """How many trips of the loops in an operation are submitted before one is waited for."""
    return sum(_trips(inner) for region in op.regions for block in region.blocks for inner in list(block.operations))


def _trips(op: Any) -> int:
    """As `_submitted`, of an operation that may be a loop itself."""
    inner = _submitted(op)
    if op.operation.name != "stablehlo.while":
        return inner
    counter = counter_of(op)
    if counter is None:  # the host waits for its condition
        return 0
    at_a_time, computed = max(1, _MOST // (1 + inner)), _computed(op, counter)
    if counter.trips <= at_a_time or computed is None:
        return counter.trips * (1 + inner)
    with op.location, ir.InsertionPoint(op):
        results = _paused(op, counter, at_a_time, computed)
    for old, new in zip(op.results, results):
        old.replace_all_uses_with(new)
    op.operation.erase()
    return 0


def _computed(loop: Any, counter: Counter) -> int | None:
    """The first carry that trips compute, beside the counter; None if there is none."""
    body = loop.regions[1].blocks[0]
    ends = enumerate(zip(body.arguments, terminator(body).operands))
    return next((i for i, (given, made) in ends if i != counter.place and made != given), None)


def _paused(loop: Any, counter: Counter, at_a_time: int, computed: int) -> list[Value]:
    """The results of a loop that makes so many trips at a time, and before these what is left over."""
    goes_on, trip = (function_of(region.blocks[0]) for region in loop.regions)
    place, dtype = counter.place, hlo.dtype_of(loop.operands[counter.place])
    constant: Callable[[int], Value] = lambda number: hlo.constant(np.array(number, dtype))

    def several(values: Sequence[Value], trips: int) -> list[Value]:
        """So many trips, in a loop that counts from 0: IREE has the host count where nothing else has the number."""
        first, zero = values[place], constant(0)
        given = [zero if i == place else x for i, x in enumerate(values)]

        def one(*values: Value) -> list[Value]:
            number = hlo.add(first, values[place])
            after = trip([number if i == place else x for i, x in enumerate(values)])
            after[place] = hlo.add(values[place], constant(counter.step))
            return after

        end = constant(trips * counter.step)
        after = hlo.while_(given, lambda *values: hlo.compare(values[place], end, "LT"), one)
        after[place] = hlo.add(first, end)
        (after[computed],) = hlo.optimization_barrier([after[computed]])
        return after

    values, rest = list(loop.operands), counter.trips % at_a_time
    if rest:
        values = several(values, rest)
        values[place] = constant(counter.first + rest * counter.step)
    return hlo.while_(values, lambda *values: goes_on(values), lambda *values: several(values, at_a_time))
