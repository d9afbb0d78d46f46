"""Structural primitives compiled for the CPU: values equal the references, dtype by dtype."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from primitives.table_structural import ALL, ROWS, Row
from support.compiled import results
from support.numpy_trace import numpy_evaluation

import veery
from veery import lax, numpy as jnp
from veery._core import dtypes

# What rounding once per operation, in any order, may differ by; sums are compared with their largest elements.
TOLERANCE = {
    "bfloat16": 3e-2,
    "float16": 4e-3,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}
EVERY = ("float32",)  # here every row is compiled, in other dtypes two of each primitive


def rows_of(name: str) -> list[tuple[int, Row]]:
    """The rows to compile in a dtype, with their numbers."""
    seen: dict[str, int] = {}
    chosen = []
    for i, row in enumerate(ROWS):
        if name in row.dtypes:
            seen[row.primitive] = seen.get(row.primitive, 0) + 1
            if name in EVERY or seen[row.primitive] <= 2:
                chosen.append((i, row))
    return chosen


CASES = [
    pytest.param(row, name, id=f"{name}-{row.primitive}{i}", marks=pytest.mark.xdist_group(f"structural-{name}"))
    for name in ALL
    for i, row in rows_of(name)
]

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("x64")]


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> Any:
    """From a dtype to the results of its selected rows: they are compiled at once."""
    selected: dict[str, list[Row]] = {}
    for item in request.session.items:
        if getattr(item, "originalname", "") == "test_compiled_rows_equal_the_reference":
            case = item.callspec.params  # type: ignore[attr-defined]
            selected.setdefault(case["name"], []).append(case["row"])

    @functools.cache
    def of_dtype(name: str) -> dict[int, Any]:
        chosen = selected[name]
        outs = results([(row.fun, row.cast(name)) for row in chosen])
        return {id(row): out for row, out in zip(chosen, outs, strict=True)}

    return of_dtype


@pytest.mark.parametrize(("row", "name"), CASES)
def test_compiled_rows_equal_the_reference(row: Row, name: str, compiled: Any) -> None:
    actual = compiled(name)[id(row)]
    if isinstance(actual, Exception):
        raise actual
    with numpy_evaluation():
        expected = row.fun(*row.cast(name))
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if not dtypes.issubdtype(expected.dtype, np.inexact):
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    expected = expected.astype(wide)
    finite = np.abs(expected[np.isfinite(expected)])
    tolerance = TOLERANCE[name]
    np.testing.assert_allclose(
        actual.astype(wide), expected, rtol=tolerance, atol=tolerance * np.max(finite, initial=1.0)
    )


@pytest.mark.parametrize("rows, count", [(5, 50), (1000, 20_000)])
def test_scatter_of_many_updates_compiles_and_its_tangent_has_the_same_winners(rows: int, count: int) -> None:
    """More updates than fit the stack that IREE allows a fused scatter; the last update of a row wins."""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, rows, (count, 1)).astype(np.int32)
    updates = rng.normal(size=count)
    expected = np.zeros(rows)
    expected[indices[:, 0]] = updates
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    fun = lambda u: lax.scatter(np.zeros(rows), indices, u, numbers)
    value, tangent = veery.jit(lambda u: veery.jvp(fun, (u,), (2 * u,)))(updates)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(tangent, 2 * expected)


@pytest.mark.parametrize("axis", [0, 1])  # the last is the host's, others are a network's
def test_the_largest_of_zeros_and_nans(axis: int) -> None:
    """NaN of either sign is largest, 0.0 is larger than -0.0, the first of equal ones comes first."""
    row = np.float32([-0.0, 0.0, np.nan, -1, -0.0, 0.0, -np.nan, 2])
    x = np.stack([row, row], 1 - axis)
    for dtype in ("float32", "float16", "bfloat16"):
        values, indices = veery.jit(lambda x: lax.top_k(x, 7, axis=axis))(x.astype(jnp.dtype(dtype)))
        assert np.moveaxis(np.asarray(indices), axis, 0)[:, 0].tolist() == [2, 6, 7, 1, 5, 0, 4]
        found = np.moveaxis(np.asarray(values), axis, 0)[:, 0].astype(np.float32)
        np.testing.assert_array_equal(found, np.float32([np.nan, np.nan, 2, 0, 0, 0, 0]))
        assert np.signbit(found[2:]).tolist() == [False, False, False, True, True]
        eager = lax.top_k(x.astype(jnp.dtype(dtype)), 7, axis=axis)[1]
        np.testing.assert_array_equal(np.asarray(eager), np.asarray(indices))
