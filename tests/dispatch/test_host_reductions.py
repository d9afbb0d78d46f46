"""Sums and extremes that NumPy evaluates: as accurate as compiled ones, and which they are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import veery
from veery import numpy as jnp
from veery._dispatch import lowering
from veery._eager.libraries import LibraryProgram, library_program
from veery.lax import _host_reductions

R = np.random.default_rng(7)
# Shapes, and axes that are reduced.
PLACES = [
    ((7,), None), ((1000,), 0), ((100_003,), None), ((300, 100), None), ((300, 100), 0), ((300, 100), 1),
    ((1000, 64), 0), ((1000, 33), 1), ((3, 700), 1), ((3, 1281), 1), ((70, 1, 80, 2), (2, 3)), ((5, 60, 70), (0, 1)),
    ((1, 9, 1), None), ((40, 1, 30), 0), ((257, 65), 0), ((256, 65), 0), ((2, 3), 0), ((129, 700), 0),
    ((33_000, 70), 0),
]  # fmt: skip
# Of short rows among them sums alone are evaluated.
SHORT_ROWS = [((300, 100), 1), ((1000, 33), 1), ((70, 1, 80, 2), (2, 3))]
FUNCTIONS = {"sum": np.sum, "max": np.max, "min": np.min}


def evaluated(fun: Any, *operands: Any) -> bool:
    """Whether NumPy evaluates a program."""
    closed = veery.make_jaxpr(fun)(*operands)
    return library_program(closed, lowering().host.CALLS) is not None


@contextmanager
def compiled() -> Iterator[None]:
    veery.config.update("veery_host_evaluation", False)
    try:
        yield
    finally:
        veery.config.update("veery_host_evaluation", True)


def by(name: str, axes: Any) -> Any:
    return lambda x: getattr(jnp, name)(x, axis=axes)


@pytest.fixture(autouse=True)
def one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host_reductions, "processors", lambda: 1)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.int64])
def test_they_are_numpys(name: str, dtype: Any) -> None:
    with veery.enable_x64(True):
        for shape, axes in PLACES:
            x = (R.normal(size=shape) * 50 + 60).astype(dtype)
            if name != "sum" or np.dtype(dtype).itemsize == 8:  # the sums of others are of 64 bits, too
                assert evaluated(by(name, axes), x) is (name == "sum" or (shape, axes) not in SHORT_ROWS), shape
            found = np.asarray(veery.jit(by(name, axes))(x))
            wide = x.astype(np.longdouble) if x.dtype.kind == "f" else x
            expected = FUNCTIONS[name](wide, axis=axes)
            assert found.dtype == (FUNCTIONS[name](x, axis=axes).dtype), shape  # sums of integers have 64 bits
            assert found.shape == expected.shape
            tolerance = 40 * np.finfo(dtype).eps if x.dtype.kind == "f" else 0
            np.testing.assert_allclose(found, expected, rtol=tolerance, err_msg=f"{shape} {axes}")


@pytest.mark.parametrize("shape, axes", [((2_000_000,), None), ((2_000_000 // 64, 64), 0), ((100, 20_000), 1)])
def test_long_sums_are_accurate(shape: Any, axes: Any) -> None:
    """Numbers of one sign, all sums of which are large: in turn, each addition would round as much as all here."""
    x = (np.random.default_rng(7).random(shape) + 1).astype(np.float32)
    assert evaluated(by("sum", axes), x)
    expected = x.astype(np.float64).sum(axes)
    found = np.asarray(veery.jit(by("sum", axes))(x))
    assert np.abs(found / expected - 1).max() < 20 * np.finfo(np.float32).eps
    in_turn = np.add.accumulate(x, axis=axes or 0)[-1] if axes != 1 else np.add.accumulate(x, axis=1)[:, -1]
    assert np.abs(found / expected - 1).max() < np.abs(in_turn / expected - 1).max()


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 1e-40, -1e-40, 3e38]


@given(
    st.lists(st.sampled_from(SPECIAL), min_size=6, max_size=6), st.sampled_from(list(FUNCTIONS)),
    st.sampled_from([None, 0, 1]),
)  # fmt: skip
def test_special_values_are_those_of_compiled_code(values: list[float], name: str, axes: int | None) -> None:
    x = np.array(values, np.float32).reshape(2, 3)
    assert evaluated(by(name, axes), x)
    found = np.asarray(veery.jit(by(name, axes))(x))
    with compiled():
        expected = np.asarray(veery.jit(lambda x: by(name, axes)(x))(x))
    np.testing.assert_array_equal(found, expected)
    if name != "sum":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


KEPT = {
    "means": (lambda x: x.mean(0), (300, 100)),
    "of one sign": (lambda x: -x.max(), (300, 100)),
    "along turned rows": (lambda x: x.T.sum(0), (300, 100)),
    "a sum of a part": (lambda x: x[:30].sum(), (300, 100)),
}
COMPILED = {
    "what is large beside it": (lambda x: (x * x).sum(), (300, 100)),
    "many steps": (lambda x: jnp.sin(jnp.cos(jnp.exp(jnp.tanh(jnp.abs(x.sum()))) + 1) * 2 - 3), (300, 100)),
    "short rows": (lambda x: x.max(1), (3000, 10)),
    "few columns": (lambda x: x.sum(0), (3000, 3)),
    "axes apart": (lambda x: x.sum((0, 2)), (30, 40, 50)),
    "nothing": (lambda x: x.sum(), (0,)),
    "very much": (lambda x: x.sum(), (3000, 2000)),
    "nothing reduced": (lambda x: x.sum(0), (1, 300)),
}


@pytest.mark.parametrize("name", KEPT)
def test_little_may_be_beside_them(name: str) -> None:
    fun, shape = KEPT[name]
    x = R.normal(size=shape).astype(np.float32)
    assert evaluated(fun, x)
    np.testing.assert_allclose(veery.jit(fun)(x), fun(x.astype(np.float64)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", COMPILED)
def test_others_are_compiled(name: str) -> None:
    fun, shape = COMPILED[name]
    assert not evaluated(fun, np.ones(shape, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.complex64])
def test_other_types_are_compiled(dtype: Any) -> None:
    assert not evaluated(lambda x: x.sum(), np.ones((300, 100), dtype))


def test_large_programs_are_not_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    step = LibraryProgram._step
    monkeypatch.setattr(LibraryProgram, "_step", lambda self, eqn, known: seen.append(eqn) or step(self, eqn, known))
    assert not evaluated(
        lambda x: functools.reduce(lambda y, _: y * 1.5 + 1, range(100), x).sum(), np.ones(9, np.float32)
    )
    assert 0 < len(seen) < 20


def test_more_processors_have_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((1000, 1000), np.float32)
    assert evaluated(lambda x: x.sum(), x)
    monkeypatch.setattr(_host_reductions, "processors", lambda: 16)
    assert not evaluated(lambda x: x.sum(), x)


def test_axes_are_merged() -> None:
    for shape in itertools.product((1, 2, 3), repeat=4):
        x = R.normal(size=shape)
        for count in range(1, 5):
            for axes in itertools.combinations(range(4), count):
                lengths, reduced = _host_reductions._merged(shape, axes)
                kept = tuple(i for i, is_reduced in enumerate(reduced) if is_reduced)
                assert all(a != b for a, b in itertools.pairwise(reduced))
                np.testing.assert_allclose(x.reshape(lengths).sum(kept).ravel(), x.sum(axes).ravel())
