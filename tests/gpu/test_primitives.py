"""Primitives compiled for a GPU: values equal the NumPy references, one row a primitive and dtype."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from primitives import table_elementwise as elementwise, table_structural as structural
from support.compiled import assert_close, results
from support.days import of_the_day
from support.features import has
from support.numpy_trace import numpy_evaluation

import veery
from veery import lax

DTYPES = ("float32", "int32", "bool", "float16")
TOLERANCE = {"float32": 1e-5, "float16": 4e-3}
# In half precision what is computed in float32 anyway is not compiled again.
_HALF = frozenset(
    "add sub mul div neg abs max min floor sqrt exp tanh dot_general reduce_sum reduce_max select_n".split()
)
# Long series of operations that are all tried in others too: their compilation takes as long as that of all the rest.
_LONG = frozenset(
    "igamma igammac igamma_grad_a random_gamma_grad regularized_incomplete_beta polygamma zeta bessel_i0e"
    " bessel_i1e".split()
)


def _chosen(rows: Any, name: str, primitive_of: Callable[[Any], str]) -> list[Any]:
    """The first row of each primitive that takes a dtype."""
    found: dict[str, Any] = {}
    for row in rows:
        if name in row.dtypes and (name != "float16" or primitive_of(row) in _HALF):
            found.setdefault(primitive_of(row), row)
    return list(found.values())


def _elementwise_rows(name: str) -> list[elementwise.Row]:
    return [
        row
        for row in _chosen(elementwise.ROWS, name, lambda row: row.name)
        if (row.compiled is None or name in row.compiled) and row.name not in _LONG
    ]


def _structural_rows(name: str) -> list[structural.Row]:
    return _chosen(structural.ROWS, name, lambda row: row.primitive)


def _params(row: elementwise.Row) -> dict[str, Any]:
    """The first parameters that stay within 32 bits."""
    fits = [p for p in row.params if not {"int64", "float64", "bfloat16"} & {str(v) for v in p.values()}]
    return (fits or list(row.params))[0]


ELEMENTWISE = [
    pytest.param(row, name, id=f"{name}-{row.name}", marks=pytest.mark.xdist_group(f"gpu-elementwise-{name}"))
    for name in DTYPES
    for row in _elementwise_rows(name)
]
STRUCTURAL = [
    pytest.param(row, name, id=f"{name}-{row.primitive}", marks=pytest.mark.xdist_group(f"gpu-structural-{name}"))
    for name in DTYPES
    for row in _structural_rows(name)
]


def _selected(request: pytest.FixtureRequest, test: str, name: str, gpu: Any) -> list[Any]:
    """The rows of a test that are to run in a dtype on a GPU."""
    items = [item for item in request.session.items if getattr(item, "originalname", "") == test]
    cases = [item.callspec.params for item in items]  # type: ignore[attr-defined]
    return [case["row"] for case in cases if (case["name"], case["gpu"]) == (name, gpu.platform)]


@pytest.fixture(scope="module")
def elementwise_results(request: pytest.FixtureRequest) -> Any:
    """From a dtype and a GPU to the results of its selected rows, compiled at once."""

    @functools.cache
    def of_dtype(name: str, gpu: Any) -> dict[str, Any]:
        dtype = elementwise.dtype_of(name)
        rows = _selected(request, "test_elementwise_values_equal_the_reference", name, gpu)
        calls = [
            (functools.partial(row.primitive.bind, **_params(row)), elementwise.samples(row, dtype)) for row in rows
        ]
        return {row.name: out for row, out in zip(rows, results(calls), strict=True)}

    return of_dtype


@pytest.fixture(scope="module")
def structural_results(request: pytest.FixtureRequest) -> Any:
    """As `elementwise_results`."""

    @functools.cache
    def of_dtype(name: str, gpu: Any) -> dict[str, Any]:
        rows = _selected(request, "test_structural_values_equal_the_reference", name, gpu)
        outs = results([(row.fun, row.cast(name)) for row in rows])
        return {row.primitive: out for row, out in zip(rows, outs, strict=True)}

    return of_dtype


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize(("row", "name"), of_the_day(ELEMENTWISE, 2))
def test_elementwise_values_equal_the_reference(
    row: elementwise.Row, name: str, elementwise_results: Any, on_gpu: Any
) -> None:
    _skip_without(on_gpu, name)
    actual = elementwise_results(name, on_gpu)[row.name]
    if isinstance(actual, Exception):
        raise actual
    operands = elementwise.samples(row, elementwise.dtype_of(name))
    expected = row.primitive.reference(*operands, **_params(row))
    assert_close(actual, expected, row.ulps_in(name) + 1, operands)


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize(("row", "name"), of_the_day(STRUCTURAL, 2))
def test_structural_values_equal_the_reference(
    row: structural.Row, name: str, structural_results: Any, on_gpu: Any
) -> None:
    _skip_without(on_gpu, name)
    actual = structural_results(name, on_gpu)[row.primitive]
    if isinstance(actual, Exception):
        raise actual
    with numpy_evaluation():
        expected = np.asarray(row.fun(*row.cast(name)))
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if name not in TOLERANCE or expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    expected = expected.astype(wide)
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
    tolerance = TOLERANCE[name]
    np.testing.assert_allclose(actual.astype(wide), expected, rtol=tolerance, atol=tolerance * scale)


def _skip_without(device: Any, name: str) -> None:
    if name == "float16" and not has(device, "fp16"):
        pytest.skip(f"{device.device_kind} does not compute with float16")


def _spread(row: elementwise.Row, dtype: Any) -> tuple[np.ndarray, ...]:
    """The samples of a row as arrays of 64 elements, which lanes of one element each compute."""
    return tuple(np.resize(x, 64) for x in np.broadcast_arrays(*elementwise.samples(row, dtype)))


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_integers_of_every_width_in_vectors_of_one_element(on_gpu: Any) -> None:
    """Of which IREE compiles no unsigned division, and makes one of a division of what is not negative."""
    names = [f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in ("int", "uint")]
    rows = [row for row in elementwise.ROWS if row.name in ("clz", "div", "population_count", "rem")]
    with veery.enable_x64(True):
        cases = [(row, elementwise.dtype_of(name)) for name in names for row in rows if name in row.dtypes]
        outs = results([(row.primitive.bind, _spread(row, dtype)) for row, dtype in cases])
    for (row, dtype), out in zip(cases, outs, strict=True):
        assert not isinstance(out, Exception), out
        operands = _spread(row, dtype)
        assert_close(out, row.primitive.reference(*operands), 0, operands)


def test_divisions_of_what_is_not_negative(on_gpu: Any) -> None:
    x, y = np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int32) * 5
    parts = lambda x, y: (x & 77, y & 7 | 1)
    both = lambda x, y: operator.floordiv(*parts(x, y)) + operator.mod(*parts(x, y))
    compiled = veery.jit(both).lower(x, y).compile()
    assert "fallback" not in compiled._program.metadata
    np.testing.assert_array_equal(compiled(x, y), both(x, y))


def test_remainders_of_float32_in_vectors_of_one_element(on_gpu: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(64) * 10.0 ** rng.integers(-30, 38, 64) for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    (actual,) = results([(lax.rem, (x, y))])
    np.testing.assert_array_equal(actual, np.fmod(x, y))
