"""The rounds of loops: how many there are, and loops that make a part of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import lax
from veery_lowering.kernels._rounds import LoopInParts, trips_of
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined


def changed(fun: Callable[..., Any], change: Callable[[Any], Any], *args: Any) -> list[Any]:
    """What a change of each loop of a function's module returns."""
    found: list[Any] = []

    def visit(module: Any) -> None:
        loops = [op for op in operations(module) if op.name == "stablehlo.while"]
        found.extend(change(loop) for loop in loops)

    inlined(veery.jit(fun).lower(*args)._lowered.module, visit)
    return found


@pytest.mark.parametrize(
    ("loop", "trips"),
    [
        (lambda x: lax.fori_loop(0, 50, lambda i, y: y * 2, x), 50),
        (lambda x: lax.fori_loop(-3, 4, lambda i, y: y + i, x), 7),
        (lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 3, s[1] * 2), (10, x)), 0),
        (lambda x: lax.while_loop(lambda s: s[0] < 99, lambda s: (s[0] + 3, s[1] * 2), (100, x)), 0),
        (lambda x: lax.while_loop(lambda s: s[0] < 127, lambda s: (s[0] + 100, s[1] * 2), (np.int8(0), x)), None),
        (lambda x: lax.scan(lambda c, v: (c + v, c), x, np.ones(13, np.float32)), 13),
        (lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 3, s[1] * 2), (0, x)), 4),
        (lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (3 + s[0], s[1] * 2), (np.uint8(1), x)), 3),
        (lambda x: lax.while_loop(lambda s: s[0] <= 10, lambda s: (s[0] + 3, s[1] * 2), (0, x)), None),
        (lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] * 3, s[1] * 2), (1, x)), None),
        (lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + s[0], s[1] * 2), (1, x)), None),
        (lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] - 3, s[1] * 2), (1, x)), None),
        (lambda x: lax.while_loop(lambda s: s[0] < 10.0, lambda s: (s[0] + 1.0, s[1] * 2), (0.0, x)), None),
        (lambda x: lax.while_loop(lambda s: s < 10, lambda s: s + 1, x), None),
        (lambda x: lax.while_loop(lambda s: (s[0] < 10) & (s[1] < 5), lambda s: (s[0] + 1, s[1] * 2), (0, x)), None),
    ],
)
def test_trips_of_loops_that_count(loop: Callable[[Any], Any], trips: int | None) -> None:
    assert changed(loop, trips_of, np.float32(1)) == [trips]


def collatz(x: Any) -> Any:
    step = lambda s: (lax.select(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    return lax.while_loop(lambda s: s[0] > 1, step, (x, 0))


@pytest.mark.parametrize("trips", [1, 7, 1000])
@pytest.mark.parametrize("start", [0, 1, 27])
def test_a_loop_in_parts_computes_the_same(trips: int, start: int) -> None:
    """As IREE runs it, for other numbers of trips than those that the parts make."""
    lowered = veery.jit(collatz, compiler_options={"kernels": False}).lower(np.int32(start))
    module = lowered._lowered.module
    loops = [op for op in operations(module.operation) if op.name == "stablehlo.while"]
    for loop in loops:
        LoopInParts(loop, trips).take_place()
    assert str(module).count("stablehlo.while") == 2 * len(loops) == 2
    value, count = start, 0
    while value > 1:
        value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
    assert [int(x) for x in lowered.compile()(np.int32(start))] == [value, count]
