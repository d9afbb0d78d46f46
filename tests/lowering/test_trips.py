"""Loops that make several trips at a time compute what they do with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.counting_loops import COUNTING, W, X
from support.passes import leave_out, run_everywhere

import veery
import veery.numpy as jnp
from veery import _reference, lax
from veery_lowering.kernels._rounds import trips_of
from veery_lowering.mlir import operations
from veery_lowering.passes import pipeline
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo import trips


def _norm(x: Any, y: Any) -> Any:
    return jnp.max(jnp.abs(y * y - x)) > 1e-3


ASKING = {
    "root": lambda x: lax.while_loop(lambda y: _norm(jnp.abs(x) + 1, y), lambda y: (y + (jnp.abs(x) + 1) / y) / 2, x),
    "counted": lambda x: lax.while_loop(lambda s: s[1].sum() < 50, lambda s: (s[0] + 1, s[1] + jnp.abs(x)), (0, x)),
    "never": lambda x: lax.while_loop(lambda y: y[0] > 99, lambda y: y / 0, x),
    "once": lambda x: lax.while_loop(lambda y: jnp.isfinite(y[0]), lambda y: y / 0, x),
    "not a number": lambda x: lax.while_loop(lambda y: ~jnp.isnan(y[0]), lambda y: jnp.sqrt(y) - 1, x),
    "exchanged": lambda x: lax.while_loop(lambda s: s[2] < 90, lambda s: (s[1], s[0], s[2] * 2 + 1), (x, x + 1, 0)),
    "conditions": lambda x: lax.while_loop(lambda s: s[0] & (s[1] > 1), lambda s: (s[1] != 5, s[1] // 2), (True, 80)),
    "complex": lambda x: lax.while_loop(lambda z: jnp.abs(z[0]) < 9, lambda z: z * z + (1 + 1j), x + 0j),
}


def changed(fun: Callable[..., Any], *args: Any) -> tuple[list[int | None], int]:
    """The trips of the loops of a function, counted, once they make several at a time, and the operations in all."""
    found: list[Any] = []

    def visit(module: Any) -> None:
        trips.join_trips(module)
        found[:] = [op for op in operations(module.operation)]
        loops = [trips_of(op) for op in found if op.name == "stablehlo.while"]
        found[:] = [loops, len(found)]

    inlined(veery.jit(fun).lower(*args)._lowered.module, visit)
    return found[0], found[1]


@pytest.mark.compiler
@pytest.mark.parametrize("name", [*(f"counting: {k}" for k in COUNTING), *(f"asking: {k}" for k in ASKING)])
def test_loops_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, _, key = name.partition(": ")
    fun = {"counting": COUNTING, "asking": ASKING}[kind][key]
    run_everywhere(monkeypatch, "join_trips")
    leave_out(monkeypatch, "fuse_loops")
    veery.config.update("jax_enable_compilation_cache", False)
    closed = veery.make_jaxpr(lambda x: veery.tree.leaves(fun(x)))(X)
    found = veery.tree.leaves(veery.jit(fun)(X))
    with np.errstate(all="ignore"):
        assert not _reference.compare(closed, [X], found).failures


@pytest.mark.parametrize(
    ("length", "loops"), [(2, [2]), (4, [2]), (7, [1, 2]), (32, [2]), (33, [3]), (100, [2, 7]), (96, [6])]
)
def test_how_many_trips_are_made_at_a_time(length: int, loops: list[int]) -> None:
    assert changed(lambda x: lax.fori_loop(0, length, lambda i, y: y * 0.9 + i, x), X)[0] == loops


def test_long_trips_are_made_one_at_a_time() -> None:
    def trip(i: Any, x: Any) -> Any:
        for _ in range(800):
            x = jnp.sin(x)
        return x

    assert changed(lambda x: lax.fori_loop(0, 100, trip, x), X)[0] == [100]


def test_dear_trips_are_not_made_too_often() -> None:
    cheap = lambda x: lax.while_loop(lambda y: y[0] < 9, lambda y: y + jnp.abs(x), x)
    product = lambda x: lax.while_loop(lambda y: y[0] < 9, lambda y: y @ W + jnp.abs(x), x)
    for fun, more in ((cheap, True), (product, False)):
        _, count = changed(fun, X)
        monkey = len(operations(veery.jit(fun).lower(X)._lowered.module.operation))
        assert (count > monkey) == more
    large = np.ones(1 << 19, np.float32)
    assert changed(cheap, large)[1] <= len(operations(veery.jit(cheap).lower(large)._lowered.module.operation))


def test_for_gpus_alone() -> None:
    (found,) = (p for p in pipeline.PASSES if p.name == "join_trips")
    assert [found.when(pipeline.Situation(backend)) for backend in ("cpu", "cuda", "vulkan")] == [False, True, True]
