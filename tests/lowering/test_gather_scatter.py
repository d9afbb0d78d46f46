"""gather and scatter in every mode: what is out of bounds is clamped, filled or dropped, and touches no memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.jaxpr_graphs import Graph

import veery
from veery import lax
from veery_lowering.emit.rules import gather_scatter

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 5)).astype(np.float32)
MODES = ("clip", "fill_or_drop", "promise_in_bounds")


def gather_numbers(offset: tuple, collapsed: tuple, index_map: tuple, operand_batch: tuple = (), index_batch=()) -> Any:
    return SimpleNamespace(
        offset_dims=offset, collapsed_slice_dims=collapsed, start_index_map=index_map,
        operand_batching_dims=operand_batch, start_indices_batching_dims=index_batch,
    )  # fmt: skip


def scatter_numbers(window: tuple, inserted: tuple, index_map: tuple, operand_batch: tuple = (), index_batch=()) -> Any:
    return SimpleNamespace(
        update_window_dims=window, inserted_window_dims=inserted, scatter_dims_to_operand_dims=index_map,
        operand_batching_dims=operand_batch, scatter_indices_batching_dims=index_batch,
    )  # fmt: skip


COMBINE = {
    "scatter": lambda old, new: new,
    "scatter_add": np.add,
    "scatter_sub": np.subtract,
    "scatter_mul": np.multiply,
    "scatter_min": np.minimum,
    "scatter_max": np.maximum,
}


def scattered(kind: str, mode: str, x: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    for row, update in zip(rows, updates):
        if mode == "clip":
            row = min(max(row, 0), len(x) - 1)
        if 0 <= row < len(x):
            result[row] = COMBINE[kind](result[row], update)
    return result


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.int64, np.uint32, np.uint64])
def test_gather_rows(dtype: type) -> None:
    g = Graph()
    rows = np.array([0, 6, 3, 100, 7, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    x, index = g.input(X), g.input(rows[:, None])
    outside = np.array([not 0 <= int(row) < 7 for row in rows])
    clipped = X[[min(max(int(row), 0), 6) for row in rows]]
    for mode in MODES:
        expected = np.where(outside[:, None], np.float32(np.nan), clipped) if mode == "fill_or_drop" else clipped
        numbers = gather_numbers((1,), (0,), (0,))
        out = g.op("gather", x, index, out=(7, 5), dimension_numbers=numbers, slice_sizes=(1, 5), mode=mode)
        g.check(mode, out, expected)
    g.run()


def test_gather_windows_single_indices_and_batches() -> None:
    g = Graph()
    x, index = g.input(X), g.input(np.array([[1, 2], [6, 0], [2, 9]], np.int32))
    params = dict(slice_sizes=(2, 2), mode="fill_or_drop", fill_value=-5.0)
    out = g.op("gather", x, index, out=(3, 2, 2), dimension_numbers=gather_numbers((1, 2), (), (0, 1)), **params)
    outside = np.full((2, 2), -5, np.float32)
    g.check("windows", out, np.stack([X[1:3, 2:4], outside, outside]))
    for row, expected in ((4, X[4]), (9, np.full(5, np.nan, np.float32))):
        single = g.input(np.array([row], np.int32))
        numbers = gather_numbers((0,), (0,), (0,))
        out = g.op("gather", x, single, out=(5,), dimension_numbers=numbers, slice_sizes=(1, 5), mode="fill_or_drop")
        g.check(f"row {row}", out, expected)
    tables, rows = RNG.standard_normal((3, 4, 5)).astype(np.float32), np.array([[0, 3], [2, 2], [9, 1]], np.int32)
    numbers = gather_numbers((2,), (1,), (1,), (0,), (0,))
    operands = g.input(tables), g.input(rows[:, :, None])
    out = g.op("gather", *operands, out=(3, 2, 5), dimension_numbers=numbers, slice_sizes=(1, 1, 5), mode="clip")
    g.check("batch", out, np.stack([tables[i][np.minimum(rows[i], 3)] for i in range(3)]))
    none = g.input(np.zeros((0, 1), np.int32))
    numbers = gather_numbers((1,), (0,), (0,))
    out = g.op("gather", x, none, out=(0, 5), dimension_numbers=numbers, slice_sizes=(1, 5), mode="clip")
    g.check("no indices", out, X[:0])
    g.run()


def test_fill_values() -> None:
    g = Graph()
    fills = {
        np.int8: -128, np.int64: np.iinfo(np.int64).min, np.uint16: 65535, np.bool_: True, np.float16: np.nan,
        ml_dtypes.bfloat16: np.nan, np.complex64: np.nan, np.complex128: np.nan,
    }  # fmt: skip
    for dtype, fill in fills.items():
        x, index = g.input(np.array([1, 0, 1], dtype)), g.input(np.array([[0], [5]], np.int32))
        numbers = gather_numbers((), (0,), (0,))
        out = g.op("gather", x, index, out=(2,), dimension_numbers=numbers, slice_sizes=(1,), mode="fill_or_drop")
        g.check(str(dtype), out, np.array([1, fill]).astype(dtype))
    g.run()


@pytest.fixture(params=[None, 3, 7], ids=lambda most: "" if most is None else f"{most} rows at a time")
def _most_rows(request: Any, monkeypatch: Any) -> None:
    """Scatters of more rows than IREE has numbers for, 2^31, are made of several; here of more than a few."""
    if request.param:
        monkeypatch.setattr(gather_scatter, "MOST_ROWS", request.param)


@pytest.mark.usefixtures("_most_rows")
@pytest.mark.parametrize("kind", list(COMBINE))
def test_scatter_rows(kind: str) -> None:
    """Duplicates in order, updates out of bounds dropped or clamped, all of them out of bounds, none at all."""
    g = Graph()
    rows = np.array([0, 6, 3, 100, 0, -1], np.int32)
    updates = RNG.standard_normal((6, 5)).astype(np.float32)
    x, numbers = g.input(X), scatter_numbers((1,), (0,), (0,))
    for mode in MODES:
        index, u = g.input(rows[:, None]), g.input(updates)
        out = g.op(kind, x, index, u, dimension_numbers=numbers, mode=mode)
        g.check(mode, out, scattered(kind, mode, X, rows, updates), 1e-6)
    outside, u = g.input(np.array([[7], [-1]], np.int32)), g.input(updates[:2])
    g.check("outside", g.op(kind, x, outside, u, dimension_numbers=numbers, mode="fill_or_drop"), X)
    none, u = g.input(np.zeros((0, 1), np.int32)), g.input(updates[:0])
    g.check("none", g.op(kind, x, none, u, dimension_numbers=numbers, mode="clip"), X)
    for row in (2, 9):
        index, u = g.input(np.array([row], np.int32)), g.input(updates[0])
        single = scatter_numbers((0,), (0,), (0,))
        out = g.op(kind, x, index, u, dimension_numbers=single, mode="fill_or_drop")
        g.check(f"row {row}", out, scattered(kind, "drop", X, np.array([row]), updates[:1]), 1e-6)
    # Of complex numbers extremes are by the imaginary parts where the real ones are equal.
    values, updates = np.array([[1 + 2j]] * 3, np.complex64), np.array([[1 + 3j], [1 + 1j], [1 - 1j]], np.complex64)
    rows = np.array([0, 0, 1], np.int32)
    index, u = g.input(rows[:, None]), g.input(updates)
    out = g.op(kind, g.input(values), index, u, dimension_numbers=numbers, mode="clip")
    g.check("complex", out, scattered(kind, "clip", values, rows, updates))
    g.run()


@pytest.mark.usefixtures("_most_rows")
def test_scatter_windows_axes_and_batches() -> None:
    g = Graph()
    x, index = g.input(X), g.input(np.array([[1, 2], [6, 0], [5, 3]], np.int32))
    updates = RNG.standard_normal((3, 2, 2)).astype(np.float32)
    expected = X.copy()
    expected[1:3, 2:4] += updates[0]
    expected[5:7, 3:5] += updates[2]  # the second window does not fit: all of it is dropped
    numbers = scatter_numbers((1, 2), (), (0, 1))
    out = g.op("scatter_add", x, index, g.input(updates), dimension_numbers=numbers, mode="fill_or_drop")
    g.check("windows", out, expected, 1e-6)
    columns = RNG.standard_normal((7, 2)).astype(np.float32)
    expected = X.copy()
    expected[:, [1, 4]] = columns
    index = g.input(np.array([[1], [4]], np.int32))
    numbers = scatter_numbers((0,), (1,), (1,))
    out = g.op("scatter", x, index, g.input(columns), dimension_numbers=numbers, mode="fill_or_drop")
    g.check("columns", out, expected)
    tables, rows = RNG.standard_normal((3, 4, 5)).astype(np.float32), np.array([[0, 3], [2, 2], [9, 1]], np.int32)
    updates = RNG.standard_normal((3, 2, 5)).astype(np.float32)
    operands = g.input(tables), g.input(rows[:, :, None]), g.input(updates)
    numbers = scatter_numbers((2,), (1,), (1,), (0,), (0,))
    out = g.op("scatter_add", *operands, dimension_numbers=numbers, mode="fill_or_drop")
    each = [scattered("scatter_add", "drop", *parts) for parts in zip(tables, rows, updates)]
    g.check("batch", out, np.stack(each), 1e-6)
    g.run()


def test_scatter_of_bools_complex_and_signed_zeros() -> None:
    g = Graph()
    numbers = scatter_numbers((), (0,), (0,))
    index = np.array([[0], [0], [5]], np.int32)
    samples = {np.bool_: [True, False], np.complex64: [1j, 2], np.complex128: [1j, 2], np.float32: [-0.0, -0.0]}
    for dtype, values in samples.items():
        x = np.array(values, dtype)
        updates = np.array([1, 1, 1] if dtype is np.bool_ else [1, 2, 4], dtype)
        if dtype is np.float32:
            updates = np.array([-0.0, -0.0, 4], dtype)
        operands = g.input(x), g.input(index), g.input(updates)
        out = g.op("scatter_add", *operands, dimension_numbers=numbers, mode="fill_or_drop")
        g.check(str(dtype), out, np.array([x[0] | True if dtype is np.bool_ else x[0] + updates[0] + updates[1], x[1]]))
    results = g.run()
    assert np.signbit(results[-1]).all()


def test_out_of_bounds_indices_are_clamped_in_the_text() -> None:
    """The guard itself: IREE reads arbitrary memory for a row beyond the end, and writes to it in a scatter."""
    g = Graph()
    x, index, u = g.input(X), g.input(np.array([[3], [4]], np.int32)), g.input(X[:2])
    numbers = gather_numbers((1,), (0,), (0,))
    g.outvars.append(g.op("gather", x, index, out=(2, 5), dimension_numbers=numbers, slice_sizes=(1, 5), mode="clip"))
    numbers = scatter_numbers((1,), (0,), (0,))
    g.outvars.append(g.op("scatter", x, index, u, dimension_numbers=numbers, mode="promise_in_bounds"))
    text = g.text()
    assert text.count("stablehlo.minimum") == 2 and text.count("stablehlo.maximum") == 2


def test_scatters_into_a_number() -> None:
    """All updates are of it; eagerly, compiled, and with derivatives."""
    numbers = lax.ScatterDimensionNumbers((), (), ())
    index, updates = np.zeros((3, 0), np.int32), np.array([2, 3, 5], np.float32)
    expected = {lax.scatter_add: 17, lax.scatter_sub: -3, lax.scatter_mul: 210, lax.scatter_min: 2, lax.scatter_max: 7}
    for scatter, result in expected.items():
        fun = lambda x, u, scatter=scatter: scatter(x, index, u, numbers)
        assert fun(np.float32(7), updates) == veery.jit(fun)(np.float32(7), updates) == result
    gradients = veery.grad(lambda x, u: lax.scatter_add(x, index, u, numbers) ** 2, (0, 1))(np.float32(7), updates)
    assert [np.asarray(x).tolist() for x in gradients] == [34.0, [34.0] * 3]
