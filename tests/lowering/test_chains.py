"""What is elementwise and long is parted; what it takes to compile it grows with its length, and no faster."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import ELEMENTWISE, MOST_IN_A_ROW, MOST_TOGETHER, decisions
from veery_lowering.mlir import base_name, operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.chains import part_chains

X = np.linspace(-2, 2, 37, dtype=np.float32)
pytestmark = pytest.mark.compiler


def sines(x: Any, n: int) -> Any:
    for i in range(n):
        x = jnp.sin(x) * 1.01 + i * 0.01
    return x


def spirals(a: Any, b: Any, n: int) -> Any:
    for _ in range(n):
        a, b = a * 0.5 + b, b - a * 0.1
    return a, b


def parts(fun: Callable[..., Any], *args: Any) -> tuple[list[int], int]:
    """The sizes of what is elementwise and connected once it is parted, the longest first; and how many barriers."""
    found: list[tuple[list[int], int]] = []

    def look(module: Any) -> None:
        part_chains(module)
        block = module.regions[0].blocks[0].operations[0].regions[0].blocks[0]
        group: dict[Any, int] = {}
        for op in block.operations:
            if base_name(op.name) in ELEMENTWISE:
                joined = {group[x] for x in op.operands if x in group}
                group[op.results[0]] = number = min(joined, default=len(group))
                group = {x: number if n in joined else n for x, n in group.items()}
        counts = [len(list(same)) for _, same in itertools.groupby(sorted(group.values()))]
        barriers = [op for op in block.operations if op.name == "stablehlo.optimization_barrier"]
        found.append((sorted(counts, reverse=True), sum(len(op.results) for op in barriers)))

    inlined(veery.jit(fun).lower(*args)._lowered.module, look)
    return found[0]


def test_parts_are_as_long_as_kernels_may_be() -> None:
    assert parts(lambda x: sines(x, 3), X)[1] == 0
    counts, barriers = parts(lambda x: sines(x, 30), X)
    assert counts[0] <= MOST_TOGETHER and len(counts) == barriers + 1  # one value crosses each
    assert barriers <= sum(counts) / (MOST_TOGETHER / 2)
    counts, barriers = parts(lambda a, b: spirals(a, b, 300), X, X)
    assert counts[0] <= 2 * MOST_IN_A_ROW and barriers == 2 * (len(counts) - 1)


def test_what_is_not_connected_is_not_parted() -> None:
    assert parts(lambda x: [sines(x * i, 3) for i in range(20)], X)[1] == 0
    assert parts(lambda x: [x * i + 1 for i in range(MOST_TOGETHER)], X)[1] == 0


def test_parts_of_numbers_are_shorter() -> None:
    counts, _ = parts(lambda a, b: spirals(a, b, 100), X[0], X[1])
    assert counts[0] <= MOST_TOGETHER / 6 + 1


def test_parts_in_loops() -> None:
    """A barrier stands in the block of what it parts."""
    module = veery.jit(lambda x: lax.fori_loop(0, 3, lambda i, x: sines(x, 12), x)).lower(X)._lowered.module
    homes: list[str] = []

    def look(module: Any) -> None:
        part_chains(module)
        homes.extend(op.parent.name for op in operations(module) if op.name == "stablehlo.optimization_barrier")

    inlined(module, look)
    assert set(homes) == {"stablehlo.while"} and len(homes) >= 2


def repeated(step: Callable[[Any, int], Any], numbers: range, x: Any) -> Any:
    for i in numbers:
        x = step(x, i)
    return x


# A function, its arguments, and what it is in NumPy; a sine, of which NumPy has other bits, so that it is compiled.
LONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]] = {
    "sines": (
        lambda x: sines(x, 25),
        (X,),
        lambda x: repeated(lambda y, i: np.sin(y) * 1.01 + i * 0.01, range(25), x),
    ),
    "two values": (
        lambda a, b: spirals(jnp.sin(a), b, 150),
        (X, X[::-1].copy()),
        lambda a, b: spirals(np.sin(a), b, 150),
    ),
    "two numbers": (lambda x: spirals(jnp.sin(x[0]), x[1], 120), (X,), lambda x: spirals(np.sin(x[0]), x[1], 120)),
    "before a sum": (
        lambda x: sines(x, 20).sum(0),
        (np.tile(X, (30, 3)),),
        lambda x: repeated(lambda y, i: np.sin(y) * 1.01 + i * 0.01, range(20), x).sum(0),
    ),
    "complex": (
        lambda x: repeated(lambda y, _: y * y + (0.1 + 0.2j), range(150), x),
        (np.full(2000, 0.1, np.complex64),),
        lambda x: repeated(lambda y, _: y * y + (0.1 + 0.2j), range(150), x),
    ),
    "halves": (
        lambda x: repeated(lambda y, _: jnp.sqrt(y * 0.5 + 1), range(150), x),
        (np.abs(X).astype(np.float16),),
        lambda x: repeated(lambda y, _: np.sqrt(y * 0.5 + 1), range(150), x),
    ),
    "integers": (
        lambda x: repeated(lambda y, _: (y * 1103515245 + 12345) ^ (y >> 7), range(150), x),
        (np.arange(50, dtype=np.uint32),),
        lambda x: repeated(lambda y, _: (y * 1103515245 + 12345) ^ (y >> 7), range(150), x).astype(np.uint32),
    ),
    "backwards": (
        lambda x: repeated(lambda y, i: jnp.where(y > i, y - 1, y[::-1] + 0.5), range(40), jnp.sin(x)),
        (X,),
        lambda x: repeated(lambda y, i: np.where(y > i, y - 1, y[::-1] + 0.5), range(40), np.sin(x)),
    ),
}


@pytest.mark.usefixtures("as_preferred")
@pytest.mark.parametrize("name", LONG)
def test_long_chains_are_right_and_kernels(name: str) -> None:
    fun, args, expected = LONG[name]
    tolerance = 2e-2 if args[0].dtype == np.float16 else 2e-4
    wide = expected(*(x.astype({"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)) for x in args))
    with decisions() as decided:
        with_kernels = veery.jit(fun).lower(*args).compile()
    assert sum(bool(decision.kernel) for decision in decided) >= (1 if name == "before a sum" else 2)
    for program in (with_kernels, veery.jit(fun, compiler_options={"kernels": False})):
        for a, b in zip(veery.tree.leaves(program(*args)), veery.tree.leaves(wide)):
            np.testing.assert_allclose(np.asarray(a, b.dtype), b, rtol=tolerance, atol=tolerance)
