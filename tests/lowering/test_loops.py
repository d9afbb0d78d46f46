"""While loops whose carries are not all read, or go round, or come twice: IREE's compiler dies of some as they are."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax
from veery_lowering import kernels

X = np.arange(4, dtype=np.float32)
ZERO, TRUE = np.int32(0), np.bool_(True)
HALF, THREE_HALVES = np.float32(0.5), np.float32(1.5)

# Condition, body, start. The predicates are computed on the device, so that no loop is a counted one.
LOOPS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "a flag that only the condition reads": (
        lambda c: (c[0] < 5) & c[2],
        lambda c: (c[0] + 1, c[1] * THREE_HALVES, c[1].sum() < 40),
        (ZERO, X, TRUE),
    ),
    "a flag alone, first": (lambda c: c[0], lambda c: (c[1].sum() < 100, c[1] * THREE_HALVES), (TRUE, X)),
    "a sum that nothing reads": (
        lambda c: (c[0] < 5) & c[3],
        lambda c: (c[0] + 1, c[1] * THREE_HALVES, c[1].sum(), c[1].sum() < 30),
        (ZERO, X, HALF, TRUE),
    ),
    "values that come twice": (
        lambda c: c[0].sum() < 60,
        lambda c: (c[0] * THREE_HALVES, c[0] * THREE_HALVES, c[0] + HALF, c[0] + HALF),
        (X, X, X, X + HALF),
    ),
    "an integer that is no counter": (
        lambda c: c[0] < 60,
        lambda c: (c[1].sum(), c[1] * 2, c[1] * 2),
        (ZERO, X.astype(np.int32), X.astype(np.int32)),
    ),
    "values that move up": (
        lambda c: c[2].sum() < 60,
        lambda c: (c[1], c[2], c[2] * THREE_HALVES, c[3]),
        (X, X + HALF, X * HALF, X),
    ),
    "constants": (
        lambda c: (c[0] < 1) & (c[1].sum() < 60),
        lambda c: (HALF, c[1] * THREE_HALVES, np.ones(4, np.float32)),
        (np.float32(0), X, X),
    ),
    "nothing changes": (lambda c: c[0].sum() < 0, lambda c: c, (X, HALF)),
}


def run(condition: Any, body: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    while condition(state):
        state = body(state)
    return state


@pytest.mark.parametrize("from_constants", [False, True])
def test_loops_of_every_form(from_constants: bool) -> None:
    starts = [start for _, _, start in LOOPS.values()]

    def everything(*starts: Any) -> list[Any]:
        return [lax.while_loop(c, b, start) for (c, b, _), start in zip(LOOPS.values(), starts)]

    found = veery.jit(lambda: everything(*starts))() if from_constants else veery.jit(everything)(*starts)
    for (name, (condition, body, start)), actual in zip(LOOPS.items(), found):
        for a, b in zip(actual, run(condition, body, start), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64", "int16"])
def test_arrays_that_change_places(dtype: str) -> None:
    """The offsets of the slices in one buffer go round."""
    x = np.array([1, 0, 1, 1, 0, 0]).astype(dtype)

    def program(x: Any) -> list[Any]:
        pair = (x[:2], x[1:3])
        swap = lambda c: (c[1], c[0])
        return [
            lax.fori_loop(0, 5, lambda i, c: swap(c), pair),
            lax.scan(lambda c, _: (swap(c), None), pair, length=5)[0],
            lax.while_loop(lambda c: c[1] < 5, lambda c: (c[2], c[1] + 1, c[0]), (pair[0], 0, pair[1]))[::2],
            lax.fori_loop(0, 4, lambda i, c: (c[1], c[2], c[0]), (x[:2], x[1:3], x[2:4]))[:2],
        ]

    for first, second in veery.jit(program)(x)[:3]:
        np.testing.assert_array_equal(first, x[1:3])
        np.testing.assert_array_equal(second, x[:2])
    np.testing.assert_array_equal(jnp.stack(veery.jit(program)(x)[3]), np.stack([x[1:3], x[2:4]]))


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE runs the trips of all loops."""
    monkeypatch.setattr(kernels, "_make_kernel", lambda loop, module, forms: False)


@pytest.mark.usefixtures("without_kernels")
def test_counters_in_every_dtype() -> None:
    names = "bool int8 uint8 int16 uint16 int32 uint32 float16 bfloat16 float32 int64 uint64 float64".split()
    start = np.array([3, 1, 2])

    def loop(name: str, x: Any) -> Any:
        trip = lambda i, s: jnp.sort(s)[::-1] + (0.75 * i).astype(name) + i.astype(name)
        return lax.fori_loop(jnp.int32(0), 4, trip, x)

    with veery.enable_x64(True):
        found = veery.jit(lambda x: [loop(name, x.astype(name)) for name in names])(start)
    for name, actual in zip(names, found, strict=True):
        expected = start.astype(name)
        for i in range(4):
            rounded = np.float32(0.75 * i).astype(actual.dtype), np.int32(i).astype(actual.dtype)
            expected = np.sort(expected)[::-1] + rounded[0] + rounded[1]
        assert actual.dtype == jnp.dtype(name)
        np.testing.assert_array_equal(np.asarray(actual), expected, err_msg=name)


SLOW = np.random.default_rng(0).standard_normal((600, 600)).astype(np.float32) / 25


def _comes_late(m: Any) -> Any:
    """A number for which a call computes for some milliseconds."""
    return jnp.abs(jnp.tanh(jnp.tanh(m @ m) @ m)[0, 0] * 100)


def _numbers(name: str, m: Any) -> Any:
    """The number goes round, converted into what the host has no conversion for."""
    trip = lambda i, c: ((c[0] * 5 + 1) % 100, c[1][::-1] + c[0].astype(jnp.uint8).astype(jnp.float16))
    return lax.fori_loop(0, 5, trip, (_comes_late(m).astype(name), jnp.zeros(4, jnp.float16)))


def _keys(m: Any) -> Any:
    def trip(key: Any, _: None) -> Any:
        key, drawn = veery.random.split(key)
        return key, veery.random.uniform(drawn, (3,)).astype(jnp.float16)

    return lax.scan(trip, veery.random.key(_comes_late(m).astype(np.uint32)), None, length=4)[1]


def _moved(m: Any) -> Any:
    """Large arrays change places, and one stays, in a loop that IREE does not count."""
    line = jnp.arange(5000.0).astype(jnp.float16)
    trip = lambda c: (c[0] + 1, c[2], c[3], c[1][::-1] + 1, c[4])
    late = _comes_late(m).astype(jnp.float16)
    starts = (line + late, line, line * 2, line * 3 + late)
    return lax.while_loop(lambda c: c[0] != 5, trip, (0, *starts))


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize(
    "program",
    [*(functools.partial(_numbers, name) for name in ("int32", "float32")), _keys, _moved],
    ids=["integers", "floats", "keys", "arrays that move"],
)
def test_what_loops_begin_with_is_waited_for(program: Any) -> None:
    """Later calls give what the first gives, and what comes of numbers that are there before."""
    jitted = veery.jit(program)
    results = [veery.tree.leaves(jitted(SLOW)) for _ in range(5)]
    with veery.disable_jit():
        expected = veery.tree.leaves(program(SLOW))
    for result in results:
        for found, one_by_one in zip(result, expected, strict=True):
            np.testing.assert_allclose(np.float64(found), np.float64(one_by_one), rtol=1e-3)
