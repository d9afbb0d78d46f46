"""The functions of the table compiled, in float32: values and gradients. Batches, and traces under strict settings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from smooth_functions import SMOOTH
from support.compiled import results
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp

GROUP = 6  # functions in a compilation: one of all 50 takes 109 s, these together 31
# Their derivatives are functions of matrices that a float32 product does not tell from singular ones.
LOOSE = {"eigh_tridiagonal": 1e-3, "sqrtm": 1e-3, "sqrtm-complex": 1e-3, "solve_sylvester": 1e-2}


def narrow(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)


def with_gradient(name: str) -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """A function that gives the table's value and the gradient of a sum of squares."""
    fun, operands = SMOOTH[name]

    def evaluated(x: Any, *rest: Any) -> Any:
        square = lambda x: jnp.sum(jnp.square(jnp.abs(fun(x, *rest))))
        return fun(x, *rest), veery.grad(square)(x)

    return evaluated, operands


@functools.cache
def compiled(group: int) -> dict[str, Any]:
    """The results of some functions, from one compilation."""
    names = list(SMOOTH)[group * GROUP : (group + 1) * GROUP]
    calls = {name: with_gradient(name) for name in names}
    outs = results([(fun, tuple(map(narrow, operands))) for fun, operands in calls.values()])
    return dict(zip(calls, outs))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "group"),
    [
        pytest.param(name, i // GROUP, marks=pytest.mark.xdist_group(f"scipy-compiled-{i // GROUP}"), id=name)
        for i, name in enumerate(SMOOTH)
    ],
)
def test_compiled_as_in_double_precision(name: str, group: int) -> None:
    actual = compiled(group)[name]
    if isinstance(actual, Exception):
        raise actual
    fun, operands = with_gradient(name)
    with veery.enable_x64(True), numpy_evaluation():
        expected = fun(*operands)
    for ours, theirs in zip(actual, expected, strict=True):
        theirs = np.asarray(theirs)
        assert ours.dtype == narrow(theirs).dtype
        tolerance = LOOSE.get(name, 1e-4) * max(1.0, np.max(np.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("name", SMOOTH)
def test_batches_are_loops(name: str, x64: None, references: Any) -> None:
    fun, (x, *rest) = SMOOTH[name]
    batch = np.stack([x, 1.1 * x])
    outs = veery.vmap(lambda x: fun(x, *rest))(batch)
    for out, single in zip(outs, batch, strict=True):
        np.testing.assert_allclose(out, fun(single, *rest), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
def test_no_implicit_promotion_within(name: str) -> None:
    fun, operands = with_gradient(name)
    operands = tuple(map(narrow, operands))
    batched = veery.vmap(SMOOTH[name][0], in_axes=(0, *[None] * (len(operands) - 1)))
    with veery.numpy_rank_promotion("raise"), veery.numpy_dtype_promotion("strict"):
        veery.make_jaxpr(fun)(*operands)
        veery.make_jaxpr(batched)(operands[0][None], *operands[1:])
