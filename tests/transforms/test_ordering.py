"""Tokens, sinks, composites and values as part of a trace."""

from __future__ import annotations

import numpy as np
import pytest

import veery
from veery import lax

X = np.array([0.3, -1.2], np.float32)


def test_a_sink_keeps_what_nothing_reads(in_numpy):
    def f(x):
        lax.dce_sink({"a": lax.sin(x), "b": lax.cos(x)})
        return lax.mul(x, x)

    def kept(fun, *args):
        return str(veery.make_jaxpr(veery.jit(fun))(*args)).count("dce_sink")

    assert kept(f, X) == 2
    assert kept(veery.vmap(f), X) == 2
    assert kept(veery.grad(lambda x: lax.reduce_sum(f(x), (0,))), X) == 2
    assert kept(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0], X) == 2
    np.testing.assert_allclose(veery.grad(lambda x: lax.reduce_sum(f(x), (0,)))(X), 2 * X)


def test_tokens(in_numpy):
    first = lax.create_token()
    assert lax.after_all(first, lax.create_token(first)).shape == lax.after_all().shape == (0,)
    assert veery.jit(lambda x: (lax.after_all(lax.create_token()), x)[1])(X).shape == (2,)


def test_composite(in_numpy):
    scaled = lax.composite(lambda x, y, *, k: {"out": lax.add(x * k, y)}, "my.scaled", version=2)
    np.testing.assert_allclose(scaled(X, X, k=3.0)["out"], 4 * X, rtol=1e-6)
    assert "name=my.scaled" in str(veery.make_jaxpr(lambda x: scaled(x, x, k=2.0))(X))
    np.testing.assert_allclose(veery.vmap(lambda x: scaled(x, np.float32(1), k=2.0)["out"])(X), 2 * X + 1, rtol=1e-6)
    assert veery.grad(lambda x: scaled(x, np.float32(1), k=2.0)["out"])(np.float32(0.5)) == 2


def test_stage(in_numpy):
    np.testing.assert_array_equal(lax.stage(X), X)
    seen = []
    veery.make_jaxpr(lambda: seen.append(lax.stage(2)))()
    assert isinstance(seen[0], veery.core.Tracer)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        lax.stage("two")


def test_shape_as_value(in_numpy):
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3] and lax.shape_as_value(()).shape == (0,)


@pytest.mark.compiler
def test_shape_as_value_of_symbolic_sizes():
    f = veery.jit(lambda x: lax.shape_as_value((*x.shape, 7)), dynamic_shapes={"x": "n, m"})
    assert f(np.ones((2, 5), np.float32)).tolist() == [2, 5, 7]
