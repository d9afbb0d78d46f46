"""Values that are written in part while something else reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax
from veery import numpy as jnp
from veery_lowering import compiler
from veery_lowering.updates import unordered_writes

X = np.linspace(0, 1, 40, dtype=np.float32).reshape(8, 5)
U = np.full((1, 5), 7, np.float32)
W = np.linspace(0, 1, 33, dtype=np.float32)


def written(y: Any, u: Any, i: Any) -> list[Any]:
    """What writes into a value."""
    return [lax.dynamic_update_slice(y, u, (i, 0)), y.at[jnp.array([1, 2]) + i].add(3), jnp.sort(y, 0), y.at[1].set(7)]


READ = {
    "itself": lambda y: y,
    "a view": lambda y: y.reshape(2, 20),
    "a product": lambda y: y @ y.T,
    "sums": lambda y: y.sum(0),
    "sums along": lambda y: jnp.cumsum(y, 0),
    "a row": lambda y: jnp.tanh(y[3]),
}


@pytest.mark.parametrize("number", range(4))
def test_what_is_read_is_not_written_before(number: int) -> None:
    """IREE puts what it computes at the same time as something else in front of what reads the old value."""
    for read in READ.values():

        def function(x: Any, u: Any, i: Any, w: Any) -> Any:
            y = x * 2
            return read(y), written(y, u, i)[number], jnp.cumsum(w)  # noqa: B023

        outs = veery.jit(function)(X, U, np.int32(3), W)
        for actual, expected in zip(outs, interpreted(function, X, U, np.int32(3), W), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def updated(x: Any, w: Any) -> Any:
    y = x * 2
    return y, y.at[1].set(7), jnp.cumsum(w)


def copies(fun: Any, *args: Any) -> int:
    module = veery.jit(fun).lower(*args)._lowered.module
    return len(unordered_writes(module.operation))


def test_copies_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, the pass can go."""
    veery.config.update("jax_enable_compilation_cache", False)
    monkeypatch.setattr(compiler, "part_updates", lambda module: None)
    y, *_ = veery.jit(updated)(X, W)
    assert (np.asarray(y)[1] == 7).all()


def test_what_only_the_update_needs_is_written_in_place() -> None:
    rows = lambda x: lax.fori_loop(1, 8, lambda i, y: y.at[i].set(jnp.tanh(y[i - 1])), x * 2)
    assert copies(rows, X) == copies(lambda x: (x * 2).at[1].set(7), X) == 0
    assert copies(updated, X, W) == 1


def test_behind_a_barrier_on_a_constant() -> None:
    def function(u: Any) -> Any:
        x = jnp.asarray(X)
        return lax.dynamic_update_slice(lax.optimization_barrier(x), u, (1, 0)), jnp.sort(x, 0)[::-1][::-1]

    updated, x = veery.jit(function)(U)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(updated, np.concatenate([X[:1], U, X[2:]]))


def test_in_a_versioned_module() -> None:
    """`updated`, as `jax.export` gives it."""
    path = Path(__file__).parents[1] / "aot/data/jax_0_10_update.mlirbc"
    y, z, sums = veery.stablehlo.load(path)(X, W)
    np.testing.assert_array_equal(y, X * 2)
    np.testing.assert_array_equal(z, np.concatenate([2 * X[:1], U, 2 * X[2:]]))
    np.testing.assert_allclose(sums, np.cumsum(W), rtol=1e-5)
