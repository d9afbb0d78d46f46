"""Every primitive compiled by XLA: values equal the NumPy references, in each dtype.

A compilation takes XLA a tenth of IREE's time, so that all rows of the tables are compiled in all of their dtypes;
VEERY_TEST_SHARE=5 compiles a fifth of them, another one each day.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from primitives import table_elementwise as elementwise, table_structural as structural
from primitives.test_structural_compiled import TOLERANCE
from support.compiled import assert_close, results
from support.days import of_the_day
from support.numpy_trace import numpy_evaluation

from veery._core import dtypes

pytestmark = pytest.mark.usefixtures("x64")

_AT_ONCE = 40  # functions in a module: XLA's time grows faster than their number

# XLA's own functions err by more than the tables allow for ours: so many units in the last place of the result, or of
# 1 where the result is smaller.
_ULPS = {
    "sinh": 16,
    "cosh": 16,
}


def _pieces(cases: list[Any]) -> list[Any]:
    return [cases[i : i + _AT_ONCE] for i in range(0, len(cases), _AT_ONCE)]


def _grouped(name: str, cases: list[Any], what: str) -> list[Any]:
    return [
        pytest.param(name, piece, id=f"{name}-{i}", marks=pytest.mark.xdist_group(f"xla-{what}-{name}"))
        for i, piece in enumerate(_pieces(cases))
    ]


ELEMENTWISE = [
    each
    for name in elementwise.ALL
    for each in _grouped(
        name,
        [(row, params) for row in elementwise.ROWS if name in row.dtypes for params in row.params],
        "elementwise",
    )
]
STRUCTURAL = [
    each
    for name in structural.ALL
    for each in _grouped(name, [row for row in structural.ROWS if name in row.dtypes], "structural")
]


@pytest.mark.parametrize(("name", "cases"), of_the_day(ELEMENTWISE))
def test_elementwise_values_by_xla(name: str, cases: list[Any], on_xla: Any) -> None:
    dtype = elementwise.dtype_of(name)
    calls = [
        (functools.partial(row.primitive.bind, **params), elementwise.samples(row, dtype)) for row, params in cases
    ]
    wrong = []
    for (row, params), (_, operands), actual in zip(cases, calls, results(calls), strict=True):
        expected = row.primitive.reference(*operands, **params)
        try:
            if isinstance(actual, Exception):
                raise actual
            _assert_near(row, name, actual, expected, operands)
        except Exception as error:
            wrong.append(f"{row.name} {params}: {error}")
    assert not wrong, "\n".join(wrong)


def _assert_near(row: elementwise.Row, name: str, actual: Any, expected: Any, operands: Any) -> None:
    ulps = _ULPS.get(row.name)
    if ulps is None or not elementwise.is_float(expected.dtype):
        assert_close(actual, expected, row.ulps_in(name), operands)
        return
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    bound = ulps * float(ml_dtypes.finfo(expected.dtype).eps)
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=bound, atol=bound)


@pytest.mark.parametrize(("name", "rows"), of_the_day(STRUCTURAL))
def test_structural_values_by_xla(name: str, rows: list[Any], on_xla: Any) -> None:
    outs = results([(row.fun, row.cast(name)) for row in rows])
    wrong = []
    for row, actual in zip(rows, outs, strict=True):
        try:
            if isinstance(actual, Exception):
                raise actual
            with numpy_evaluation():
                expected = row.fun(*row.cast(name))
            _assert_equal(name, actual, expected)
        except Exception as error:
            wrong.append(f"{row.primitive}: {error}")
    assert not wrong, "\n".join(wrong)


def _assert_equal(name: str, actual: Any, expected: Any) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if not dtypes.issubdtype(expected.dtype, np.inexact):
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    expected = expected.astype(wide)
    finite = np.abs(expected[np.isfinite(expected)])
    tolerance = TOLERANCE[name]
    scale = np.max(finite, initial=1.0)
    np.testing.assert_allclose(actual.astype(wide), expected, rtol=tolerance, atol=tolerance * scale)
