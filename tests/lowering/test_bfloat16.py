"""bfloat16 is rounded after each operation, whatever is computed together: programs beside NumPy, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compiled import results

import veery
from veery import lax, numpy as jnp

BF16 = ml_dtypes.bfloat16
SIZES = [(3, 5), (16, 64), (7, 33)]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(BF16)


# Operations that NumPy computes in float32 and rounds, as XLA does; the others are exact.
STEPS: list[Callable[..., Any]] = [
    lambda np_, x, y: x + y,
    lambda np_, x, y: x - y,
    lambda np_, x, y: x * y,
    lambda np_, x, y: x / (np_.abs(y) + np_.ones_like(y)),
    lambda np_, x, y: np_.sqrt(np_.abs(x * y)),
    lambda np_, x, y: np_.maximum(x, y) - x,
    lambda np_, x, y: np_.where(x * y > x, x, y),
    lambda np_, x, y: (x.astype("float32") * 1.01).astype(BF16) - y,
    lambda np_, x, y: (x + y).astype("float16").astype(BF16),
    lambda np_, x, y: np_.floor(x * y) + y,
]


def chain(np_: Any, seed: int, *values: Any) -> list[Any]:
    """A random program, all of whose intermediate values are read by what is returned."""
    rng = np.random.default_rng(seed)
    known = list(values)
    for _ in range(8):
        step, i, j = rng.integers(len(STEPS)), rng.integers(len(known)), rng.integers(len(known))
        known.append(STEPS[step](np_, known[i], known[j]))
    equal = [(known[-1] == v).astype("int32").sum(axis=-1) for v in known]
    return [known[-1], known[-2], *equal]


def test_random_programs() -> None:
    for shape in SIZES:
        values = [array(*shape, seed=i) for i in range(3)]
        found = results([(functools.partial(chain, jnp, seed), values) for seed in range(12)])
        for seed, outs in enumerate(found):
            assert not isinstance(outs, Exception), outs
            for actual, right in zip(outs, chain(np, seed, *values), strict=True):
                np.testing.assert_array_equal(actual, right, err_msg=f"program {seed}")


# Functions of which a value is computed where it is stored and again where it is compared.
WHERE: dict[str, Callable[[Any, Any], Any]] = {
    "the maximum": lambda a, b: (a * b + a).max(1),
    "the median": lambda a, b: jnp.median(a * b + a, axis=1),
    "a maximum of a product": lambda a, b: (a @ b.T + a[:, :1]).max(0),
    "windows": lambda a, b: lax.reduce_window(a * b + a, BF16(-np.inf), lax.max, (1, 2), (1, 1), "VALID"),
    "a running maximum": lambda a, b: lax.cummax(a * b + a, 1),
    "both sides": lambda a, b: jnp.minimum(a * b, jnp.minimum(a * b + a, b)),
    "a sum that is compared": lambda a, b: jnp.where((a * b).sum(1) == (a * b).sum(1), 1, a[:, 0]),
}


def test_gradients_find_the_values_that_were_taken() -> None:
    a, b = array(16, 64), array(16, 64, seed=1)
    programs = {
        name: veery.grad(lambda a, b, f=f: f(a, b).astype(jnp.float32).sum(), argnums=(0, 1))
        for name, f in WHERE.items()
    }
    found = results([(program, (a, b)) for program in programs.values()])
    for (name, program), outs in zip(programs.items(), found, strict=True):
        assert not isinstance(outs, Exception), outs
        with veery.disable_jit():
            expected = program(a, b)
        for actual, right in zip(outs, expected, strict=True):
            np.testing.assert_allclose(
                actual.astype(float), np.asarray(right).astype(float), rtol=0.03, atol=0.03, err_msg=name
            )


CONVERSIONS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "int32": (
        lambda np_, x: (x.astype(BF16) - x.astype("float32").astype(BF16)) + x.astype(BF16),
        np.arange(-700, 700, 7),
    ),
    "uint8": (lambda np_, x: x.astype(BF16) * x.astype(BF16), np.arange(256, dtype=np.uint8)),
    "bool": (lambda np_, x: x.astype(BF16) + np_.ones_like(x, BF16), np.array([True, False, True])),
    "float32": (
        lambda np_, x: (x.astype(BF16).astype("float32") - x) * np.float32(256),
        np.random.default_rng(2).normal(size=500).astype(np.float32),
    ),
    "special": (
        lambda np_, x: x.astype(BF16).astype("float32"),
        np.array([np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 3.4e38, -3.4e38, 1e-40, 6e-39], np.float32),
    ),
}


@pytest.mark.parametrize("kind", CONVERSIONS)
def test_conversions_round(kind: str) -> None:
    function, x = CONVERSIONS[kind]
    x = x.astype(np.int32) if kind == "int32" else x
    (actual,) = results([(functools.partial(function, jnp), (x,))])
    assert not isinstance(actual, Exception), actual
    np.testing.assert_array_equal(actual, function(np, x))


def test_sizes_that_are_not_known():
    """IREE's compiler ended the process ("could not reify")."""
    halfway = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000], np.uint32)
    x = np.concatenate([halfway.view(np.float32), array(50).astype(np.float32) * np.float32(1.001), [np.nan]])
    f = lambda x: (x.astype(BF16), jnp.tanh(x.astype(BF16)) * 3)
    with np.errstate(over="ignore", invalid="ignore"):
        right = x.astype(BF16)
    found, computed = veery.jit(f, dynamic_shapes={"x": "n"})(x)
    np.testing.assert_array_equal(np.asarray(found)[:-1].view(np.uint16), right[:-1].view(np.uint16))
    assert np.isnan(found[-1])
    np.testing.assert_array_equal(np.asarray(computed)[:-1], np.asarray(veery.jit(f)(x)[1])[:-1])
