"""Symbolic shapes on a GPU: one program for many sizes, those too at which its drivers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp
from veery import lax, nn

rng = np.random.default_rng(0)
W = rng.standard_normal((5, 8)).astype(np.float32)
MIX = (rng.standard_normal((5, 5)) / 3).astype(np.float32)


def network(x: Any) -> Any:
    """A layer, normalised; and its gradient, which sums a negation: IREE finds no neutral element of a difference."""

    def loss(x: Any) -> Any:
        h = jnp.tanh(x @ W)
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        return (h[:, :3] ** 2).mean()

    return veery.value_and_grad(loss)(x), jnp.argmax(x, 1), jnp.sin(x) @ x.T, (-(x @ W)).sum(1)


def indexing(x: Any) -> Any:
    """Gathers and scatters, two of which start from one array."""
    which, best = (jnp.abs(x[:, 0]) * 3).astype(int), jnp.argmax(x, 1)
    taken = jnp.take_along_axis(x, best[:, None], 1)
    return taken, x.at[jnp.arange(x.shape[0]), best].set(0), x.at[which].mul(2), jnp.sort(x, 1)


def recurrent(x: Any) -> Any:
    step = lambda h, row: ((new := jnp.tanh(row + h @ MIX)), new.sum(-1))
    return lax.scan(step, jnp.zeros(5), x), jnp.cumsum(x, 0)


def joined(x: Any) -> Any:
    """Columns and rows of one array, as they are and computed."""
    return (
        jnp.concatenate([x[:, :2] + 1, x[:, 1:2], x[:, 3:4]], 1),
        jnp.concatenate([x[:, 1:3], x[:, 3:5], x[:, 2:4] * 2], 0),
        lax.associative_scan(jnp.add, x, axis=1),
        jnp.stack([x[:, 1], x[:, 3]], 1).view(np.uint32) & 255,
    )


def attention(x: Any) -> Any:
    """A product over a symbolic length of what was computed over that length."""
    return nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None])


@pytest.mark.parametrize("function", [network, indexing, recurrent, joined, attention])
def test_one_program_for_all_sizes(function: Callable[..., Any], on_gpu: Any) -> None:
    compiled = veery.jit(lambda x: function(x), dynamic_shapes={"x": "b, ..."})
    for b in (1, 7, 40):
        x = rng.standard_normal((b, 5)).astype(np.float32)
        given = jnp.asarray(x)
        got = veery.tree.leaves(compiled(given))
        with numpy_evaluation():
            wanted = veery.tree.leaves(function(jnp.asarray(x)))
        for out, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-4, err_msg=f"b = {b}")
        np.testing.assert_array_equal(given, x)
    assert compiled._cache_size() == 1


def test_long_sums(on_gpu: Any) -> None:
    """llvmpipe ends the loops of a shader after 65535 rounds."""
    compiled = veery.jit(lambda x: (x.sum(), x @ x, jnp.argmax(x), x.astype(int).min()), dynamic_shapes={"x": "n"})
    for n in (3, 100_003):
        x = np.ones(n, np.float32)
        x[-2] = 2
        assert list(map(float, compiled(x))) == [n + 1, n + 3, n - 2, 1]
