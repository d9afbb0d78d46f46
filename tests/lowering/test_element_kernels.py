"""What is computed element by element, as kernels: that they compute what NumPy does, and of what."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.compiled import assert_as_numpy, results
from support.days import of_the_day
from support.interpreted import interpreted
from support.kernels import how_many

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import _elements, fuse_elements

pytestmark = pytest.mark.usefixtures("as_preferred")


def numbers(x: Any, axis: int) -> Any:
    return lax.broadcasted_iota(x.dtype, x.shape, axis)


# Of arrays x and y, a row and a number, of any dtype.
EXACT: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "sum of products": lambda x, y, w, s: x * y + x * 3,
    "a row": lambda x, y, w, s: x * w + y,
    "a column": lambda x, y, w, s: x * y[..., :1] - x,
    "a number": lambda x, y, w, s: (x - s) * s,
    "chosen": lambda x, y, w, s: jnp.where(x > y, x, w * 2),
    "clipped": lambda x, y, w, s: jnp.clip(x + y, 0, 5),
    "compared and counted": lambda x, y, w, s: (x > y).astype(np.int32) + (y > w),
    "several results": lambda x, y, w, s: (x + y, x - y, jnp.maximum(x, w)),
    "results of one": lambda x, y, w, s: (z := x * y, z + 1),
    "a slice": lambda x, y, w, s: x[..., 1:] + y[..., :-1],
    "backwards": lambda x, y, w, s: x[..., ::-1] * 2 + y,
    "by steps": lambda x, y, w, s: x[..., ::2] + 1,
    "transposed": lambda x, y, w, s: x.T + 1,
    "in another shape": lambda x, y, w, s: x.reshape(-1) * 2 + y.ravel(),
    "with more axes": lambda x, y, w, s: x[:, None] * 2 + y[None],
    "a constant": lambda x, y, w, s: x * np.arange(x.shape[-1]).astype(x.dtype) + 1,
    "behind a product": lambda x, y, w, s: (x @ w + 1, x * 2),
    "behind a sum": lambda x, y, w, s: x - x.sum() + y,
    "as another": lambda x, y, w, s: x.astype(np.float32) * 2 + y.astype(np.int8),
    "numbered": lambda x, y, w, s: x * lax.broadcasted_iota(x.dtype, x.shape, 0) + numbers(x, x.ndim - 1),
    "shadowed": lambda x, y, w, s: lax.optimization_barrier(x + 1) * 2,
    "in a branch": lambda x, y, w, s: lax.cond(s > 100, lambda: x + 1, lambda: x * 2),
}
FLOATS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "functions": lambda x, y, w, s: jnp.tanh(x) * jnp.exp(-y * y) + jnp.sin(w),
    "gelu": lambda x, y, w, s: veery.nn.gelu(x),
    "logarithms": lambda x, y, w, s: jnp.log1p(jnp.abs(x)) ** 1.5 / jnp.sqrt(y * y + 1),
    "angles": lambda x, y, w, s: jnp.arctan2(x, y) + jnp.cosh(w),
    "gradient": lambda x, y, w, s: veery.grad(lambda x: (veery.nn.silu(x * w) * y).sum())(x),
    "remainders": lambda x, y, w, s: jnp.floor(x) + jnp.rint(y) + jnp.sign(w) * jnp.isnan(x),
    "half precision": lambda x, y, w, s: (x.astype(jnp.bfloat16) * 2 + y.astype(jnp.bfloat16)).astype(np.float32),
}
SHAPES = [(3,), (7, 33), (1, 5), (3, 5, 64), (130, 100), (9000,)]


def array(shape: tuple[int, ...], dtype: Any, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).integers(0 if np.dtype(dtype).kind in "ub" else -3, 9, shape).astype(dtype)


def operands(shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray, ...]:
    return array(shape, dtype), array(shape, dtype, 8), array(shape[-1:], dtype, 9), np.array(5, dtype)


@pytest.fixture(params=["one workgroup", "several"])
def shares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "several":
        monkeypatch.setattr(_elements, "_LEAST_SHARE", 50)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "uint8", "int64", "uint32"])
def test_whole_numbers_are_exact(dtype: str, shares: None) -> None:
    with veery.enable_x64(True):
        calls = [(fun, operands(shape, dtype)) for fun in EXACT.values() for shape in SHAPES]
        assert_as_numpy(of_the_day(calls))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_functions(dtype: Any, shares: None) -> None:
    with veery.enable_x64(True):
        calls = [(fun, tuple(x * dtype(0.37) for x in operands(s, dtype))) for fun in FLOATS.values() for s in SHAPES]
        for (fun, given), outs in zip(calls, results(calls), strict=True):
            assert not isinstance(outs, Exception), outs
            expected = interpreted(fun, *given)
            for actual, wanted in zip(veery.tree.leaves(outs), veery.tree.leaves(expected), strict=True):
                assert actual.dtype == wanted.dtype
                most = 2e-2 if fun is FLOATS["half precision"] else 40 * np.finfo(dtype).eps
                np.testing.assert_allclose(actual, wanted, rtol=most, atol=most)


# Of numbers x and y of half precision.
HALVES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x * y + x,
    lambda x, y: (x - 1) / y,
    lambda x, y: jnp.tanh(x) + jnp.exp(y),
    lambda x, y: veery.nn.gelu(x),
    lambda x, y: jnp.sqrt(abs(x)) - jnp.rint(y),
    lambda x, y: jnp.where(x > y, jnp.maximum(x, y * 2), -x),
    lambda x, y: jnp.fmod(x, y),
    lambda x, y: x.astype(np.int32) - y.astype(np.int32),
    lambda x, y: (x * 3).astype(np.float32) * y,
    lambda x, y: (x.astype(np.float32) * 1.1).astype(y.dtype),
    lambda x, y: (x * 2).astype(jnp.bfloat16).astype(np.float16) * 3,
]


LENGTHS = (2, 5, 7, 15, 16, 17, 31, 33, 65, 100, 129)


def long(x: Any, sin: Callable[[Any], Any]) -> Any:
    """More values than loops of few trips are written out with."""
    return sin(sin(x) * 3 + 1) * 2 - x


def test_what_is_left_of_long_values_is_computed_with_what_is_before_it(shares: None, x64: Any) -> None:
    """Elements that fill no vector are computed in one that begins before the end of another, of what was there."""
    shapes = [*((n,) for n in LENGTHS), (3, 17), (2, 3, 33)]
    arrays = [np.linspace(-3, 3, math.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes]
    arrays += [np.linspace(-3, 3, n) for n in (5, 9, 17, 100)]
    programs = [lambda x: long(x, jnp.sin), lambda x: long(x[..., ::-1], jnp.sin)]
    calls = [(fun, (x,)) for fun in programs for x in arrays]
    for (fun, (x,)), got in zip(calls, results(calls), strict=True):
        wide = x.astype(np.float64)[..., :: -1 if fun is programs[1] else 1]
        np.testing.assert_allclose(got, long(wide, np.sin), rtol=1e-5, atol=1e-5, err_msg=f"{x.dtype} of {x.shape}")


@pytest.mark.parametrize("length", [17, 33, 100])
def test_long_values_of_loops_are_not_computed_of_what_they_were_written_over(length: int) -> None:
    x = np.linspace(-1, 1, length, dtype=np.float32)
    step = lambda x, sin: sin(sin(x) * 0.5 + x[::-1].sum() * 0.01)
    got = veery.lax.fori_loop(0, 5, lambda i, x: step(x, jnp.sin), x)
    expected = x.astype(np.float64)
    for _ in range(5):
        expected = step(expected, np.sin)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("fun", HALVES)
def test_half_precision_is_rounded_as_elsewhere(fun: Callable[[Any, Any], Any], dtype: Any) -> None:
    """All numbers give the bits that IREE's dispatches compute."""
    x = np.arange(1 << 16).astype(np.uint16)
    given = [jnp.asarray(bits.view(dtype)) for bits in (x, np.random.default_rng(1).permutation(x))]
    assert kernels(fun, *given) == 1
    ours, theirs = (
        np.asarray(veery.jit(fun, compiler_options={"kernels": with_kernels})(*given)) for with_kernels in (True, False)
    )
    both = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
    bits = f"u{ours.itemsize}"
    np.testing.assert_array_equal(np.where(both, 0, ours.view(bits)), np.where(both, 0, theirs.view(bits)))


def test_nan_infinities_and_signs_of_zero() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -3, 5, 1e30] * 5, np.float32)
    y = np.roll(x, 4)
    funs = [
        lambda x, y: x * y + x,
        lambda x, y: jnp.where(x > y, x, -y),
        lambda x, y: jnp.maximum(x, y),
        lambda x, y: jnp.copysign(x, y) * 2,
        lambda x, y: jnp.clip(x, -2, 2) / y,
    ]
    with np.errstate(all="ignore"):
        assert_as_numpy([(fun, (x, y)) for fun in funs])


OPERATIONS = [
    jnp.maximum,
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * 2 - y,
    lambda x, y: jnp.where(x < y, x, y * 2),
    lambda x, y: x + y[..., :1],
    lambda x, y: abs(x) + (y > 1),
    lambda x, y: y.reshape(x.shape) - x,
]


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    """Of a few operations, some of whose results are returned: as NumPy computes them, whatever becomes a kernel."""
    calls = []
    for _ in range(6):
        shape = data.draw(st.sampled_from([(5,), (3, 17), (2, 3, 16), (64, 33)]))
        steps = data.draw(st.lists(st.tuples(st.sampled_from(OPERATIONS), *[st.integers(0, 50)] * 2), min_size=1))
        returned = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=3))

        def fun(x: Any, y: Any, steps: Any = steps, returned: Any = returned) -> Any:
            values = [x, y]
            for step, i, j in steps[:12]:
                values.append(step(values[i % len(values)], values[j % len(values)]))
            return [values[-1], *(values[i % len(values)] for i in returned)]

        calls.append((fun, (array(shape, np.float32), array(shape, np.float32, 8))))
    assert_as_numpy(calls)


kernels = functools.partial(how_many, fuse_elements)


X, LARGE = np.ones((30, 20), np.float32), np.ones((300, 200), np.float32)


@pytest.mark.parametrize(
    ("fun", "args", "count"),
    [
        (lambda x: x + 1, (X,), 1),
        (lambda x: (jnp.tanh(x) + x, x * 2), (X,), 2),
        (lambda x: x[:, None] + x * 2, (X,), 0),  # what is read in another shape is computed
        (lambda x: (x * 2 + 1).sum(), (X,), 0),  # IREE reduces it while it is computed
        (lambda x: x.sum() + x, (X,), 0),
        (lambda x: (y := x * 2, y + 1), (X,), 0),  # both in one dispatch
        (lambda x: x > 1, (X,), 0),
        (lambda x: jnp.tril(x) * 2, (LARGE,), 1),
        (lambda x: x * numbers(x, 1), (np.ones((3, 5000), np.float32),), 0),  # more than it would write for itself
        (lambda x: x * numbers(x, 1), (LARGE.astype(np.float16),), 0),
        (lambda x: x.T * 2, (X,), 1),
        (lambda x: x.T * 2, (LARGE,), 0),  # IREE reads it in blocks
        (lambda x: (x * 2 + 1).reshape(-1, 2), (X,), 1),
        (lambda x: x[:, 1:] * 2 + x[:, :-1], (X,), 1),
        (lambda x: x + 1, (np.float32(3),), 0),
        (lambda x: x + 1, (X.astype(np.float16),), 1),
        (lambda x: (x + 1).astype(jnp.bfloat16) * 2, (X,), 1),
        (lambda x: x + 1, (X.astype(np.complex64),), 0),
        (lambda x: x + 1, (X[:0],), 0),
    ],
)
def test_what_becomes_a_kernel(fun: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
    assert kernels(fun, *args) == count


def test_results_may_take_the_place_of_arguments() -> None:
    fun = lambda x: x * 2 + 1
    assert kernels(fun, LARGE) == kernels(fun, LARGE, donated=(True,)) == 1
