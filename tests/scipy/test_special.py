"""Special functions against SciPy: values compiled in each dtype, and eagerly; derivatives; batches; refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from special_table import ROWS, Row
from support.compiled import assert_close, results
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_forward, check_second_order

import veery
from veery.scipy import special

DTYPES = {"float32": np.float32, "float64": np.float64, "bfloat16": ml_dtypes.bfloat16}
# Their results have no samples that a row could hold: they are tested by themselves.
ELSEWHERE = {"logsumexp", "softmax", "log_softmax"}
by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def expected(row: Row, operands: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """What SciPy gives in float64, rounded once."""
    outs = row.reference(*(x.astype(np.float64) for x in operands))
    return [np.asarray(out).astype(operands[0].dtype) for out in (outs if isinstance(outs, tuple) else (outs,))]


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[str, str], Any]:
    """The results of all rows in each dtype, from one compilation a dtype."""
    found = {}
    with veery.enable_x64(True):
        for dtype, scalar in DTYPES.items():
            outs = results([(getattr(special, row.name), row.operands(scalar)) for row in ROWS])
            found |= {(row.name, dtype): out for row, out in zip(ROWS, outs, strict=True)}
    return found


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", DTYPES)
@by_name
def test_values(row, dtype, compiled):
    outs = compiled[row.name, dtype]
    if isinstance(outs, Exception):
        raise outs
    ulps = {"float32": row.ulps[0], "float64": row.ulps[1], "bfloat16": 1}[dtype]
    operands = row.operands(DTYPES[dtype])
    for actual, wanted in zip(outs if isinstance(outs, tuple) else (outs,), expected(row, operands), strict=True):
        assert_close(actual, wanted, ulps, operands)


@by_name
def test_derivatives(row, x64):
    fun = getattr(special, row.name)
    samples = [np.asarray(x, np.float64).ravel() for x in row.samples]
    with numpy_evaluation():
        for part in parts(fun, samples):
            check_forward(part, samples, row.smooth, row.slack)
            check_backward(part, samples, row.smooth)
            check_second_order(part, [x[:6] for x in samples], row.smooth, 10 * row.slack)


def parts(fun: Any, samples: list[np.ndarray]) -> list[Any]:
    """The function, or for each of its results the function that gives this one."""
    outs = fun(*samples)
    return [lambda *xs, i=i: fun(*xs)[i] for i in range(len(outs))] if isinstance(outs, tuple) else [fun]


def test_every_function_has_a_row():
    names = {name for name in dir(special) if not name.startswith("_")}
    assert names - {row.name for row in ROWS} == ELSEWHERE


def test_softmax_is_over_all_axes():
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(special.softmax(x), scipy.special.softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x), scipy.special.log_softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.softmax(x, axis=1), scipy.special.softmax(x, axis=1), rtol=1e-6)
    assert special.logsumexp is veery.nn.logsumexp


@pytest.mark.parametrize("name", ["entr", "kl_div", "logit"])
def test_complex_numbers_are_refused(name):
    fun = getattr(special, name)
    count = 2 if name == "kl_div" else 1
    with pytest.raises(ValueError, match=f"{name} does not support complex-valued inputs"):
        fun(*[np.complex64(1)] * count)


def test_modules_are_imported_when_they_are_used():
    assert "special" in dir(veery.scipy) and veery.scipy.special is special
    with pytest.raises(AttributeError, match="module 'veery.scipy' has no attribute 'specials'"):
        _ = veery.scipy.specials
