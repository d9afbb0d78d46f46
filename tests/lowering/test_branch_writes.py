"""What branches write into parts of arrays is written behind them, in place, and comes out the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.days import of_the_day
from support.interpreted import interpreted
from support.random_writes import Drawing, arguments

import veery
from veery import lax, numpy as jnp
from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import maker, operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.branch_writes import write_behind_branches

N = 640


def same(x: Any) -> Any:
    return x


def in_rows(choose: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A choice for each of eight rows: between what `choose` makes of a row, its number and where to write, and it."""

    def program(x: Any, i: Any, p: Any) -> Any:
        rows, numbers = x.reshape(8, -1), jnp.arange(8)
        return jnp.where((numbers % 3 == p)[:, None], veery.vmap(choose, (0, 0, None))(rows, numbers, i), rows)

    return program


def until_each_ends(x: Any, i: Any, p: Any) -> Any:
    """A loop in each of eight rows, with ends of its own."""
    trip = lambda c: (c[0] + 1, c[1].at[c[0] * 3].set(c[1][c[0]] + 1).at[c[0]].add(1))
    loop = lambda n, row: lax.while_loop(lambda c: c[0] < n, trip, (0, row))[1]
    return veery.vmap(loop)((jnp.arange(8) * (i + 2) + p) % 7, x.reshape(8, -1))


# Of an array, a number, and the number of a branch.
PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "one branch": lambda x, i, p: lax.cond(p == 1, lambda x: x.at[i].set(7), same, x),
    "the other one": lambda x, i, p: lax.cond(p == 1, same, lambda x: x.at[i].set(7), x),
    "each branch": lambda x, i, p: lax.switch(p, [lambda x: x.at[i].add(7), same, lambda x: x.at[2 * i].set(i)], x),
    "several times": lambda x, i, p: lax.cond(
        p == 1, lambda x: x.at[i].set(7).at[i + 3].set(x[5]).at[i].add(1), same, x
    ),
    "what was written before": lambda x, i, p: lax.cond(
        p == 1, lambda x: (lambda y: y.at[i + 1].set(y[i] * 3 + y[9]))(x.at[i].set(7)), same, x
    ),
    "what it reads": lambda x, i, p: lax.cond(p == 1, lambda x: x.at[i].set(x[i + 1] * 2 + 1), same, x),
    "where another reads": lambda x, i, p: lax.cond(p == 1, lambda x: (x.at[i].set(7), x[i]), lambda x: (x, x[9]), x),
    "rows": lambda x, i, p: lax.cond(
        p == 1, lambda x: lax.dynamic_update_slice(x.reshape(40, 16), jnp.full((1, 16), i, x.dtype), (i, 0)),
        lambda x: x.reshape(40, 16), x,
    ),
    "dropped": lambda x, i, p: lax.cond(p == 1, lambda x: x.at[i + 1000].set(7), same, x),
    "scattered": lambda x, i, p: lax.cond(p == 1, lambda x: x.at[jnp.array([3, 1, 3, 9000]) + i].add(7), same, x),
    "rows by numbers": lambda x, i, p: lax.cond(
        p == 1, lambda x: x.at[jnp.array([3, 1, 90]) + i].set(7), same, x.reshape(40, 16)
    ),
    "largest": lambda x, i, p: lax.cond(p == 1, lambda x: x.at[jnp.array([3, 1]) + i].max(7), same, x),
    "handed on": lambda x, i, p: lax.cond(p == 1, lambda x, i: (x, i * 2), lambda x, i: (x, i + 1), x * 2, i),
    "two arrays": lambda x, i, p: lax.switch(
        p, [lambda x, y: (x.at[i].set(1), y), lambda x, y: (x, y.at[i].set(x[3])), lambda x, y: (x, y)], x, x * 2
    ),
    "exchanged": lambda x, i, p: lax.cond(p == 1, lambda x, y: (y.at[i].set(1), x), lambda x, y: (x, y), x, x * 2),
    "twice": lambda x, i, p: lax.cond(p == 1, lambda x: (x.at[i].set(1), x.at[2].set(x[i])), lambda x: (x, x), x),
    "branches in branches": lambda x, i, p: lax.cond(
        p > 0, lambda x: lax.cond(p > 1, lambda x: x.at[i].set(7), lambda x: x.at[i].add(x[3]), x), same, x
    ),
    "a loop in a branch": lambda x, i, p: lax.cond(
        p > 0, lambda x: lax.fori_loop(0, 4, lambda j, x: x.at[i + j].add(x[j]), x), same, x
    ),
    "what is needed elsewhere": lambda x, i, p: (
        lambda y: (lax.cond(p == 1, lambda: y.at[i].set(7), lambda: y), y)
    )(x * 2),
    "chosen": lambda x, i, p: jnp.where(p == 1, x.at[i].set(7), x),
    "chosen otherwise": lambda x, i, p: jnp.where(p == 1, x, x.at[i].set(7).at[3].add(x[i])),
    "chosen twice": lambda x, i, p: (lambda y: jnp.where(p == 2, y.at[3].set(y[i]), y))(
        jnp.where(p == 1, x.at[i].set(7), x)
    ),
    "rows chosen": in_rows(lambda row, k, i: row.at[k + i].set(7)),
    "rows chosen otherwise": lambda x, i, p: (lambda rows, flags: jnp.where(flags, rows, rows.at[:, i].set(7)))(
        x.reshape(8, -1), (jnp.arange(8) % 3 == p)[:, None]
    ),
    "rows chosen, several times": in_rows(
        lambda row, k, i: row.at[jnp.array([k, i, k])].set(row[3]).at[2 * i].add(row[i]).at[k + 70].add(1)
    ),
    "rows chosen, dropped": in_rows(lambda row, k, i: row.at[k * i * 5].add(7, mode="drop")),
    "largest of rows chosen": in_rows(lambda row, k, i: row.at[k].max(7)),
    "rows until each ends": until_each_ends,
    "chosen, and read": lambda x, i, p: (lambda y: (jnp.where(p == 1, y, x), y[::2]))(x.at[i].set(7)),
}  # fmt: skip


def assert_equal(actual: Any, expected: Any) -> None:
    found, _ = veery.tree_util.tree_flatten_with_path(actual)
    for (path, x), y in zip(found, veery.tree_util.tree_leaves(expected), strict=True):
        np.testing.assert_array_equal(x, y, str(path))


def looped(fun: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A loop that computes a function of its array in each trip, and writes what it gives into that."""

    def run(x: Any, p: Any) -> Any:
        def body(x: Any, i: Any) -> Any:
            first, *others = veery.tree_util.tree_leaves(fun(x, i, (i + p) % 3))
            return first.reshape(x.shape), (x[i], [y.reshape(-1)[i] for y in others])

        return lax.scan(body, x, jnp.arange(6, dtype=np.int32))

    return run


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")
@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64", "uint8", "bfloat16"])
def test_programs(dtype: str) -> None:
    x = (np.arange(N) % 11).astype(jnp.dtype(dtype))
    programs = dict(PROGRAMS)
    if dtype == "complex64":  # has no order
        programs = {name: program for name, program in programs.items() if "largest" not in name}
    run = lambda x, i, p: [program(x, i, p) for program in programs.values()]
    compiled = veery.jit(run)
    for i, p in ((3, 0), (0, 1), (20, 2), (5, 7), (4, -1)):
        given = x, np.int32(i), np.int32(p)
        assert_equal(dict(zip(programs, compiled(*given))), dict(zip(programs, interpreted(run, *given))))


@pytest.mark.parametrize("n", [N, 40000])  # a kernel, and trips of IREE's
@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_loops(n: int, queue: str) -> None:
    x = (np.arange(n) % 11).astype(np.int32)
    programs = {name: looped(fun) for name, fun in PROGRAMS.items() if n == N or "rows" not in name}
    run = lambda x, p: [program(x, p) for program in programs.values()]
    compiled = veery.jit(run, compiler_options={"queue": queue})
    for p in (0, 1):
        expected = interpreted(run, x, np.int32(p))
        assert_equal(dict(zip(programs, compiled(x, np.int32(p)))), dict(zip(programs, expected)))


REALS = ("float32", "int8", "float8_e4m3fn")
COMBINED = [(operation, kind) for operation in ("add", "multiply", "max", "min") for kind in REALS]


@pytest.mark.parametrize("operation, kind", [*COMBINED, ("add", "complex64"), ("multiply", "complex64")])
def test_what_is_not_run_changes_no_bit(operation: str, kind: str) -> None:
    """Not the signs of zeros, nor what is infinite."""
    ends = [-np.inf, np.inf, np.nan] if kind in ("float32", "complex64") else [-3, 3]
    x = np.resize(np.array([-0.0, 0.0, *ends]), N).astype(jnp.dtype(kind))
    x = x.conj() if kind == "complex64" else x  # whose imaginary parts are -0
    scatter = lambda x: getattr(x.at[jnp.array([1, 2, 0])], operation)(jnp.ones(3, x.dtype))
    out = veery.jit(lambda x, p: lax.cond(p, scatter, same, x[::-1]))(x[::-1], False)
    assert np.asarray(out).tobytes() == x.tobytes()


def handed_on(name: str) -> list[int]:
    """How many elements results of branches and choices have, after the pass."""
    sizes: list[int] = []

    def look(module: Any) -> None:
        write_behind_branches(module)
        module.verify()
        for op in operations(module):
            is_choice = op.name == "stablehlo.select" and (
                not hlo.shape_of(op.operands[0]) or maker(op.operands[0]) == "stablehlo.broadcast_in_dim"
            )
            if is_choice or op.name in ("stablehlo.case", "stablehlo.if"):
                sizes.extend(int(np.prod(x.type.shape)) for x in op.results)

    x = np.zeros(N, np.int32)
    lowered = veery.jit(lambda x, i, p: PROGRAMS[name](x * 2, i, p)).lower(x, np.int32(1), np.int32(1))
    inlined(lowered._lowered.module, look)
    return sizes


KEPT = ("chosen, and read", "exchanged", "a loop in a branch")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in KEPT])
def test_arrays_are_not_handed_on(name: str) -> None:
    assert max(handed_on(name), default=0) < N


@pytest.mark.parametrize("name", KEPT)
def test_what_is_handed_on(name: str) -> None:
    assert max(handed_on(name)) == N


def check(program: Callable[..., Any], n: int, **options: Any) -> None:
    given = arguments(n)
    out = veery.jit(program, **options)(*map(jnp.asarray, given))
    assert_equal(out, interpreted(program, *given))


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("seed", of_the_day(range(24), 3))
def test_random_programs(seed: int) -> None:
    check(Drawing(seed, 40).program(), 40, donate_argnums=(0, 1, 2) if seed % 3 == 0 else ())


@pytest.mark.parametrize("seed", of_the_day(range(24, 32), 2))
def test_random_programs_of_large_arrays(seed: int) -> None:
    check(Drawing(seed, 400_000).program(), 400_000)
