"""Polynomials by eigenvalues and least squares, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_forward

import veery
import veery.numpy as jnp
from veery._core.config import enable_x64


@pytest.fixture(autouse=True)
def references() -> Any:
    with enable_x64(True), numpy_evaluation() as trace:
        yield trace


_rng = np.random.default_rng(3)
_x = np.linspace(-1, 2, 9)
_y, _w = _rng.normal(size=(9, 2)), _rng.uniform(0.5, 2, 9)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.RankWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.polyfit(_x, _y, 3),
        lambda m: m.polyfit(_x, _y[:, 0], 2, full=True),
        lambda m: m.polyfit(_x, _y[:, 0], 2, w=_w, cov=True),
        lambda m: m.polyfit(_x, _y, 2, w=_w, cov=True),
        lambda m: m.polyfit(_x, _y[:, 0], 2, cov="unscaled"),
        lambda m: m.polyfit(_x, _y[:, 0] * 1j, 0),
        lambda m: m.polyfit(_x, _y[:, 0], 2, rcond=0.5)[:2],
        lambda m: m.poly(np.array([[2.0, 1.0], [1.0, 2.0]])),
        lambda m: m.poly(np.array([[1.0, 1j], [0.5, 2.0]])),
    ],
)
def test_values_are_numpys(call: Callable[[Any], Any]) -> None:
    actual, expected = call(jnp), call(np)
    for a, e in zip(*(x if isinstance(x, tuple) else (x,) for x in (actual, expected)), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-12)


def test_roots() -> None:
    ordered = lambda x: np.sort_complex(np.asarray(x))
    for p in ([1.0, -3, 2], [0, 0, 1, -3, 2, 0], [2.0, 0, 1], [1j, 2, 3, 4], [5.0], [], [0.0, 0], [0, 3.0]):
        p = np.array(p)
        np.testing.assert_allclose(ordered(jnp.roots(p)), ordered(np.roots(p)), atol=1e-12)
        assert jnp.roots(p).dtype == np.complex128
    kept = np.asarray(jnp.roots(np.array([0, 1, -3, 2, 0.0]), strip_zeros=False))
    np.testing.assert_allclose(ordered(kept[:3]), [0, 1, 2], atol=1e-12)
    assert np.isnan(kept[3])
    assert np.isnan(np.asarray(jnp.roots(np.zeros(3), strip_zeros=False))).all()


def test_a_number_is_the_only_zero_of_a_polynomial() -> None:
    for zero in (3, 3.0, np.float32(3), jnp.array(3)):
        assert jnp.poly(zero).tolist() == [1.0, -3.0]


def test_derivatives() -> None:
    check = lambda fun, *xs: (check_forward(fun, xs, range(len(xs)), 1e-5), check_backward(fun, xs, range(len(xs))))
    check(lambda x, y: jnp.polyfit(x, y, 2), _x, _y[:, 0])
    check(jnp.roots, np.array([2.0, -7.0, 3.0]))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jnp.polyfit(_x, _y, -1), ValueError, "expected deg >= 0"),
        (lambda: jnp.polyfit(_y, _y, 1), TypeError, "expected 1D vector for x"),
        (lambda: jnp.polyfit(_x[:0], _x[:0], 1), TypeError, "expected non-empty vector for x"),
        (lambda: jnp.polyfit(_x, _y[None], 1), TypeError, "expected 1D or 2D array for y"),
        (lambda: jnp.polyfit(_x, _y[:3], 1), TypeError, "expected x and y to have same length"),
        (lambda: jnp.polyfit(_x, _x, 1, w=_y), TypeError, "expected a 1-d array for weights"),
        (lambda: jnp.polyfit(_x, _x, 1, w=_x[:3]), TypeError, "expected w and y to have the same length"),
        (lambda: jnp.polyfit(_x[:3], _x[:3], 2, cov=True), ValueError, "number of data points must exceed order"),
        (lambda: jnp.roots(np.ones((2, 2))), ValueError, "Input must be a rank-1 array"),
        (lambda: veery.make_jaxpr(jnp.roots)(np.ones(3)), veery.errors.ConcretizationTypeError, "concrete value"),
        (lambda: jnp.poly(np.ones((1, 2))), ValueError, "input must be 1d or non-empty square 2d array"),
    ],
)
def test_errors_have_type_and_words(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
