"""The rounds of loops: how many there are, and loops that make a part of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_loops
from veery_lowering.kernels._nests import Nests
from veery_lowering.kernels._rounds import LoopInParts, overwritten, trips_of
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


def filling(write: Callable[[Any, Any], Any], size: int = 5, **options: Any) -> Callable[[Any], Any]:
    """A loop of five trips that writes into rows of an array, which begins with ones; numbers are not negative."""
    of = np.uint32

    def trip(s: tuple[Any, Any]) -> tuple[Any, Any]:
        return s[0] + of(options.get("step", 1)), write(s[1], s[0])

    test = options.get("test", lambda s: s[0] < of(5))
    return lambda x: lax.while_loop(test, trip, (of(options.get("first", 0)), jnp.ones((size, 3)) * x))[1]


def put(rows: Any, i: Any, row: Any = 2.0) -> Any:
    return lax.dynamic_update_slice(rows, jnp.full((1, 3), row, np.float32), (i, np.uint32(0)))


def back(rows: Any, i: Any) -> Any:
    return put(rows, np.uint32(4) - i, i)


WRITES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "a scan": (lambda x: lax.scan(lambda c, v: (c + v, c * v), x, np.arange(5, dtype=np.float32))[1], 1),
    "a scan backwards": (
        lambda x: lax.scan(lambda c, v: (c + v, c * v), x, np.arange(5, dtype=np.float32), reverse=True)[1], 1,
    ),
    "two results": (lambda x: lax.scan(lambda c, _: (c + 1, (c, c * x)), x, length=5)[1], 2),
    "each row": (filling(put), 1),
    "each row from the last": (filling(back), 1),
    "all rows but one": (filling(put, 6), 0),
    "all rows but the first": (filling(put, first=1), 0),
    "the same rows": (filling(lambda rows, i: put(rows, i // np.uint32(2))), 0),
    "every other row": (filling(put, step=2), 0),
    "rows from elsewhere": (filling(lambda rows, i: put(rows, np.uint32(3) - i)), 0),
    "rows and what was in the one before": (filling(lambda rows, i: put(rows, i, rows[4 - i, 0])), 0),
    "rows twice": (filling(lambda rows, i: put(put(rows, np.uint32(0)), i)), 0),
    "rows that decide": (filling(put, test=lambda s: (s[0] < np.uint32(5)) & (s[1][4, 0] > 0)), 0),
    "rows that are written elsewhere, too": (filling(lambda rows, i: put(rows, i) + 1), 0),
    "a part of each row": (
        filling(lambda rows, i: lax.dynamic_update_slice(rows, jnp.full((1, 2), 2.0), (i, np.uint32(0)))), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_arrays_that_loops_overwrite(name: str) -> None:
    loop, count = WRITES[name]
    assert list(map(len, changed(loop, overwritten, np.float32(3)))) == [count]
    expected = interpreted(loop, np.float32(3))
    for actual, wanted in zip(veery.tree.leaves(veery.jit(loop)(np.float32(3))), veery.tree.leaves(expected)):
        np.testing.assert_array_equal(actual, wanted)


def test_what_is_overwritten_is_not_filled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[tuple[int, ...]] = []
    fill = Nests.fill

    def noted(self: Nests, target: Any, *args: Any, **options: Any) -> None:
        filled.append(target.shape)
        fill(self, target, *args, **options)

    monkeypatch.setattr(Nests, "fill", noted)
    scan = veery.jit(lambda x: lax.scan(lambda c, _: (c[::-1] * 0.5, c), x, length=50)[1])
    inlined(scan.lower(np.ones(9, np.float32))._lowered.module, fuse_loops)
    assert (9,) in filled and (50, 9) not in filled


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
