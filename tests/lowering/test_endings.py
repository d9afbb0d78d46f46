"""Loops that go on while any element does: which of their elements end on their own, and that they give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp
from veery.scipy import special
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._registers import RegisterKernel, lanes_of
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined


def in_registers(fun: Callable[..., Any], *args: Any) -> list[bool]:
    """Of each loop of a function whether it becomes a kernel in registers."""
    found = []

    def look(module: Any) -> None:
        for loop in [op for op in operations(module) if op.name == "stablehlo.while"]:
            try:
                assert RegisterKernel(loop, lanes_of(loop)).executable.code
            except Unfit:
                found.append(False)
            else:
                found.append(True)

    inlined(veery.jit(fun).lower(*args)._lowered.module, look)
    return found


def root(y: Any) -> tuple[Any, Any]:
    """A square root by Newton's method, and in how many steps; of what is negative never."""
    going = lambda s: (abs(s[0] * s[0] - y) > 1e-5 * abs(y)) & (s[1] < 40)
    return lax.while_loop(going, lambda s: (0.5 * (s[0] + y / s[0]), s[1] + 1), (y, 0))


def collatz(i: Any) -> tuple[Any, Any]:
    step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    return lax.while_loop(lambda s: s[0] != 1, step, (i, 0))


def at_most(n: Any) -> Callable[[Any], Any]:
    """Doublings below 100 of all, while any is, and at most so many."""

    def fun(x: Any) -> Any:
        going = lambda s: (s[0] < n) & (s[1] < 100).any()
        return lax.while_loop(going, lambda s: (s[0] + 1, jnp.where(s[1] < 100, s[1] * 2, s[1])), (0, x))[1]

    return fun


def nested(x: Any) -> Any:
    inner = lambda y: lax.while_loop(lambda v: v < y + 8, lambda v: v + abs(y) + 0.5, y)
    return lax.fori_loop(0, 5, lambda i, y: jnp.sin(inner(y)), x)


SAMPLES = np.random.default_rng(0).normal(size=1001).astype(np.float32)
SAMPLES[[3, 500, 777, 1000]] = np.nan, np.inf, 0, -np.inf
NUMBERS = np.arange(1, 1002, dtype=np.int32)  # of 0, which stands behind the last one in a vector, there is no end

OWN = {
    "roots": (veery.vmap(root), SAMPLES),
    "roots of few": (veery.vmap(root), SAMPLES[:5]),
    "roots of whole vectors": (veery.vmap(root), SAMPLES[:128]),
    "a matrix": (lambda x: special.gammaincc(abs(x), jnp.float32(3)), SAMPLES[:1000].reshape(25, 40)),
    "roots in float16": (veery.vmap(root), abs(SAMPLES[4:300]).astype(np.float16)),
    "numbers of trips": (veery.vmap(collatz), NUMBERS),
    "a limit for all": (at_most(5), SAMPLES),
    "a limit from outside": (lambda x: at_most(jnp.int32(x[0] * 0 + 3))(x), SAMPLES),
    "loops in a loop": (veery.vmap(nested), SAMPLES[4:400]),
    "a series": (lambda x: special.gammainc(jnp.float32(0.5), abs(x)), SAMPLES),
}


@pytest.mark.parametrize("name", OWN)
def test_elements_end_on_their_own(name: str) -> None:
    fun, x = OWN[name]
    assert any(in_registers(fun, x))
    plain = veery.jit(fun, compiler_options={"kernels": False})(x)
    for a, b in zip(veery.tree.leaves(veery.jit(fun)(x)), veery.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(a, b)


def _while_any(going: Callable[..., Any], step: Callable[..., Any], *start: Any) -> Any:
    return lax.while_loop(lambda s: jnp.any(going(*s)), lambda s: step(*s), start)


TOGETHER = {
    "values that change on": lambda x: _while_any(lambda x: x < 9, lambda x: (x + 1,), x),
    "the number of all trips": lambda x: _while_any(
        lambda i, x: x < 9, lambda i, x: (i + 1, jnp.where(x < 9, x + 1, x)), 0, x
    ),
    "another flag": lambda x: _while_any(lambda x: x < 9, lambda x: (jnp.where(x < 8.5, x + 1, x + 2),), x),
    "a flag the other way": lambda x: _while_any(lambda x: x < 9, lambda x: (jnp.where(x < 9, x, x + 1) + 1,), x),
    "flags that come again": lambda x: _while_any(
        lambda i, x: (x < 9) & (i % 3 != 1), lambda i, x: (i + 1, jnp.where((x < 9) & (i % 3 != 1), x + 1, x)), 0, x
    )[1],
    "all of them": lambda x: lax.while_loop(lambda x: (x < 9).all(), lambda x: jnp.where(x < 9, x + 1, x), x),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_elements_that_depend_on_when_others_end(name: str) -> None:
    fun, x = TOGETHER[name], np.arange(70, dtype=np.float32) / 10
    assert not any(in_registers(fun, x))
    plain = veery.jit(fun, compiler_options={"kernels": False})(x)
    for a, b in zip(veery.tree.leaves(veery.jit(fun)(x)), veery.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(a, b)
