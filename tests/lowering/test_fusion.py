"""Reductions of which several may be one dispatch: rows and columns, sums that others need, chains along rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from support.compiled import results

import veery
from veery import lax, nn, numpy as jnp
from veery_lowering.mlir import context, ir
from veery_lowering.targets.fusion import is_rowwise

SHAPES = [(1, 3), (7, 7), (5, 13), (33, 33)]


def degrees(np_: Any, a: Any) -> Any:
    d = a.sum(1) ** -0.5
    return d[:, None] * a * (d if a.shape[0] == a.shape[1] else 1)


def in_turn(np_: Any, a: Any) -> Any:
    for _ in range(3):
        a = a / a.sum(1, keepdims=True)
        a = a / a.sum(0)
    return a


def shared_scalar(np_: Any, a: Any) -> Any:
    scale = 1 / a.sum()
    return scale * a + (scale * a * a).sum(1, keepdims=True)


def log_softmax(np_: Any, a: Any, axis: int) -> Any:
    return nn.log_softmax(a, axis) if np_ is jnp else scipy.special.log_softmax(a, axis)


def contrastive(np_: Any, a: Any) -> Any:
    rows, columns = log_softmax(np_, a, 0), log_softmax(np_, a, 1)
    return (rows * a).sum() + (columns * a).sum() + 0 * a


def standardised(np_: Any, a: Any) -> Any:
    return (a - a.mean(1, keepdims=True)) / np_.sqrt(a.var(1, keepdims=True) + 0.1)


# Of NumPy or veery.numpy, and an array of positive numbers.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "degrees of a graph": degrees,
    "rows and columns in turn": in_turn,
    "a scalar that rows need": shared_scalar,
    "rows and columns at once": contrastive,
    "rows": lambda np_, a: log_softmax(np_, a, 1),
    "rows twice": lambda np_, a: standardised(np_, log_softmax(np_, a, 1)),
    "columns": lambda np_, a: log_softmax(np_, a, 0) + a.max(0),
    "a sum of rows' results": lambda np_, a: a / a.sum(1, keepdims=True) * (a / a.sum(1, keepdims=True)).sum(),
}


def test_values() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.5, 2, shape).astype(np.float32) for shape in SHAPES]
    for fun, a in itertools.product(FUNCTIONS.values(), arrays):  # a program each: all that is in it may be fused
        expected = fun(np, a.astype(np.float64))
        (actual,) = results([(lambda x, fun=fun: fun(jnp, x), (a,))])
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(4,), (5, 7), (2, 2, 1)])
def test_sums_of_what_is_computed_from_constants_alone(shape: tuple[int, ...]) -> None:
    def sums() -> list[Any]:
        ones = jnp.ones(shape)
        third = ones * (jnp.float32(1) / 3)
        values = [ones / 2, jnp.exp(ones), third, jnp.where(ones > 0, ones / 2, 0), ones > ones / 2]
        return [f(x) for x in values for f in (jnp.sum, lambda x: x.sum(0), jnp.mean)]

    rights = [np.full(shape, v) for v in (0.5, np.exp(1), 1 / 3, 0.5, 1)]
    expected = [f(x) for x in rights for f in (np.sum, lambda x: x.sum(0), np.mean)]
    for actual, right in zip(veery.jit(sums)(), expected, strict=True):
        np.testing.assert_allclose(actual, right, rtol=1e-6)


def test_reductions_from_several_complex_numbers() -> None:
    """IREE computes them at once when it loads the program, and takes them for one."""
    x = np.array([[1 + 2j, 3 - 1j], [2j, 1 + 1j]], np.complex64)
    zero, one = np.complex64(0), np.complex64(1)
    both = lambda a, b: (a[0] * b[0], a[1] + b[1])
    product, total = veery.jit(lambda x: lax.reduce((x, x), (one, zero), both, (0,)))(x)
    np.testing.assert_allclose([product, total], [x.prod(0), x.sum(0)], rtol=1e-6)
    starts = lambda: (jnp.complex64(0) + 0, jnp.complex64(1) * 1)
    apart = lambda x, s: (lax.reduce(x, s[0], lax.add, (0,)), lax.reduce(x, s[1], lax.mul, (0,)))
    total, product = veery.jit(lambda x: apart(x, starts()))(x)
    np.testing.assert_allclose([product, total], [x.prod(0), x.sum(0)], rtol=1e-6)


def test_value_and_gradient_of_a_contrastive_loss() -> None:
    def loss(x: Any) -> Any:
        diagonal = jnp.eye(x.shape[0])
        return -jnp.sum(diagonal * nn.log_softmax(x, 0)) - jnp.sum(diagonal * nn.log_softmax(x, 1))

    x = np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32)
    value, gradient = veery.jit(veery.value_and_grad(loss))(x)
    wide = x.astype(np.float64)
    expected = -np.trace(scipy.special.log_softmax(wide, 0)) - np.trace(scipy.special.log_softmax(wide, 1))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    slopes = scipy.special.softmax(wide, 0) + scipy.special.softmax(wide, 1) - 2 * np.eye(7)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_chains_along_rows_are_recognised(name: str) -> None:
    text = veery.jit(lambda a: FUNCTIONS[name](jnp, a)).lower(jnp.ones((5, 5))).as_text()
    with context():
        assert is_rowwise(ir.Module.parse(text)) == (name in ("rows", "rows twice", "columns"))


def test_chains_along_rows_are_one_dispatch_whether_locations_are_shown_or_not() -> None:
    lowered = veery.jit(lambda a: FUNCTIONS["rows twice"](jnp, a)).lower(jnp.ones((5, 5)))
    plain, located = (lowered.as_text("flow", debug_info=shown) for shown in (False, True))
    assert plain.count("flow.dispatch @") == located.count("flow.dispatch @") == 1
    assert (Path(__file__).name in plain, Path(__file__).name in located) == (False, True)
