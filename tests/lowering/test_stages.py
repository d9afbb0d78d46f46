"""Long reductions to few elements are done in two stages: what they give, and how exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
from veery import lax, numpy as jnp

LONG = 1 << 19
SHAPES = [(LONG + 8,), (1000, 700), (3, 200_000), (100_000, 7), (16, 40, 30, 40), (9973 * 53,), (2, 3, 5, 20_011)]

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np_, x: x.sum(),
    "largest": lambda np_, x: (x.max(), x.min()),
    "any": lambda np_, x: ((x > 2).any(), (x < 4).all(), (x > 1).sum()),
    "but the last": lambda np_, x: x.sum(tuple(range(x.ndim - 1))) if x.shape[-1] < 64 else x.sum(),
    "product with itself": lambda np_, x: x.ravel() @ x.ravel(),
    "variance": lambda np_, x: ((x - x.mean()) ** 2).mean(),
    "with a row": lambda np_, x: (x * (x.reshape(-1, x.shape[-1])[0] + 1)).sum() - x.sum() * 2,
    "of all": lambda np_, x: (x - x.sum() / x.size).ravel()[::999] + (x * x).sum() / x.size,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_long_reductions(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    found = results([(lambda x: PROGRAMS[name](jnp, x), (x,)) for x in arrays])
    for x, outs in zip(arrays, found, strict=True):
        assert not isinstance(outs, Exception), (x.shape, outs)
        right = PROGRAMS[name](np, x.astype(np.float64))
        for actual, expected in zip(veery.tree.leaves(outs), veery.tree.leaves(right), strict=True):
            terms = x.size if name in ("sum", "but the last", "with a row") else 1  # which cancel
            np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6 + 1e-7 * terms, err_msg=str(x.shape))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bfloat16", "float64", "complex64", "bool"])
def test_types(dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, (1000, 601))
    with veery.enable_x64(dtype == "float64"):
        y = jnp.asarray(x).astype(dtype)
        total, product = veery.jit(lambda y: (y.sum(), y.ravel() @ y.ravel()))(y)
    if dtype == "float16":  # whose largest number is 65504
        assert np.isinf(float(total)) and np.isinf(float(product))
    elif dtype == "bool":
        assert int(total) == x.sum() and bool(product)
    else:
        error = 2**-8 if dtype == "bfloat16" else 0
        for found in (total, product):
            expected = x.sum() % (1 << 8) if found.dtype == np.uint8 else x.sum()
            assert abs(complex(np.asarray(found).astype(np.complex128)) - expected) <= error * expected, dtype


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(value: float) -> None:
    x = np.zeros((1000, 601), np.float32)
    x[777, 600] = value
    total, largest, least = veery.jit(lambda x: (x.sum(), x.max(), x.min()))(x)
    np.testing.assert_equal([float(total), float(largest), float(least)], [value, np.max(x), np.min(x)])


def test_what_reductions_begin_with_counts_once() -> None:
    x = np.ones((1000, 601), np.float32)
    for begin, combine, expected in [(5, lax.add, 601_005), (3, lax.mul, 3), (7, lax.max, 7), (-2, lax.min, -2)]:
        out = veery.jit(lambda x, b=begin, f=combine: lax.reduce(x, np.float32(b), f, (0, 1)))(x)
        assert float(out) == expected


def test_errors_are_those_of_trees() -> None:
    x = np.random.default_rng(2).uniform(size=(1000, 1001)).astype(np.float32)
    total, product = veery.jit(lambda x: (x.sum(), x.ravel() @ x.ravel()))(x)
    wide = x.astype(np.float64)
    assert abs(float(total) / wide.sum() - 1) < 8 * np.finfo(np.float32).eps
    assert abs(float(product) / (wide * wide).sum() - 1) < 8 * np.finfo(np.float32).eps


@pytest.mark.parametrize(
    ("shape", "dispatches"), [((1000, 700), 2), ((LONG,), 2), ((LONG - 8,), 1), ((300, 500), 1), ((1009 * 1013,), 2)]
)
def test_which_are_done_in_stages(shape: tuple[int, ...], dispatches: int) -> None:
    text = veery.jit(lambda x: x.sum()).lower(np.zeros(shape, np.float32)).as_text("flow")
    assert text.count("flow.dispatch @") == dispatches


def test_an_array_of_a_prime_size_is_summed_whole() -> None:
    text = veery.jit(lambda x: x.sum()).lower(np.zeros(1_000_003, np.float32)).as_text("flow")
    assert text.count("flow.dispatch @") == 1
