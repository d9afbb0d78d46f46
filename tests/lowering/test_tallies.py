"""Scatters that are done as reductions over their updates are what they are one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes import run_everywhere

import veery
import veery.numpy as jnp
import veery_lowering
from veery import lax

METHODS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "set": None,
}
# Of the operand and of what is written, and the places: some of them outside.
SHAPES = [((9,), (700,)), ((40, 16), (50, 16)), ((3, 5), (900, 5)), ((600,), (600,)), ((1, 7), (80, 7))]


def scattered(method: str, x: Any, places: Any, updates: Any) -> Any:
    """What NumPy makes of it, one update after the other; what is outside is dropped."""
    out = x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
    for place, update in zip(places, updates):
        if 0 <= place < len(out):
            out[place] = update if method == "set" else METHODS[method](out[place], update)
    return out


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "uint8"])
def test_scatters_are_as_before(method: str, dtype: str, monkeypatch: pytest.MonkeyPatch, x64: None) -> None:
    run_everywhere(monkeypatch, "reduce_scatters")
    veery.config.update("jax_enable_compilation_cache", False)
    rng = np.random.default_rng(0)
    top = 2 if method == "multiply" else 6
    numbers = lambda shape: rng.integers(0 if dtype == "uint8" else 1 - top, top, shape).astype(dtype)
    cases = [(numbers(a), rng.integers(-2, a[0] + 2, b[0]), numbers(b)) for a, b in SHAPES]

    def program(cases: Any) -> Any:
        return [getattr(x.at[lax.select(i < 0, i * 0 + 5000, i)], method)(u, mode="drop") for x, i, u in cases]

    options = {"kernels": False}  # which would take them before
    for (x, i, u), found in zip(cases, veery.jit(program, compiler_options=options)(cases), strict=True):
        right = scattered(method, x, i, u)
        if dtype == "uint8":
            right = right % 256 if method in ("add", "multiply") else right
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, right)


def test_special_numbers_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    run_everywhere(monkeypatch, "reduce_scatters")
    veery.config.update("jax_enable_compilation_cache", False)
    x = np.array([-0.0, 1, np.inf, np.nan, 2], np.float32)
    i = np.tile(np.array([1, 2, 1], np.int32), 300)
    u = np.tile(np.array([np.inf, -np.inf, -1], np.float32), 300)
    add = veery.jit(lambda x, i, u: x.at[i].add(u), compiler_options={"kernels": False})(x, i, u)
    np.testing.assert_array_equal(add, np.array([0, np.inf, np.nan, np.nan, 2], np.float32))
    assert np.signbit(np.asarray(add)[0])
    largest = veery.jit(lambda x, i, u: x.at[i].max(u), compiler_options={"kernels": False})(x, i, u)
    np.testing.assert_array_equal(largest, np.array([0, np.inf, np.inf, np.nan, 2], np.float32))


PROGRAMS: dict[str, Any] = {
    "histogram": (lambda i: jnp.bincount(i, length=1000), [np.ones(5000, np.int32)]),
    "segments": (
        lambda x, i: veery.ops.segment_sum(x, i, 100),
        [np.ones((5000, 32), np.float32), np.ones(5000, np.int32)],
    ),
    "gradient of rows": (
        lambda w, i: veery.grad(lambda w: jnp.tanh(w[i]).sum())(w),
        [np.ones((300, 24), np.float32), np.ones(500, np.int32)],
    ),
    "written": (
        lambda x, i, u: x.at[i].set(u),
        [np.ones((300, 8), np.float32), np.ones(400, np.int32), np.ones((400, 8), np.float32)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_scatter_is_left_for_cuda(name: str) -> None:
    fun, args = PROGRAMS[name]
    lowered = veery_lowering.lower(veery.make_jaxpr(fun)(*args), target="cuda")
    assert "scatter" not in lowered.intermediate("flow")
    assert lowered.compile().backend == "cuda"


def test_few_updates_and_many_rows_are_left() -> None:
    for rows, updates in ((100, 20), (1 << 15, 4000)):
        args = np.ones(rows, np.float32), np.ones(updates, np.int32), np.ones(updates, np.float32)
        closed = veery.make_jaxpr(lambda x, i, u: x.at[i].add(u))(*args)
        assert "scatter" in veery_lowering.lower(closed, target="cuda").intermediate("flow")
