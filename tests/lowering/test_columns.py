"""Reductions of columns that depend on one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
from veery import numpy as jnp


def softmax(np_: Any, x: Any, axis: Any) -> Any:
    e = np_.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "normalised": lambda np_, x: (x - x.mean(0)) / np_.sqrt(x.var(0) + 1e-3),
    "softmax": lambda np_, x: softmax(np_, x, 0),
    "of the middle": lambda np_, x: softmax(np_, x.reshape(2, -1, x.shape[-1]), 1),
    "places": lambda np_, x: (x.argmax(0) + x.argmin(0) * 3).astype(np.float32),
    "deviations": lambda np_, x: np_.std(x, axis=0) + np_.std(x),
    "rows, too": lambda np_, x: softmax(np_, softmax(np_, x, 0), 1),
    "of pictures": lambda np_, x: (lambda y: (y - y.mean((0, 1))) / np_.sqrt(y.var((0, 1)) + 1e-3))(
        x.reshape(2, -1, x.shape[-1])
    ),
    "used again": lambda np_, x: (x.max(0), np_.log(np_.exp(x - x.max(0)).sum(0)), x.max(0)[::-1]),
}
SHAPES = [(6, 3), (100, 70), (2000, 20), (4100, 1), (64, 129), (300, 32), (30, 1000)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_columns(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    arrays.append(arrays[1].copy())
    arrays[-1][7, 5], arrays[-1][8, 9], arrays[-1][3, 2] = np.nan, np.inf, -np.inf
    found = results([(lambda x: PROGRAMS[name](jnp, x), (x,)) for x in arrays])
    for x, outs in zip(arrays, found, strict=True):
        assert not isinstance(outs, Exception), (x.shape, outs)
        with np.errstate(all="ignore"):
            right = PROGRAMS[name](np, x.astype(np.float64))
        for actual, expected in zip(veery.tree.leaves(outs), veery.tree.leaves(right), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-5, err_msg=str(x.shape))


@pytest.mark.parametrize(("shape", "dispatches"), [((100, 70), 2), ((1000, 20), 2), ((20, 7), 1), ((100, 64), 1)])
def test_which_are_parted(shape: tuple[int, int], dispatches: int) -> None:
    """One dispatch has the largest elements, another one the rest."""
    fun = lambda x: jnp.log(jnp.exp(x - x.max(0)).sum(0))
    jitted = veery.jit(fun, compiler_options={"kernels": False})
    text = jitted.lower(np.zeros(shape, np.float32)).as_text("flow")
    assert text.count("flow.dispatch @") == dispatches
