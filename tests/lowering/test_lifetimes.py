"""Kernels write into what loops and branches in them are given, where nothing reads that afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_loops
from veery_lowering.passes.simplification import inlined

N = 120
X = np.random.default_rng(3).permutation(N).astype(np.int32)


def sieve(x: Any) -> Any:
    """Marks the multiples of what is not marked: a loop in a branch in a loop."""

    def mark(i: Any, x: Any) -> Any:
        def crossed(x: Any) -> Any:
            strike = lambda c: (c[0] + i, c[1].at[c[0]].set(0))
            return lax.while_loop(lambda c: c[0] < N, strike, (i * i, x))[1]

        return lax.cond(x[i] != 0, crossed, lambda x: x, x)

    return lax.fori_loop(2, 11, mark, x)


def sums_of_neighbours(x: Any) -> Any:
    """A loop in a loop over a matrix."""

    def row(i: Any, t: Any) -> Any:
        return lax.fori_loop(1, 12, lambda j, t: t.at[i, j].set((t[i - 1, j] + t[i, j - 1]) % 97), t)

    return lax.fori_loop(1, 10, row, x.reshape(10, 12))


def heap(x: Any) -> Any:
    """Each number sinks below what is larger: a loop that ends when it may, in a loop."""

    def larger(i: Any, x: Any) -> Any:
        left, right = (jnp.minimum(2 * i + k, N - 1) for k in (1, 2))
        return jnp.where(x[right] > x[left], right, left)

    def sink(k: Any, x: Any) -> Any:
        goes_on = lambda c: (2 * c[0] + 1 < N) & (c[1][larger(*c)] > c[1][c[0]])

        def swap(c: Any) -> Any:
            i, x = c
            j = larger(i, x)
            return j, x.at[i].set(x[j]).at[j].set(x[i])

        return lax.while_loop(goes_on, swap, (N // 2 - 1 - k, x))[1]

    return lax.fori_loop(0, N // 2, sink, x)


def either_of_two(x: Any) -> Any:
    """Branches that write one of two arrays, and loops in them that write the other."""

    def trip(i: Any, c: Any) -> Any:
        inner = lambda a, b: lax.fori_loop(0, 3, lambda j, c: (c[0].at[j].add(c[1][i]), c[1].at[i + j].set(j)), (a, b))
        return lax.switch(i % 3, [inner, lambda a, b: (b.at[i].set(a[5]), a), lambda a, b: (a, b)], *c)

    return lax.fori_loop(0, 9, trip, (x, x * 2))


def rows_at_places_of_their_own(x: Any) -> Any:
    """A place in each row, which is one of all in another shape."""
    put = veery.vmap(lambda row, i: row.at[i].set(row[i - 1] + i))
    trip = lambda i, c: ((c[0] + i) % 12, put(c[1], c[0]))
    return lax.fori_loop(0, 9, trip, (x[:10] % 12, x.reshape(10, 12)))[1]


IN_PLACE = {
    "a sieve": sieve,
    "sums of neighbours": sums_of_neighbours,
    "a heap": heap,
    "rows": rows_at_places_of_their_own,
}
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **IN_PLACE,
    "either of two": either_of_two,
    "the same array twice": lambda x: lax.fori_loop(
        0, 4, lambda i, x: sum(lax.fori_loop(0, 3, lambda j, c: (c[0].at[i + j].set(7), c[1].at[j].add(i)), (x, x))), x
    ),
    "what is read after an inner loop": lambda x: lax.fori_loop(
        0, 4, lambda i, x: x[i] + lax.fori_loop(0, 3, lambda j, y: y.at[i + j].set(y[j] * 3), x), x
    ),
    "what was read before one": lambda x: lax.fori_loop(
        0, 4, lambda i, x: (lambda old, y: y.at[9].set(old.sum()))(
            x[2:5] * 2, lax.fori_loop(0, 3, lambda j, y: y.at[i + j].set(y[j] * 3), x)
        ), x,
    ),
    "an inner loop that writes all": lambda x: lax.fori_loop(
        0, 4, lambda i, x: lax.fori_loop(0, 3, lambda j, y: y * 3 + x[i] + j, x) % 97, x
    ),
    "what a branch reads": lambda x: lax.fori_loop(
        0, 6, lambda i, x: lax.cond(x[i] > i, lambda: x.at[i].set(x[x[i] % N]).at[3].add(x[i]), lambda: x[::-1]), x
    ),
    "what is read in another shape": lambda x: lax.fori_loop(
        0, 9, lambda i, x: (lambda z: z.at[i].set(7).reshape(N).at[z[3].sum() % N].add(1))(x.reshape(10, 12)), x
    ),
    "two updates of another shape": lambda x: lax.fori_loop(
        0, 9, lambda i, c: (lambda z: (z.at[i].set(7).reshape(N), z.at[i + 1].add(c[1][:12]).reshape(N)))(
            c[0].reshape(10, 12)
        ), (x, x),
    ),
    "another shape from a branch": lambda x: lax.fori_loop(
        0, 9, lambda i, x: lax.cond(
            x[i] % 2, lambda x: x.reshape(12, 10).at[i].set(x[:10]).reshape(N), lambda x: x.at[i].set(3), x
        ) + x[::-1], x,
    ),
    "behind a barrier": lambda x: lax.fori_loop(
        0, 4, lambda i, x: (lambda y: (lambda z: jnp.where(x[0] > 5, y, z.at[i].set(7)))(lax.optimization_barrier(y)))(
            x.at[i + 1].add(x[2])
        ), x,
    ),
}  # fmt: skip


def kernels_of(fun: Callable[[Any], Any]) -> list[str]:
    """The kernels of a program's loops, as text."""
    texts: list[str] = []

    def look(module: Any) -> None:
        assert fuse_loops(module)
        inside = [op.operation for op in module.regions[0].blocks[0].operations]
        texts.extend(str(op) for op in inside if op.name == "hal.executable.source")

    inlined(veery.jit(fun).lower(X)._lowered.module, look)
    return texts


def test_programs() -> None:
    run = lambda x: [program(x) for program in PROGRAMS.values()]
    out = veery.jit(run)(jnp.asarray(X))
    for name, a, b in zip(PROGRAMS, out, interpreted(run, X), strict=True):
        for x, y in zip(veery.tree_util.tree_leaves(a), veery.tree_util.tree_leaves(b), strict=True):
            np.testing.assert_array_equal(x, y, name)


@pytest.mark.parametrize("name", IN_PLACE)
def test_nothing_is_copied(name: str) -> None:
    (text,) = kernels_of(IN_PLACE[name])
    assert not re.search(rf"memref.alloca\(\) : memref<{N}x", text)


@pytest.mark.parametrize("trips, is_kernel", [(50, True), (1, False)])
def test_large_arrays_are_copied_for_many_trips(trips: int, is_kernel: bool) -> None:
    kernels = []
    x = np.zeros(1_000_000, np.float32)
    lowered = veery.jit(lambda x: lax.fori_loop(0, trips, lambda i, x: x.at[i * 7].set(x[i] + 1), x)).lower(x)
    inlined(lowered._lowered.module, lambda module: kernels.append(fuse_loops(module)))
    assert kernels == [is_kernel]
