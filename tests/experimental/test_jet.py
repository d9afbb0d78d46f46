"""`experimental.jet` beside JAX 0.10.2 (recorded/jet.json), and beside first derivatives taken again and again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases_jet import CASES
from support.numpy_trace import numpy_evaluation
from support.recorded import check, read

import veery
import veery.numpy as jnp
from veery import lax
from veery.experimental.jet import jet, jet2

RECORDED = read(Path(__file__).with_name("recorded") / "jet.json")


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    with numpy_evaluation():
        check(veery, CASES[name], RECORDED[name], rtol=2e-5, atol=2e-5)


# Of these JAX has no rules.
FUNCTIONS = {
    "scan": lambda x: lax.scan(lambda c, y: (jnp.sin(c * y) + x, c), x, jnp.arange(1.0, 4.0))[1].sum(),
    "scan over what varies": lambda x: lax.scan(lambda c, y: (c + 1, y * y * c), 0, jnp.stack([x, x * x]))[1].sum(),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * jnp.cos(x * c[1])), (0, x))[1],
    "cond": lambda x: lax.cond(x > 0.1, lambda x: jnp.sin(x) * x, lambda x: x, x),
    "sort": lambda x: (jnp.sort(jnp.stack([x * x, x, jnp.cos(x)])) * jnp.arange(3.0)).sum(),
    "tan": jnp.tan,
    "arctan2": lambda x: jnp.arctan2(x * x, jnp.sin(x) + 1),
    "lgamma": lambda x: lax.lgamma(x + 1),
    "gather": lambda x: jnp.stack([x, x * x, x**3])[jnp.array([2, 0])].prod(),
    "update": lambda x: lax.dynamic_update_slice(jnp.ones(3) * x, jnp.stack([jnp.sin(x)]), (1,)).prod(),
    "solve": lambda x: jnp.linalg.solve(jnp.array([[2.0, 1.0], [1.0, 3.0]]) + x * jnp.eye(2), jnp.ones(2) * x)[0],
    "det": lambda x: jnp.linalg.det(jnp.array([[2.0, 1.0], [1.0, 3.0]]) * jnp.sin(x) + jnp.eye(2)),
    "checkpoint": lambda x: veery.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x),
    "relu": lambda x: veery.nn.relu(jnp.sin(x)) ** 2,
    "softplus": veery.nn.softplus,
    "fft": lambda x: jnp.abs(jnp.fft.fft(jnp.stack([x, x * x, jnp.exp(x), 1.0]))[1]),
    "convolution": lambda x: jnp.convolve(jnp.stack([x, x * x, 1.0]), jnp.stack([jnp.sin(x), x]))[1],
    "zero at zero": lambda x: (x - 0.7) ** 3 + (x - 0.7) ** 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_series_are_derivatives_again_and_again(name):
    fun = FUNCTIONS[name]
    with veery.enable_x64(True), numpy_evaluation():
        x = jnp.asarray(0.7)
        value, terms = jet(fun, (x,), ([1.0, 0.0, 0.0, 0.0],))
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        for term in terms:
            previous = fun
            fun = lambda x, f=previous: veery.jvp(f, (x,), (jnp.ones_like(x),))[1]
            np.testing.assert_allclose(term, fun(x), rtol=1e-9, atol=1e-9)


def test_curves_are_composed():
    """The series of f(g(s)) is that of f along the series of g."""
    with veery.enable_x64(True), numpy_evaluation():
        inner = lambda s: jnp.sin(s) + s**3
        x, series = jet2(inner, (0.3,), ([1.0, 0.0, 0.0, 0.0],))
        together = jet2(lambda s: jnp.exp(inner(s)), (0.3,), ([1.0, 0.0, 0.0, 0.0],))
        for a, b in zip(veery.tree.leaves(jet2(jnp.exp, (x,), (series,))), veery.tree.leaves(together)):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.compiler
def test_compiled():
    f = lambda x: jnp.tanh(x) / (1 + x)
    x = jnp.float32(0.5)
    eager = jet(f, (x,), ([1.0, 0.0, 0.0],))
    compiled = veery.jit(lambda x: jet(f, (x,), ([1.0, 0.0, 0.0],)))(x)
    for a, b in zip(veery.tree.leaves(eager), veery.tree.leaves(compiled)):
        np.testing.assert_allclose(a, b, rtol=1e-5)
