"""Results in the memory of donated arguments: where it is safe, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted
from support.jaxpr_graphs import Graph, execute

import veery
import veery_lowering
import veery_runtime
from veery import lax, numpy as jnp
from veery_lowering.compiler import isolation
from veery_lowering.mlir import context, ir
from veery_lowering.passes.stablehlo import donation
from veery_lowering.passes.stream.arguments import write_donated

FRESH = veery_lowering.Options(cache=False)
SIDE = 192
X, Y = (np.random.default_rng(i).standard_normal((SIDE, SIDE)).astype(np.float32) for i in range(2))
ROW = np.arange(SIDE, dtype=np.float32)
SQUARE = ((SIDE, SIDE), np.float32)


def product(g: Graph, a: Any, b: Any) -> Any:
    dimensions = (((1,), (0,)), ((), ()))
    params = dict(dimension_numbers=dimensions, precision=None, preferred_element_type=None)
    return g.ops("dot_general", [a, b], [SQUARE], **params)[0]


def total(g: Graph, a: Any) -> Any:
    return g.ops("reduce_sum", [a], [((SIDE,), np.float32)], axes=(0,), out_sharding=None)[0]


Program = Callable[[Graph, Any, Any], list[tuple[Any, np.ndarray]]]


def _sum(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(g.op("add", x, y), X + Y)]


def _momentum(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    new = g.op("add", g.op("mul", x, x), y)
    return [(new, X * X + Y), (g.op("sub", y, new), Y - (X * X + Y))]


def _several_uses(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(g.op("sub", g.op("mul", x, y), g.op("add", x, y)), X * Y - (X + Y))]


def _product(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(product(g, x, x), X @ X)]


def _product_and_difference(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(g.op("sub", x, product(g, x, y)), X - X @ Y)]


def _transposed(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(g.op("add", g.ops("transpose", [x], [SQUARE], permutation=(1, 0))[0], y), X.T + Y)]


def _sum_beside(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(g.op("add", x, y), X + Y), (total(g, x), X.sum(0))]


def _product_beside(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    """What reads x is said after what overwrites it."""
    return [(g.op("add", x, product(g, y, y)), X + Y @ Y), (product(g, x, y), X @ Y)]


def _argument_beside(g: Graph, x: Any, y: Any) -> list[tuple[Any, np.ndarray]]:
    return [(g.op("add", x, y), X + Y), (x, X)]


PROGRAMS: dict[str, tuple[Program, bool]] = {
    "sum": (_sum, True),
    "several_uses": (_several_uses, True),
    "momentum": (_momentum, True),
    "product": (_product, False),
    "product_and_difference": (_product_and_difference, False),
    "transposed": (_transposed, False),
    "sum_beside": (_sum_beside, True),
    "product_beside": (_product_beside, True),
    "argument_beside": (_argument_beside, False),
}


def overwritten(name: str, options: veery_lowering.Options = FRESH) -> str:
    """Which arguments the program of that name overwrites if x is donated; its results are right in any case."""
    g = Graph()
    x, y = g.input(X), g.input(Y)
    for i, (value, expected) in enumerate(PROGRAMS[name][0](g, x, y)):
        g.check(f"result {i}", value, expected, 2e-3)
    program = veery_lowering.compile(g.closed(), donated=(True, False), options=options)
    device = veery_runtime.devices("cpu")[0]
    for queue in ("inline", "threaded"):
        call = veery_runtime.load(program, device, queue=queue)
        for _ in range(2):
            given = veery_runtime.put(X, device)
            results = call([given, veery_runtime.put(Y, device)])
            assert given.is_deleted()
            for result, (_, expected, _) in zip(results, g.expected):
                np.testing.assert_allclose(result.numpy(), expected, 2e-3, 2e-3)
    return program.metadata["overwritten"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_reused_where_that_is_safe(name: str) -> None:
    assert overwritten(name) == ("0" if PROGRAMS[name][1] else "")


# Without its kernels of our own: they compute a product and what follows together.
STANDARD = veery_lowering.Options(cache=False, isolation="never")


@pytest.mark.parametrize("name", PROGRAMS)
def test_iree_is_asked_for_it_where_it_plans_memory(name: str) -> None:
    assert overwritten(name, STANDARD) in (("0", "") if PROGRAMS[name][1] else ("",))


def test_what_reads_too_late_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    options = veery_lowering.Options(cache=False, isolation="never", kernels=False)
    assert overwritten("product_beside", options) == "0"
    monkeypatch.setattr(donation._Order, "apply", lambda self: None)
    assert overwritten("product_beside", options) == ""


def test_small_arguments_and_those_that_are_kept_are_left_alone() -> None:
    g = Graph()
    x, row = g.input(X), g.input(ROW)
    g.check("sum", g.op("add", x, x), X + X)
    g.check("row", g.op("neg", row), -ROW)
    program = veery_lowering.compile(g.closed(), donated=(False, True), options=FRESH)
    assert program.metadata["overwritten"] == "" and execute(program, [X, ROW])


def test_the_compiler_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are put into the places of arguments on the way, not in a compilation of its own."""
    run, calls = isolation.run_pipeline, []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return run(*arguments, **options)

    monkeypatch.setattr(isolation, "run_pipeline", counted)
    assert overwritten("sum_beside") == "0" and len(calls) == 1 and calls[0]["check"] is None


PARTLY = {
    "a number at a place": lambda x, i: x.at[i].set(1),
    "added": lambda x, i: x.at[i].add(x[3]),
    "several": lambda x, i: x.at[i].set(x[i + 1]).at[2 * i].multiply(3),
    "rows": lambda x, i: x.reshape(-1, 100).at[i].set(x[:100] * 2).reshape(-1),
    "by a branch": lambda x, i: lax.cond(i % 2 == 0, lambda x: x.at[i].set(7), lambda x: x, x),
}
READ_BESIDE = {
    "a part": lambda x, i: (x.at[i].set(1), x[i]),
    "all": lambda x, i: (x.at[i].set(1), x[::-1] * 2),
    "its sum": lambda x, i: (x.at[i].set(1), x.sum()),
    "itself": lambda x, i: (x.at[i].set(1), x),
    "what is written": lambda x, i: (lambda y: (y, y[i] + x[i]))(x.at[i].set(1)),
    "two places": lambda x, i: (x.at[i].set(1), x.at[i + 1].set(2)),
}
N = 100_000


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("name", [*PARTLY, *READ_BESIDE])
def test_donated_arrays_that_are_written_in_part(name: str) -> None:
    program = (PARTLY | READ_BESIDE)[name]
    write = veery.jit(program, donate_argnums=0)
    x = np.arange(N, dtype=np.int32) % 97
    for i in (5, 99_999, 200_000, -3):
        expected = interpreted(program, x, np.int32(i))
        out = write(jnp.asarray(x), i)
        veery.tree_util.tree_map(np.testing.assert_array_equal, out, expected)


@pytest.mark.parametrize("name", [name for name in PARTLY if name != "by a branch"])
def test_what_is_written_in_part_stays_in_its_place(name: str) -> None:
    write, places = veery.jit(PARTLY[name], donate_argnums=0), []
    x = jnp.arange(N)
    for i in range(8):
        x = write(x, i).block_until_ready()
        places.append(veery_runtime.sharing.extent(x._buffer._ref, x._buffer._spec))
    assert len(set(places[2:])) == 1


COPIED = """
module attributes {veery.donated = array<i64: 0>} {
  util.func public @main(%given: !hal.buffer_view, %other: !hal.fence) {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c7_i32 = arith.constant 7 : i32
    %made = stream.async.splat %c7_i32 : i32 -> !stream.resource<transient>{%c4}
    %copy = stream.async.clone %made : !stream.resource<transient>{%c4} -> !stream.resource<transient>{%c4}
    %filled = stream.async.fill %c7_i32, %copy[%c0 to %c4 for %c4] : i32 -> %copy as !stream.resource<transient>{%c4}
    util.return
  }
}
"""


def test_copies_of_what_is_no_argument_stay() -> None:
    """An argument compared with None is an error of the bindings."""
    with context():
        module = ir.Module.parse(COPIED)
        write_donated(module)
        assert "stream.async.clone" in str(module)
