"""Random bodies of loops at odd sizes: kernels compute what the same loops do in NumPy, wherever their results lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_loops
from veery_lowering.mlir import CODE, operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.targets.target import Target

SIZES = (1, 2, 3, 5, 7, 13, 17, 33)

# From a carry and an element of what is scanned, both n x m, and a number that differs from trip to trip.
STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda c, x, i: c * 0.5 + x,
    lambda c, x, i: jnp.where(c > x, c, x * 0.7),
    lambda c, x, i: jnp.maximum(c, x.max(0, keepdims=True)),
    lambda c, x, i: c - c.mean(1, keepdims=True) + 0.1 * i,
    lambda c, x, i: jnp.concatenate([c[1:], x[:1]], 0),
    lambda c, x, i: jnp.concatenate([x[:, -1:], c[:, :-1]], 1)[:, ::-1],
    lambda c, x, i: jnp.roll(c, 1, 0) + jnp.roll(x, -1, 1),
    lambda c, x, i: c @ (x.T @ c) * 0.1,
    lambda c, x, i: c.T[::-1].T + x[::-1],
    lambda c, x, i: jnp.pad(c, ((1, 1), (0, 2)))[:-2, 2:] + x,
    lambda c, x, i: c.at[i % c.shape[0]].set(x[-1]),
    lambda c, x, i: c.at[:, i % c.shape[1]].add(x[:, 0]),
    lambda c, x, i: c[(jnp.arange(c.shape[0]) + i) % c.shape[0]] * x,
    lambda c, x, i: c + lax.dynamic_slice(x, (i % x.shape[0], 0), (1, x.shape[1])),
    lambda c, x, i: lax.dynamic_update_slice(c, x[:1] * 2, (i, 0)),
    lambda c, x, i: lax.cond(x.sum() > 0, lambda c: jnp.sin(c) * x, lambda c: c * 0.5 - x, c),
    lambda c, x, i: lax.switch(i % 3, [lambda c: c, lambda c: -c, lambda c: c[::-1]], c),
    lambda c, x, i: lax.fori_loop(0, 3, lambda j, s: 0.5 * s + x[j % x.shape[0]], c),
    lambda c, x, i: (c > 0).astype(jnp.float32) * x + (c.astype(jnp.int32) % 3).astype(jnp.float32),
    lambda c, x, i: jnp.broadcast_to(c.sum(), c.shape) * 0.01 + x.reshape(x.shape[::-1]).T,
]


def body_of(rng: np.random.Generator, length: int = 0) -> Callable[[Any, Any], Any]:
    steps = [STEPS[k] for k in rng.choice(len(STEPS), length or rng.integers(1, 5))]

    def body(carry: Any, x: Any) -> Any:
        c, i = carry
        for step in steps:
            c = jnp.tanh(step(c, x, i))
        return (c, i + 1), (c * x, c[0] > 0, i)

    return body


def program(seed: int, length: int = 0) -> tuple[Callable[..., Any], np.ndarray]:
    """A scan whose results are parts of larger arrays, at any element of them, and its argument."""
    rng = np.random.default_rng(seed)
    trips, n, m = rng.choice(SIZES, 3)
    body, reverse = body_of(rng, length), bool(rng.integers(2))

    def run(xs: Any) -> Any:
        (c, i), (ys, signs, numbers) = lax.scan(body, (xs[0], jnp.int32(0)), xs, reverse=reverse)
        return (
            jnp.concatenate([xs, ys, c[None]]),
            jnp.concatenate([jnp.ones((1, m), bool), signs]),
            jnp.concatenate([numbers[:1], numbers, i[None]]),
        )

    return run, rng.standard_normal((trips, n, m)).astype(np.float32)


@pytest.mark.parametrize("first", range(0, 32, 8))
def test_random_bodies(first: int) -> None:
    programs = [program(seed) for seed in range(first, first + 8)]
    everything = lambda *xs: [run(x) for (run, _), x in zip(programs, xs)]
    arguments = [x for _, x in programs]
    counts: list[int] = []
    inlined(veery.jit(everything).lower(*arguments)._lowered.module, lambda module: counts.append(fuse_loops(module)))
    assert counts[0] >= len(programs) // 2
    for k, (found, (run, x)) in enumerate(zip(veery.jit(everything)(*arguments), programs, strict=True)):
        for actual, wanted in zip(found, interpreted(run, x), strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5, err_msg=f"seed {first + k}")


@pytest.mark.parametrize("seed", [101, 104])
def test_a_long_body_is_one_kernel(seed: int) -> None:
    """As four chains of NUTS are: as dispatches, a step takes five hundred times as long, and compiles for longer."""
    run, x = program(seed, length=80)
    counts: list[int] = []
    lines: list[int] = []

    def fuse(module: Any) -> None:
        counts.append(fuse_loops(module))
        lines.append(sum(op.attributes[CODE].value.count("\n") for op in operations(module) if CODE in op.attributes))

    inlined(veery.jit(run).lower(x)._lowered.module, fuse)
    assert counts == [1] and lines[0] > 8000
    for actual, wanted in zip(veery.jit(run)(x), interpreted(run, x), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("register", "vector"), [(16, 16), (32, 16), (64, 64)])
def test_sums_of_several_rows_stay_in_registers(register: int, vector: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows are added up at once; of a machine with half as many registers, which are shorter, a fourth at once."""
    monkeypatch.setattr(Target, "register", property(lambda _: register))
    rng = np.random.default_rng(register)
    w = rng.standard_normal((128, 128)).astype(np.float32) / 16
    xs = rng.standard_normal((register // 8, 16, 128)).astype(np.float32)

    def run(w: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x),) * 2, xs[0], xs)[1]

    texts: list[str] = []

    def fuse(module: Any) -> None:
        assert fuse_loops(module, register=register) == 1
        texts.append(str(module))

    inlined(veery.jit(run).lower(w, xs)._lowered.module, fuse)
    sums = f"-> ({', '.join([f'vector<{vector}xf32>'] * 4)})"
    assert any("iter_args" in line and sums in line for line in texts[0].splitlines())
    h = xs[0].astype(np.float64)
    for x, found in zip(xs, veery.jit(run)(w, xs), strict=True):
        h = np.tanh(h @ w + x)
        np.testing.assert_allclose(found, h, atol=2e-6)


def test_columns_are_read_by_one_register_at_a_time() -> None:
    """With four registers, whose 64 floats lie among 253, this loop took five seconds to compile."""

    def swings(s: Any) -> Any:
        x, v = s[:, 0], s[:, 1]
        force = jnp.stack([jnp.sin(x), jnp.cos(v), x, v], 1) @ jnp.array([0.1, 0.2, -0.3, 0.4], jnp.float32)
        return jnp.stack([x + 0.02 * v, v + 0.02 * force, s[:, 2], s[:, 3]], 1)

    def loop(s: Any) -> Any:
        return lax.fori_loop(0, 20, lambda i, s: swings(s), s)

    s = np.random.default_rng(0).standard_normal((256, 4)).astype(np.float32)
    texts: list[str] = []

    def change(module: Any) -> None:
        assert fuse_loops(module, "cpu") == 1
        texts.extend(op.attributes[CODE].value for op in operations(module) if CODE in op.attributes)

    inlined(veery.jit(loop).lower(s)._lowered.module, change)
    assert "vector<61xf32>" in texts[0] and "vector<253xf32>" not in texts[0]
    np.testing.assert_allclose(veery.jit(loop)(s), interpreted(loop, s), rtol=1e-5, atol=1e-6)
