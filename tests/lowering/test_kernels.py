"""Loops as kernels of our own: which ones, and that they compute what the loops do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax
from veery import numpy as jnp
from veery_lowering import isolation
from veery_lowering.kernels import fuse_loops
from veery_lowering.mlir import Diagnostic, inlined

X = np.linspace(-1, 1, 100).astype(np.float32)
ROWS = np.linspace(-1, 1, 600).astype(np.float32).reshape(6, 100)


def kernels(fun: Callable[..., Any], *args: Any) -> int:
    """How many kernels are made of the loops of a function."""
    counts: list[int] = []
    inlined(veery.jit(fun).lower(*args)._lowered.module, lambda module: counts.append(fuse_loops(module)))
    return counts[0]


def newton(x):
    state = lax.while_loop(
        lambda s: jnp.abs(s[0] * s[0] - x) > 1e-4 * x, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0)
    )
    return state


def escape(c):
    def trip(_, state):
        z, count = state
        inside = jnp.abs(z) < 2
        return jnp.where(inside, z * z + c, z), count + inside

    return lax.fori_loop(0, 30, trip, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))


def oscillator(y):
    def trip(y, _):
        y = y + 0.1 * jnp.stack([y[1], -y[0]])
        return y, y

    return lax.scan(trip, y, None, length=20)


def averages(x):
    return lax.scan(lambda c, v: (jnp.tanh(0.9 * c + v), (c, c > v)), jnp.float32(0), x, reverse=True)


def running_rows(x):
    return lax.scan(lambda c, v: (0.5 * c + v, (c * v, c > v)), jnp.zeros(x.shape[1]), x)


def generator(seed):
    def trip(s, _):
        s = s * jnp.uint32(1664525) + jnp.uint32(1013904223)
        return s, ((s >> jnp.uint32(16)) % jnp.uint32(6), s.astype(jnp.int32) // (s % jnp.uint32(3)).astype(jnp.int32))

    return lax.scan(trip, seed, None, length=30)


def recurrence(t):
    return lax.fori_loop(1, 100, lambda i, t: t.at[i].set(0.5 * t[i - 1] + t[i]), t)


def nested(x):
    inner = lambda i, c: lax.fori_loop(0, 5, lambda j, v: v * 0.9 + x[i], c) + 1
    return lax.fori_loop(0, 100, inner, jnp.float32(0))


def collatz(x):
    step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    return veery.vmap(lambda x: lax.while_loop(lambda s: s[0] > 1, step, (x, 0))[1])(x)


def power_iteration(a):
    return lax.fori_loop(0, 10, lambda _, v: (a @ v) / jnp.max(jnp.abs(a @ v)), jnp.ones(3))


def exchange(x):
    return lax.fori_loop(0, 5, lambda i, s: (s[1], s[0] * 2, ~s[2]), (x, x * 3, x > 0))


def bits(x):
    trip = lambda i, n: (n << (n & 7)) ^ (n >> 3) ^ jnp.sign(n) ^ lax.population_count(n) ^ lax.clz(n)
    return lax.fori_loop(0, 4, trip, x)


def never(x):
    return lax.fori_loop(0, lax.stop_gradient(x).astype(jnp.int32)[0] - 5, lambda i, v: v * 2, x)


LOOPS = [
    (newton, (np.float32(3),), 1),
    (escape, (X.reshape(10, 10),), 1),
    (oscillator, (np.array([0, 1], np.float32),), 1),
    (averages, (X,), 1),
    (running_rows, (ROWS,), 1),
    (generator, (np.uint32(7),), 1),
    (recurrence, (X,), 1),
    (nested, (X,), 1),
    (collatz, (np.arange(40, dtype=np.int32),), 1),
    (power_iteration, (X[:9].reshape(3, 3),), 1),
    (exchange, (X,), 1),
    (bits, (np.array([-7, 0, 1, 2**31 - 1, -(2**31)], np.int32),), 1),
    (never, (X,), 1),
    (veery.grad(lambda x: averages(x)[1][0].sum()), (X,), 2),
]


def test_which_loops_become_kernels() -> None:
    assert [kernels(fun, *args) for fun, args, _ in LOOPS] == [count for *_, count in LOOPS]
    shifting = lambda x: lax.fori_loop(0, 20, lambda i, u: u + 0.1 * jnp.roll(u, 1), x)
    large = lambda x: lax.fori_loop(0, 20, lambda i, u: u * 0.9, x)
    printing = lambda x: lax.fori_loop(0, 2, lambda i, u: (veery.debug.print("{}", u), u)[1], x)
    written = lambda x: lax.fori_loop(0, 3, lambda i, t: t.at[i].set(t[i] * 2), x * 2)
    rising = lambda s: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, lax.sort((s[1], s[0] * X))[0]), s)
    choosing = lambda x: lax.fori_loop(0, 3, lambda i, s: lax.cond(i > 1, rising, lambda s: s, s), (x, x * X))
    million = np.ones(10**6, np.float32)
    wide, one = np.ones(10**5, np.float32), np.float32(1)
    for fun, x in (choosing, one), (shifting, X), (large, wide), (printing, one), (written, million):
        assert kernels(fun, x) == 0


def test_kernels_compute_what_loops_do() -> None:
    arguments = [jnp.array(x) for _, args, _ in LOOPS for x in args]
    everything = lambda *xs: [fun(x) for (fun, *_), x in zip(LOOPS, xs)]
    compiled = veery.jit(everything)(*arguments)
    for (fun, args, _), outs in zip(LOOPS, compiled):
        expected = veery.tree.leaves(interpreted(fun, *args))
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=1e-6, err_msg=str(fun))
    for x, argument in zip((x for _, args, _ in LOOPS for x in args), arguments):
        assert (np.asarray(argument) == x).all()  # what they write by rows is no argument


def test_a_loop_that_a_value_ends_does_not_hold_up_its_caller() -> None:
    compiled = veery.jit(newton).lower(np.float32(2)).compile()
    assert compiled.cost_analysis()["queue"] == "threaded" and compiled(jnp.float32(2))[1] == 3


def test_without_kernels_where_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = isolation.run_pipeline, []

    def fail_first(module: bytes, *rest: Any) -> Any:
        calls.append(b"veery_loop_0" in module)
        return (None, [Diagnostic("error", "too many\nregisters")]) if calls[-1] else run(module, *rest)

    monkeypatch.setattr(isolation, "run_pipeline", fail_first)
    program = veery.jit(newton).lower(np.float32(2))._lowered.with_options(cache=False).compile()
    assert calls[0] and not calls[-1]
    assert program.metadata["fallback"].startswith("compiled without kernels of its loops")
    assert "too many registers" in program.metadata["fallback"] and program.metadata["control_flow"] == "host"
