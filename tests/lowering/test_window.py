"""Windows, against loops over their places."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compiled import results
from support.interpreted import interpreted
from support.jaxpr_graphs import Graph

import veery
from veery import grad, jit, lax, numpy as jnp

RNG = np.random.default_rng(0)
UFUNCS = {"reduce_window_sum": np.add, "reduce_window_max": np.maximum, "reduce_window_min": np.minimum}


def dilated(x: np.ndarray, padding: tuple, base: tuple, fill: float) -> np.ndarray:
    shape = [(n - 1) * b + 1 + low + high for n, b, (low, high) in zip(x.shape, base, padding)]
    result = np.full(shape, fill, x.dtype)
    places = tuple(slice(low, low + (n - 1) * b + 1, b) for n, b, (low, _) in zip(x.shape, base, padding))
    result[places] = x
    return result


def windows(x: np.ndarray, window: tuple, strides: tuple, dilation: tuple) -> list:
    """For each place in the window, the array of elements there."""
    sizes = [(n - (w - 1) * d - 1) // s + 1 for n, w, s, d in zip(x.shape, window, strides, dilation)]
    return [
        x[tuple(slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in zip(offset, dilation, sizes, strides))]
        for offset in itertools.product(*map(range, window))
    ]


CASES = [
    ((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1), (1, 1)),
    ((2, 3), (1, 1), ((0, 1), (1, 0)), (2, 1), (1, 2)),
    ((1, 8), (1, 1), ((0, 0), (7, 0)), (1, 1), (1, 1)),
    ((2, 3), (5, 1), ((0, 0), (1, 0)), (1, 1), (1, 2)),  # one window, with more behind it
    ((3, 2), (12, 1), ((1, 2), (0, 0)), (2, 1), (1, 1)),
    ((5, 7), (1, 1), ((2, 2), (3, 3)), (1, 1), (1, 1)),  # wide ones, which overlap
    ((4, 4), (1, 2), ((3, 3), (4, 4)), (1, 1), (2, 2)),
    ((6, 5), (1, 1), ((2, 3), (2, 2)), (2, 1), (1, 1)),
    ((3, 8), (2, 3), ((1, 1), (5, 6)), (1, 2), (1, 1)),
    ((1, 13), (1, 1), ((0, 0), (12, 0)), (1, 1), (1, 1)),
    ((4, 4), (4, 4), ((1, 1), (0, 0)), (1, 1), (1, 1)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, ml_dtypes.bfloat16, np.complex64])
def test_reduce_window(dtype: type) -> None:
    g = Graph()
    values = RNG.integers(0, 50, (6, 8)).astype(dtype)
    x = g.input(values)
    extremes = {"reduce_window_sum": 0, "reduce_window_max": 0, "reduce_window_min": 60}
    for (name, ufunc), case in itertools.product(UFUNCS.items(), CASES):
        if np.dtype(dtype).kind == "c" and ufunc is not np.add:
            continue
        window, strides, padding, base, dilation = case
        wide = values.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
        places = windows(dilated(wide, padding, base, extremes[name]), window, strides, dilation)
        expected = places[0]
        for place in places[1:]:
            expected = ufunc(expected, place)
        if np.dtype(dtype) == np.uint8:
            expected = expected % 256
        out = g.op(
            name, x, out=expected.shape, window_dimensions=window, window_strides=strides, padding=padding,
            base_dilation=base, window_dilation=dilation,
        )  # fmt: skip
        g.check(f"{name} {case}", out, expected.astype(dtype))
    g.run()


def test_windows_of_numbers_that_are_not_finite() -> None:
    x = np.array([1, np.nan, 3, 4, -np.inf, 6, 7, np.inf, 9, 10, 11, 12, 13, -0.0, -0.0, 16, 17, 1e30], np.float32)
    fold = lambda init, op, width: lambda x: lax.reduce_window(x, np.float32(init), op, (width,), (1,), "VALID")
    folds = {"sum": (0, lax.add), "max": (-np.inf, lax.max), "min": (np.inf, lax.min)}
    calls = [(fold(*folds[name], width), (x,)) for name in folds for width in (2, 5, 11)]
    for (fun, _), out in zip(calls, results(calls), strict=True):
        np.testing.assert_array_equal(out, *veery.tree.leaves(interpreted(fun, x)))


def test_sums_of_wide_windows_are_those_of_their_elements() -> None:
    x = RNG.standard_normal((3, 4000)).astype(np.float32)
    mean = lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1000), (1, 1), "VALID") / 1000
    (found,) = results([(mean, (x,))])
    expected = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 1000, 1).mean(-1)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_general_window() -> None:
    body = Graph(((), np.float32), ((), np.float32))
    closed = body.closed(body.op("max", *body.invars))
    g = Graph()
    values = RNG.standard_normal((5, 6)).astype(np.float32)
    x, init = g.input(values), g.input(np.float32(-9))
    window, strides, padding, base, dilation = CASES[1]
    places = windows(dilated(values, padding, base, -9), window, strides, dilation)
    expected = np.max(places, axis=0)
    (out,) = g.ops(
        "reduce_window", [x, init], [(expected.shape, np.float32)], jaxpr=closed, consts=(), window_dimensions=window,
        window_strides=strides, padding=padding, base_dilation=base, window_dilation=dilation,
    )  # fmt: skip
    g.check("reduce_window", out, expected)
    g.run()


@pytest.mark.parametrize("select", ["ge", "le"])
def test_select_and_scatter_add(select: str) -> None:
    """Overlapping, padded and strided windows; ties go to the first place, padding gets nothing."""
    g = Graph()
    values = RNG.integers(0, 4, (6, 7)).astype(np.float32)
    values[0, 0] = -np.inf if select == "ge" else np.inf
    x = g.input(values)
    for window, strides, padding in [
        ((2, 2), (2, 2), ((0, 0), (0, 0))),
        ((3, 3), (1, 2), ((1, 1), (1, 1))),
        ((2, 3), (1, 1), ((0, 1), (2, 0))),
    ]:
        sizes = [(n + sum(p) - w) // s + 1 for n, w, s, p in zip(values.shape, window, strides, padding)]
        source = RNG.standard_normal(sizes).astype(np.float32)
        expected = np.zeros_like(values)
        sign = 1 if select == "ge" else -1
        for out in np.ndindex(*sizes):
            best = None
            for offset in itertools.product(*map(range, window)):
                at = tuple(o * s + k - p[0] for o, s, k, p in zip(out, strides, offset, padding))
                inside = all(0 <= i < n for i, n in zip(at, values.shape))
                if inside and (best is None or sign * values[at] > sign * values[best]):
                    best = at
            if best is not None:
                expected[best] += source[out]
        result = g.op(
            "select_and_scatter_add", g.input(source), x, out=values.shape, select_prim=SimpleNamespace(name=select),
            window_dimensions=window, window_strides=strides, padding=padding,
        )  # fmt: skip
        g.check(f"{window} {strides}", result, expected, 1e-5)
    g.run()


def test_windows_of_equal_constants_are_summed_whole() -> None:
    """As those that average pooling divides by: IREE takes one element for the sum of them all."""
    ones = jnp.ones((1, 3, 4, 1))
    cases = [((1, 2, 2, 1), "VALID"), ((1, 3, 1, 1), "VALID"), ((1, 3, 4, 1), "VALID"), ((1, 2, 3, 1), "SAME")]

    def summed(x: Any, window: tuple[int, ...], padding: str) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 1, 1), padding)

    calls = [(lambda case=case: summed(ones, *case), ()) for case in cases]
    variable = [(lambda x, case=case: summed(x, *case), (np.ones((1, 3, 4, 1), np.float32),)) for case in cases]
    for got, expected in zip(results(calls), results(variable), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.max() > 1


def test_a_neutral_value_of_another_dtype_starts_windows():
    """-inf is neutral for max as it is, whatever the operand, as in JAX; other values must be of its dtype."""
    x = jnp.arange(5)
    assert lax.reduce_window(x, -jnp.inf, lax.max, (2,)).tolist() == [1, 2, 3, 4]
    assert lax.reduce_window(x, 0.0, lax.add, (2,)).dtype == jnp.int32
    with pytest.raises(TypeError, match="different dtypes"):
        lax.reduce_window(x, 0.0, lax.max, (2,))


@pytest.mark.parametrize("operation", [lax.add, lax.max, lax.min, lax.mul])
def test_windows_that_start_with_any_value_take_as_few_operations(operation):
    """Padding is left out, and the value joins once."""
    x = jnp.arange(48.0).reshape(6, 8) % 5 + 0.5
    window = lambda start: lambda x, i: lax.reduce_window(x, start(i), operation, (3, 8), (1, 2), "SAME")
    neutral = {lax.add: 0.0, lax.max: -np.inf, lax.min: np.inf, lax.mul: 1.0}[operation]
    known, given = window(lambda i: neutral), window(lambda i: i)
    np.testing.assert_allclose(jit(given)(x, 2.0), operation(jit(known)(x, 2.0), 2.0), rtol=1e-6)
    lines = [jit(f).lower(x, np.float32(2)).as_text().count(" = ") for f in (known, given)]
    assert lines[1] <= lines[0] + 8


def test_gradients_of_reductions_with_a_start():
    x = jnp.array([1.0, 2.0, 3.0])
    product = lambda x, i: lax.reduce(x, i, lax.mul, (0,)) ** 2
    assert [g.tolist() for g in jit(grad(product, (0, 1)))(x, 2.0)] == [[288, 144, 96], 144]
    total = lambda x, i: (lax.reduce_window(x, i, lax.add, (2,)) * jnp.array([1.0, 10.0])).sum()
    assert [g.tolist() for g in jit(grad(total, (0, 1)))(x, 2.0)] == [[1, 11, 10], 11]
