"""Loops in which the host waits now and then compute what they do without, in little memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.counting_loops import COUNTING, W, X
from support.passes import leave_out

import veery
import veery.numpy as jnp
from veery import _reference, lax
from veery_lowering.kernels._rounds import trips_of
from veery_lowering.mlir import operations
from veery_lowering.passes import pipeline
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo import pauses

PROGRAMS = COUNTING | {
    "in place": lambda x: lax.fori_loop(0, 13, lambda i, y: y.at[i % 5].add(y[i % 3] * i), x),
    "rows": lambda x: lax.scan(lambda c, i: (c.at[i].set(c[i - 1] @ W), c.sum()), jnp.outer(x, x), jnp.arange(1, 5)),
    "branches": lambda x: lax.fori_loop(0, 9, lambda i, y: lax.cond(y[0] > i, lambda: y @ W, lambda: y + i), x),
    "a loop that asks": lambda x: lax.fori_loop(
        0, 7, lambda i, y: lax.while_loop(lambda z: z[0] < i, lambda z: z + abs(x) + 1, y - i), x
    ),
    "nested twice": lambda x: lax.fori_loop(
        0,
        5,
        lambda i, x: lax.fori_loop(0, 3, lambda j, x: lax.fori_loop(0, 7, lambda k, x: x @ W + i + j * k, x), x),
        x,
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_compute_the_same(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_MOST", most)
    leave_out(monkeypatch, "fuse_loops")
    veery.config.update("jax_enable_compilation_cache", False)
    fun = PROGRAMS[name]
    closed = veery.make_jaxpr(lambda x: veery.tree.leaves(fun(x)))(X)
    found = veery.tree.leaves(veery.jit(fun)(X))
    assert not _reference.compare(closed, [X], found).failures


@pytest.mark.compiler
def test_given_arguments_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_MOST", 4)
    leave_out(monkeypatch, "fuse_loops")
    fun = lambda x, y: (lax.fori_loop(0, 10, lambda i, x: x.at[i].add(y[i] @ W), x), y + 1)
    x, y = np.ones((300, 5), np.float32), np.arange(1500, dtype=np.float32).reshape(300, 5)
    found = veery.jit(fun, donate_argnums=(0, 1))(jnp.array(x), jnp.array(y))
    x[:10] += y[:10] @ W
    np.testing.assert_allclose(found[0], x, rtol=1e-5)
    np.testing.assert_array_equal(found[1], y + 1)


def trips(fun: Any) -> list[int | None]:
    """The trips of the loops of a function, counted, once they make some at a time."""
    found: list[int | None] = []

    def visit(module: Any) -> None:
        pauses.pause_loops(module)
        found.extend(trips_of(op) for op in operations(module) if op.name == "stablehlo.while")

    inlined(veery.jit(fun).lower(X)._lowered.module, visit)
    return found


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (lambda x: lax.fori_loop(0, 1000, lambda i, x: x @ W, x), [1000]),
        (lambda x: lax.fori_loop(0, 3000, lambda i, x: x @ W, x), [3, 1000]),
        (lambda x: lax.fori_loop(5, 2505, lambda i, x: x @ W, x), [500, 2, 1000]),
        (lambda x: lax.while_loop(lambda s: s[0] < 6001, lambda s: (s[0] + 2, s[1] @ W), (1, x)), [3, 1000]),
        (lambda x: lax.while_loop(lambda s: s[1][0] < 9, lambda s: (s[0] + 2, s[1] @ W), (1, x)), [None]),
        (lambda x: lax.fori_loop(0, 90, lambda i, x: lax.fori_loop(0, 99, lambda j, x: x @ W, x), x), [9, 10, 99]),
        (lambda x: lax.fori_loop(0, 9, lambda i, x: lax.fori_loop(0, 99, lambda j, x: x @ W, x), x), [9, 99]),
        (lambda x: lax.fori_loop(0, 9, lambda i, x: lax.fori_loop(0, 2000, lambda j, x: x @ W, x), x), [9, 2, 1000]),
    ],
)
def test_how_many_trips_are_made_at_a_time(fun: Any, expected: list[int | None]) -> None:
    assert sorted(trips(fun), key=str) == sorted(expected, key=str)


LONG = """
import re, sys
from pathlib import Path
import veery, veery.numpy as jnp
from veery import lax
from veery_lowering.passes import pipeline
left_out = ("fuse_loops", *sys.argv[1:])
pipeline.PASSES = tuple(p for p in pipeline.PASSES if p.name not in left_out)
veery.config.update("jax_enable_compilation_cache", False)
x = jnp.ones((100, 100)) / 100
fun = lambda n: veery.jit(lambda y: lax.fori_loop(0, n, lambda i, y: jnp.tanh(y @ x), y))
used = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])  # kB, at most
fun(100)(x).block_until_ready()
before = used()
fun(20_000)(x).block_until_ready()
print(used() - before)
"""


@pytest.mark.compiler
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how much memory a process had at most")
def test_long_loops_take_little_memory() -> None:
    def used(*left_out: str) -> int:
        done = subprocess.run([sys.executable, "-c", LONG, *left_out], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert 0 < 3 * used() < used("pause_loops")


def test_for_the_cpu_alone() -> None:
    (found,) = (p for p in pipeline.PASSES if p.name == "pause_loops")
    assert [found.when(pipeline.Situation(backend)) for backend in ("cpu", "cuda", "vulkan")] == [True, False, False]
