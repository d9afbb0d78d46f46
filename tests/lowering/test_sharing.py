"""What branches and loops hand on, and something else has, too: it is there as long as needed, and is not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax, numpy as jnp


def put(x: Any, i: int, value: Any) -> Any:
    return lax.dynamic_update_index_in_dim(x, value, i, 0)


def twice(x: Any) -> tuple[Any, Any]:
    return x, x


def written(pair: Any, y: Any) -> Any:
    return put(pair[0], 0, y[0]), put(pair[1], 1, y[1])


def chosen(p: Any, z: Any, y: Any) -> Any:
    """`z`, or another array."""
    return lax.cond(p, lambda: z, lambda: y * 2)


def doubled(count: Any, z: Any) -> Any:
    return lax.fori_loop(0, count, lambda _, c: c * 2, z)


# Of two arrays and a bool.
PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "written": lambda x, y, p: (lambda z: (put(chosen(p, z, y), 0, y[1]), z))(x * 3),
    "an argument, written": lambda x, y, p: (put(chosen(p, x, y), 0, y[1]), x),
    "two, written": lambda x, y, p: (
        lambda z, w: (put(lax.cond(p, lambda: z, lambda: w), 0, y[1]), z, w)
    )(x * 3, y * 2),
    "written and read": lambda x, y, p: (lambda z: (put(chosen(p, z, y), 0, y[1]), z[::-1] * 2))(x * 3),
    "sorted": lambda x, y, p: (lambda z: (jnp.sort(chosen(p, z, y), 1), z))(-x * 3),
    "scattered": lambda x, y, p: (
        lambda z: (chosen(p, z, y).at[jnp.array([1, 3]), jnp.array([0, 2])].add(1.0), z)
    )(x * 3),
    "read": lambda x, y, p: (lambda z: (chosen(p, z, y) * 2, z))(x * 3),
    "summed": lambda x, y, p: (lambda z: (chosen(p, z, y).max(), z))(x * 3),
    "returned": lambda x, y, p: (lambda z: (chosen(p, z, y), z))(x * 3),
    "a branch in a branch": lambda x, y, p: (
        lambda z: (put(lax.cond(p, lambda: chosen(y[0, 0] < 0, z, y), lambda: y), 0, y[1]), z)
    )(x * 3),
    # The copies of both arguments are made together, before the first branch.
    "parts of one allocation": lambda x, y, p: (
        lambda z: lax.cond(z[0, 0] > 0, lambda: lax.cond(x[0, 0] > 0, lambda: z, lambda: put(x, 1, z[0])), lambda: x)
    )(lax.switch(jnp.int32(2) % 3, [lambda: y, lambda: y * 2, lambda: put(y, 0, y[1])])),
    "handed on twice": lambda x, y, p: written(lax.cond(p, lambda x: twice(x * 2), lambda x: (x * 2, x + 1), x), y),
    "handed on twice by one of many": lambda x, y, p: written(
        lax.switch(p.astype(int), [lambda x: (x + 1, x + 2), lambda x: twice(x * 2), lambda x: twice(x)], x), y
    ),
    "handed on in two shapes": lambda x, y, p: (lambda a, b: (put(a, 0, y[0]), b[:3]))(
        *lax.cond(p, lambda x: (lambda z: (z, z.reshape(-1)))(x * 2), lambda x: (x, (x + 1).reshape(-1)), x)
    ),
    "a loop without trips": lambda x, y, p: (lambda z: (doubled(jnp.where(p, 0, 2), z) * 2, z))(x * 3),
    "a loop without trips, written": lambda x, y, p: (
        lambda z: (put(doubled(jnp.where(p, 0, 2), z), 0, y[1]), z)
    )(x * 3),
    "a loop that finds its end": lambda x, y, p: (
        lambda z: (lax.while_loop(lambda c: (c[0] < 2) & ~p, lambda c: (c[0] + 1, c[1] * 2), (0, z))[1] * 2, z)
    )(x * 3),
    "a loop's results": lambda x, y, p: written(
        lax.fori_loop(0, jnp.where(p, 1, 2), lambda _, c: twice(c[0] * 2 + c[1]), (x, y)), y
    ),
    "a loop that begins with one array twice": lambda x, y, p: (
        lambda z: written(lax.fori_loop(0, jnp.where(p, 0, 2), lambda _, c: (c[0] * 2, c[1] + 1), (z, z)), y)
    )(x * 3),
    "zeros that are carried twice": lambda x, y, p: lax.scan(
        lambda c, i: ((c[1], c[1]), chosen(p, c[0], y)), twice(jnp.zeros_like(x)), jnp.arange(3)
    ),
    "steps that are taken or not": lambda x, y, p: lax.fori_loop(
        0, 6, lambda i, c: (
            lambda new: (lax.cond((i % 2 == 0) == p, lambda: new, lambda: c[0]), c[1] + new)
        )(jnp.sin(c[0]) + y), (x, y),
    ),
    "a carry that a branch hands on, and that is the next one": lambda x, y, p: lax.scan(
        lambda c, i: ((c[1][::-1], c[0]), put(chosen((i % 2 == 0) == p, c[1], y), 0, y[0])), (x, y), jnp.arange(4)
    ),
    "a carry that only a branch reads": lambda x, y, p: lax.scan(
        lambda c, i: (
            (jnp.cos(c[0]), jnp.sin(c[0])),
            put(lax.cond((i % 2 == 0) == p, lambda: put(c[1], 0, c[1][1]), lambda: c[1]), 0, y[0]),
        ),
        (x, y), jnp.arange(4),
    ),
    "what a loop carried last": lambda x, y, p: (lambda c, o: (put(c, 0, y[0]), o))(
        *lax.scan(lambda c, _: (c * 2, c), x, length=2)
    ),
    "an array from outside in each trip": lambda x, y, p: (
        lambda z: (lax.fori_loop(0, 3, lambda i, c: chosen(p, z, c), x) * 2, put(z, 0, y[0]))
    )(x * 3),
}  # fmt: skip


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("queue", ["inline", "threaded"])
@pytest.mark.parametrize("width", [5, 30000])
def test_what_is_shared_is_kept(width: int, queue: str, kernels: bool) -> None:
    x = np.linspace(-2, 2, 9 * width, dtype=np.float32).reshape(9, width)
    y = np.cos(x * 5)
    for name, program in PROGRAMS.items():
        compiled = veery.jit(program, compiler_options={"kernels": kernels, "queue": queue})
        for p in (np.array(True), np.array(False)):
            found, wanted = compiled(x, y, p), interpreted(program, x, y, p)
            for a, b in zip(veery.tree.leaves(found), veery.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=f"{name}, {p}")
