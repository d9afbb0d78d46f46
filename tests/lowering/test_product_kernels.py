"""Products of matrices with what follows them, as kernels: that they compute what NumPy does, and which."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.compiled import assert_as_numpy
from support.kernels import how_many
from support.panels import take_small_parts

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_products
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.targets.target import Target

pytestmark = pytest.mark.usefixtures("as_preferred")


def numbers(x: Any, axis: int) -> Any:
    return lax.broadcasted_iota(np.int32, x.shape, axis)


FOLLOWING: dict[str, Callable[..., Any]] = {
    "nothing": lambda p, row, other: p,
    "a row": lambda p, row, other: p + row,
    "relu": lambda p, row, other: jnp.maximum(p + row, 0),
    "another array": lambda p, row, other: (p - other) * 2 + row,
    "two results": lambda p, row, other: (p, jnp.where(p > other, p, row)),
    "three of them, one before": lambda p, row, other: ((h := p + row) * 2, h, jnp.sum(p * other), h - other),
    "another product": lambda p, row, other: (p + row) @ (p - other).T,
    "compared": lambda p, row, other: (p + row > other, p + row),
    "what is made for it": lambda p, row, other: (other * 3 + row) - p * (other - 1),
    "what is made for two": lambda p, row, other: ((h := other * 2) - p, (p + row) * h, other * other),
    "below the diagonal": lambda p, row, other: jnp.where(numbers(p, 0) >= numbers(p, 1), p, row),
    "another type": lambda p, row, other: p.astype(np.int32) + 1,
    "half precision": lambda p, row, other: (p.astype(jnp.bfloat16) + row.astype(jnp.bfloat16)).astype(np.float32),
    "in a branch": lambda p, row, other: lax.cond(other[0, 0] > 100, lambda: p * 2, lambda: row + p),
    "given to a loop": lambda p, row, other: lax.fori_loop(0, row.shape[0], lambda i, c: c + p[0, 0] + i, row[0]),
}
SIZES = [(1, 1, 1), (2, 3, 2), (8, 16, 32), (5, 7, 3), (13, 40, 33), (64, 9, 70), (33, 130, 17), (9, 257, 100)]
REGISTERS = 16, 32, 64


def array(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.fixture(params=REGISTERS)
def register(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(Target, "register", property(lambda _: request.param))
    return int(request.param)


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    take_small_parts(monkeypatch)


def calls_of(sizes: tuple[int, int, int], dtype: Any) -> list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    (m, k, n), kinds = sizes, list(FOLLOWING)
    if np.dtype(dtype).kind != "f":
        kinds.remove("half precision")
    operands = array((m, k), dtype), array((k, n), dtype), array((n,), dtype), array((m, n), dtype)
    return [
        ((lambda x, w, row, other, f=FOLLOWING[kind]: f(x @ w, row, other)), operands) for kind in kinds
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint32], ids=str)
def test_what_follows(dtype: Any) -> None:
    with veery.enable_x64(True):
        assert_as_numpy([call for sizes in ((13, 40, 33), (9, 5, 3)) for call in calls_of(sizes, dtype)])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, int, int], register: int) -> None:
    assert_as_numpy(calls_of(sizes, np.float32)[:5])


@pytest.mark.parametrize("sizes", SIZES[4:], ids=str)
def test_sizes_in_many_parts(sizes: tuple[int, int, int], register: int, many_parts: None) -> None:
    assert_as_numpy(calls_of(sizes, np.float32)[:7])


def test_large_ones() -> None:
    calls = [
        (lambda x, w, row: jnp.maximum(x @ w + row, 0), (array((m, k)), array((k, n)), array((n,))))
        for m, k, n in [(1100, 150, 70), (70, 1000, 300), (300, 40, 900), (3, 700, 900)]
    ]
    calls.append((lambda x, y: (x.T @ y.T) * 2, (array((300, 200)), array((150, 300)))))
    assert_as_numpy(calls)


@pytest.mark.parametrize("narrow", [np.int8, np.uint8, ml_dtypes.bfloat16, np.float16], ids=str)
@pytest.mark.parametrize("wide", [np.float32, np.int32], ids=str)
def test_narrow_operands(narrow: Any, wide: Any) -> None:
    x, y = abs(array((24, 37))).astype(narrow), abs(array((37, 40), seed=8)).astype(narrow)
    product = lambda x, y: lax.dot(x, y, preferred_element_type=wide) + 1
    converted = lambda x, y: x.astype(wide) @ y.astype(wide)
    whole = (lambda x, y: x @ y, product) if np.dtype(wide).kind == np.dtype(narrow).kind else ()
    assert_as_numpy([(converted, (x, y)), *((fun, (x, y)) for fun in whole)])


def test_products_that_are_no_kernels_keep_their_operands() -> None:
    halves = lambda *shape: np.ones(shape, jnp.bfloat16)
    dot = lambda x, y: lax.dot(x, y, preferred_element_type=np.float32)
    for operands in [(halves(3, 4), halves(4)), (halves(3, 4), halves(4, 1)), (halves(2, 0), halves(0, 2))]:
        module = veery.jit(dot).lower(*operands)._lowered.module
        texts: list[str] = []

        def fuse(module: Any, texts: list[str] = texts) -> None:
            texts.append(str(module))
            assert fuse_products(module) == 0
            texts.append(str(module))

        inlined(module, fuse)
        assert texts[0] == texts[1]


def test_nan_and_infinities(many_parts: None) -> None:
    x, y = array((37, 50)), array((50, 45), seed=8)
    x[3, 5], x[11, 49], y[7, 9], y[49, 44] = np.nan, np.inf, -np.inf, np.nan
    assert_as_numpy([(lambda x, y: x @ y, (x, y)), (lambda x, y: jnp.where(jnp.isnan(x @ y), 1, 2), (x, y))])


@st.composite
def products(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Shapes of two operands, and which axes are summed and which go together."""
    sizes = st.sampled_from([1, 2, 3, 4, 5, 8, 17, 34])
    batch, summed = (draw(st.lists(sizes, max_size=2)) for _ in range(2))
    free = [draw(st.lists(sizes, max_size=2)) for _ in range(2)]
    operands, axes = [], []
    for side in free:
        kinds = [("batch", i) for i in range(len(batch))] + [("summed", i) for i in range(len(summed))]
        order = draw(st.permutations([*kinds, *(("free", i) for i in range(len(side)))]))
        known = {"batch": batch, "summed": summed, "free": side}
        operands.append(tuple(known[kind][i] for kind, i in order))
        axes.append([[order.index((kind, i)) for i in range(len(known[kind]))] for kind in ("summed", "batch")])
    numbers = tuple(zip(*axes))
    return operands[0], operands[1], numbers


@given(st.lists(products(), min_size=8, max_size=8), st.sampled_from(REGISTERS))
@settings(max_examples=4)
@pytest.mark.parametrize("parts", ["few", "many"])
def test_any_axes(parts: str, cases: list[tuple[Any, Any, Any]], register: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Target, "register", property(lambda _: register))
        if parts == "many":
            take_small_parts(patch)
        calls = []
        for x, y, numbers in cases:
            product = lambda x, y, numbers=numbers: lax.dot_general(x, y, numbers)
            tail = product(np.zeros(x, np.float32), np.zeros(y, np.float32)).shape[-1:]
            operands = array(x), array(y, seed=8), array(tail, seed=9)
            calls.append((lambda x, y, row, product=product: (product(x, y), product(x, y) * 2 + row), operands))
        assert_as_numpy(calls)


def test_what_is_made_for_a_product_is_computed_with_it() -> None:
    """But for what its factors are, and what something else reads."""
    x, other = array((40, 40)), array((40, 40), seed=8)
    programs: dict[Callable[..., Any], int] = {  # and how many multiplications are left
        (lambda x, y: x @ y - (x * 3 + y * y)): 0,
        (lambda x, y: (x * 3) @ y - x * 3): 1,
        (lambda x, y: (x * 3) @ (y * 2) - (x * 3 + y * 2)): 2,
        (lambda x, y: ((h := y * 2) + x @ y, h)): 1,
        (lambda x, y: x @ y - (x * 3).T): 1,
    }
    for fun, left in programs.items():
        found: list[str] = []

        def fused(module: Any) -> None:
            fuse_products(module)
            found.extend(op.name for op in operations(module))  # noqa: B023

        inlined(veery.jit(fun).lower(x, other)._lowered.module, fused)
        assert "stablehlo.dot_general" not in found and found.count("stablehlo.multiply") == left
    assert_as_numpy([(fun, (x, other)) for fun in programs])


kernels = functools.partial(how_many, fuse_products)


X, W, V = np.ones((30, 20), np.float32), np.ones((20, 40), np.float32), np.ones((20,), np.float32)


@pytest.mark.parametrize(
    ("fun", "args", "count"),
    [
        (lambda x, w: jnp.tanh(x @ w) + 1, (X, W), 1),
        (lambda x, w: jnp.tanh(x @ w) @ w.T, (X, W), 2),
        (lambda x, v: x @ v, (X, V), 0),  # a vector is read once
        (lambda x, v: v @ x.T, (X, V), 0),
        (lambda x, w: x[:, None] * w.T[None], (X, W), 0),
        (lambda x, w: x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16), (X, W), 1),
        (lambda x, w: x.astype(np.int8) @ w.astype(np.int8), (X, W), 0),
        (lambda x, w: (x + 1j) @ w, (X, W), 0),
    ],
)
def test_which_products_become_kernels(fun: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
    assert kernels(fun, *args) == count
