"""Loops as kernels for GPUs: that they compute what the loops do, and in how few dispatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.days import of_the_day
from support.features import rounds_each
from support.interpreted import interpreted
from support.loops import LOOPS, X

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_loops
from veery_lowering.passes.simplification import inlined

_rng = np.random.default_rng(0)


PLATFORMS = pytest.mark.parametrize("platform", ["vulkan", "cuda"])


def kernels(platform: str, fun: Any, *args: Any) -> int:
    """How many kernels are made of the loops of a function."""
    counts: list[int] = []
    module = veery.jit(fun).lower(*args)._lowered.module
    inlined(module, lambda module: counts.append(fuse_loops(module, platform)))
    return counts[0]


# Those of many operations take as long to compile as all of these.
NAMES = "newton escape oscillator averages running_rows generator recurrence nested collatz exchange never recurrent"
NAMES += " columns conjugate_gradients chosen_once indexed counting"
TABLE = [(fun, args) for fun, args, _ in LOOPS if fun.__name__ in NAMES.split()]


def test_kernels_compute_what_loops_do(gpu: Any) -> None:
    table = of_the_day(TABLE, 2)
    arguments = [x for _, args in table for x in veery.device_put(args, gpu)]
    everything = lambda *xs: [fun(x) for (fun, _), x in zip(table, xs)]
    lowered = veery.jit(everything).lower(*arguments)
    compiled = lowered._lowered.compile()
    assert "fallback" not in compiled.metadata
    for (fun, args), outs in zip(table, lowered.compile()(*arguments), strict=True):
        flat, tree = veery.tree.flatten(args)
        expected = veery.tree.leaves(interpreted(lambda *xs: fun(*veery.tree.unflatten(tree, xs)), *flat))  # noqa: B023
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=1e-6, err_msg=str(fun))


def numbers(dtype: np.dtype) -> Iterator[Any]:
    """Loops over an array of 37: element by element, with neighbours and sums, and with slices."""
    of = lambda number: np.asarray(number, dtype)
    yield lambda x: lax.fori_loop(0, 9, lambda i, s: (s[0] * of(3) + s[1] - x, jnp.maximum(s[1], s[0])), (x, x * of(2)))
    total = lambda s, x: s[1] + jnp.where(s[0] > of(1), s[0], x).sum().astype(dtype)
    yield lambda x: lax.fori_loop(0, 9, lambda i, s: (jnp.roll(s[0], 1) * of(2) - x, total(s, x)), (x, of(0)))
    yield lambda x: lax.scan(lambda carry, v: (carry * of(2) - v, (carry + v, carry > v)), of(1), x)


def bools(dtype: np.dtype) -> Iterator[Any]:
    yield lambda x: lax.fori_loop(0, 7, lambda i, s: (s[0] ^ s[1], s[1] | (s[0] & x)), (x, ~x))
    yield lambda x: lax.fori_loop(0, 7, lambda i, s: (jnp.roll(s[0], 1) ^ s[1], s[1][::-1] | (s[0] & x)), (x, ~x))


DTYPES = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"


@pytest.mark.parametrize("name", DTYPES.split())
def test_all_types(name: str, gpu: Any, x64: Any) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    x = (_rng.random(37) * 100 if dtype.kind in "iu" else _rng.standard_normal(37) * 3).astype(dtype)
    if dtype.kind in "fV":
        x[:4] = [np.nan, np.inf, -np.inf, -0.0]
    loops = list((bools if dtype.kind == "b" else numbers)(dtype))
    assert [kernels(gpu.platform, loop, x) for loop in loops] == [1] * len(loops)
    everything = lambda x: [loop(x) for loop in loops]
    outs = [
        veery.tree.leaves(veery.jit(everything, compiler_options={"kernels": kernels})(veery.device_put(x, gpu)))
        for kernels in (True, False)
    ]
    for actual, wanted in zip(*outs, strict=True):
        assert_near(*(np.asarray(x) for x in (actual, wanted)), rounds_each(gpu))


def assert_near(actual: Any, wanted: Any, exact: bool) -> None:
    """Equal integers; floats, unless they are exact, but for what is rounded once that is a product and a sum."""
    exact = exact or wanted.dtype.kind in "biu"
    eps = 0 if exact else float(ml_dtypes.finfo(wanted.dtype).eps)
    a, b = (x.astype(np.float64) for x in (actual, wanted))
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=0)
    np.testing.assert_allclose(a, b, rtol=16 * eps, atol=16 * eps * scale)


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 100_000, lambda i, s: (s[0] + 1, s[1] + 2), (x, 0))


def halving(x: Any) -> Any:
    return lax.while_loop(lambda s: s[1] < 70_000, lambda s: (jnp.roll(s[0], 1) + 1, s[1] + 1), (x, 0))


def within(x: Any) -> Any:
    return lax.fori_loop(0, 300, lambda i, y: lax.fori_loop(0, 300, lambda j, z: z + 1, y), x)


@pytest.mark.parametrize("loop", [counted, halving, within])
def test_loops_of_more_rounds_than_a_shader_makes(loop: Any, gpu: Any) -> None:
    x = np.arange(5, dtype=np.int32)
    assert kernels(gpu.platform, loop, x) == 1
    on_gpu, on_cpu = (veery.jit(loop)(y) for y in (veery.device_put(x, gpu), x))
    for actual, wanted in zip(veery.tree.leaves(on_gpu), veery.tree.leaves(on_cpu), strict=True):
        np.testing.assert_array_equal(actual, wanted)


def looked_up(x: Any) -> Any:
    """Elements of arrays from outside at places that each invocation computes, some beyond the ends."""
    table, flags = jnp.arange(60, dtype=jnp.float32).reshape(20, 3)[:, 1], jnp.arange(20) % 3 == 0
    step = lambda i, k: jnp.where(flags[k % 25 - 3], table[k % 29].astype(jnp.int32), k) + i
    return lax.fori_loop(0, 12, step, x)


def test_lookups(gpu: Any) -> None:
    x = np.arange(-50, 150, dtype=np.int32)
    assert kernels(gpu.platform, looked_up, x) == 1
    np.testing.assert_array_equal(veery.jit(looked_up)(veery.device_put(x, gpu)), veery.jit(looked_up)(x))


@PLATFORMS
def test_what_is_no_kernel(platform: str) -> None:
    endless = lambda x: lax.fori_loop(0, 9, lambda i, y: lax.while_loop(lambda z: z < i, lambda z: z + 1, y), x)
    assert kernels(platform, endless, np.float32(0)) == 1  # the loop within, whose trips are not known
    products = lambda x: lax.fori_loop(0, 20, lambda i, u: jnp.tanh(u @ x), x)
    assert kernels(platform, products, np.ones((40, 40), np.float32)) == 0
    printing = lambda x: lax.fori_loop(0, 2, lambda i, u: (veery.debug.print("{}", u), u)[1], x)
    assert kernels(platform, printing, X) == 0


@PLATFORMS
def test_a_loop_is_one_dispatch(platform: str) -> None:
    mandelbrot = lambda c: lax.fori_loop(0, 50, lambda i, z: z * z + c, c)
    found: list[str] = []
    inlined(veery.jit(mandelbrot).lower(X)._lowered.module, lambda m: (fuse_loops(m, platform), found.append(str(m))))
    assert found[0].count("flow.dispatch @") == 1 and "stablehlo.while" not in found[0]
    assert "workgroup_size = [64, 1, 1]" in found[0]
