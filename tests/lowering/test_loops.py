"""While loops whose carries are not all read, or go round, or come twice: IREE's compiler dies of some as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax

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


def test_counters_in_every_dtype() -> None:
    """Sorting keeps the loops from becoming kernels."""
    names = "bool int8 uint8 int16 uint16 int32 uint32 float16 bfloat16 float32 int64 uint64 float64".split()
    start = np.array([3, 1, 2])

    def loop(name: str, x: Any) -> Any:
        return lax.fori_loop(jnp.int32(0), 4, lambda i, s: jnp.sort(s)[::-1] + (0.75 * i).astype(name) + i.astype(name), x)

    with veery.enable_x64(True):
        found = veery.jit(lambda x: [loop(name, x.astype(name)) for name in names])(start)
    for name, actual in zip(names, found, strict=True):
        expected = start.astype(name)
        for i in range(4):
            rounded = np.float32(0.75 * i).astype(actual.dtype), np.int32(i).astype(actual.dtype)
            expected = np.sort(expected)[::-1] + rounded[0] + rounded[1]
        assert actual.dtype == jnp.dtype(name)
        np.testing.assert_array_equal(np.asarray(actual), expected, err_msg=name)
