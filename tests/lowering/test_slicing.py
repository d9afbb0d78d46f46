"""Static and dynamic slices: starts are clamped, whatever their dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.interpreted import interpreted
from support.jaxpr_graphs import Graph, Literal

import veery
from veery import lax, numpy as jnp

RNG = np.random.default_rng(0)
X = np.arange(35, dtype=np.float32).reshape(7, 5)
INDEX_DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_dynamic_starts_are_clamped(dtype: type) -> None:
    g = Graph()
    x, u = g.input(X), g.input(-np.ones((3, 2), np.float32))
    starts = (0, 3, 4, 5, 100, np.iinfo(dtype).max, np.iinfo(dtype).min)
    for start in starts:
        i, j = g.input(np.array(start, dtype)), Literal(2, dtype)
        row = min(max(start, 0), 4)
        g.check(f"slice {start}", g.op("dynamic_slice", x, i, j, out=(3, 2), slice_sizes=(3, 2)), X[row : row + 3, 2:4])
        updated = X.copy()
        updated[row : row + 3, 2:4] = -1
        g.check(f"update {start}", g.op("dynamic_update_slice", x, u, i, j), updated)
    g.run()


def test_static_slices_and_empty_updates() -> None:
    g = Graph()
    x, empty = g.input(X), g.input(np.zeros((0, 5), np.float32))
    zero = Literal(0, np.int32)
    part = dict(start_indices=(1, 0), limit_indices=(6, 5), strides=(2, 3))
    g.check("slice", g.op("slice", x, out=(3, 2), **part), X[1:6:2, 0:5:3])
    g.check("empty update", g.op("dynamic_update_slice", x, empty, zero, zero), X)
    none = g.op("dynamic_slice", x, zero, zero, out=(0, 5), slice_sizes=(0, 5))
    g.check("empty slice", none, X[:0])
    g.run()


def test_lookups_in_columns() -> None:
    x = RNG.standard_normal((4, 17, 3)).astype(np.float32)
    indices = np.array([16, 0, 5, 5])
    reversed_column = lambda x: x * x[-1, ::-1, 0:1]
    gathered = lambda x: x[2, :, 1][indices]
    cut = lambda x, i: lax.dynamic_slice(x, (i, 0, i), (1, 17, 1)).reshape(17)[::-1]
    moved = lambda x: x[:, 3, 1:2].T[:, ::-1]
    found = veery.jit(lambda x, i: (reversed_column(x), gathered(x), cut(x, i), moved(x)))(x, np.int32(2))
    expected = reversed_column(x), gathered(x), x[2, ::-1, 2], moved(x)
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


STEPPED = {
    "scaled": lambda w: w[::2] * 3,
    "behind a sum": lambda w: (w + w)[1::3] - 1,
    "summed": lambda w: w[::2].sum(),
    "reversed": lambda w: w[::2][::-1],
    "looked up": lambda w: w[::2][np.array([1, 0, 1])],
    "joined": lambda w: jnp.concatenate([w[::2], w[1::2]]),
    "columns": lambda w: (w[:, None] * jnp.arange(4.0))[::2, ::3].T,
    "product": lambda w: w[::2] @ w[::2],
    "of a mask": lambda w: jnp.where(w > 2, 7.0, 3.0)[::3] * 2,
    "of two": lambda w: w[::2] + jnp.sort(w)[::2],
    "windows": lambda w: lax.reduce_window(w, -np.inf, lax.max, (1,), (2,), "VALID"),
    "wider windows": lambda w: lax.reduce_window(w, 0.0, lax.add, (2,), (3,), "VALID") * 2,
}


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_steps_through_widened_values(dtype: type) -> None:
    """Such are computed where they are read, and IREE forgets the steps where that is a vector or less."""
    stepped = veery.jit(lambda x: {name: function(x.astype(np.float32)) for name, function in STEPPED.items()})
    for size in (3, 5, 8, 33):
        x = RNG.permutation(size).astype(dtype)
        for name, found in stepped(x).items():
            np.testing.assert_array_equal(found, STEPPED[name](jnp.asarray(x.astype(np.float32))), f"{name}, {size}")


def test_steps_through_halves() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = np.array([3, 2, -1, 5, -7], dtype)
        strided = lambda x: lax.reduce_window(x, np.array(np.inf, x.dtype), lax.min, (1,), (2,), "VALID")
        np.testing.assert_array_equal(veery.jit(strided)(x), x[::2])


BACKWARDS = {
    "columns": lambda x: x[:, ::-2],
    "of the transpose": lambda x: x.T[:, ::-2],
    "of a sum": lambda x: (x + x)[:, ::-2],
    "then chosen": lambda x: x[:, ::2][:, np.array([2, 0])],
    "both": lambda x: x[::-3, ::-2] + 1,
}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int8, np.float32, np.complex64, bool])
def test_steps_backwards(dtype: type) -> None:
    """Unsigned integers are taken for signed ones to be reversed: IREE compiled no step before that."""
    x = np.arange(35).reshape(5, 7).astype(dtype)
    for what, function in BACKWARDS.items():
        compiled = veery.jit(function).lower(x).compile()
        assert "fallback" not in compiled._program.metadata, what
        np.testing.assert_array_equal(compiled(x), function(x), what)


SIMPLE = [(0, 0, 1), (1, 2, 0), (1, 1, 1), (0, 1, 2), (-1, 2, 0)]


def test_paddings_of_paddings() -> None:
    """Of two with equal values IREE made one, and forgot what either puts between elements."""

    def padded(x: Any) -> Any:
        pad = lambda x, how: lax.pad(x, np.float32(0), [how])
        inside = veery.jit(lambda x: pad(x, (0, 0, 1)))
        gradient = veery.grad(lambda x: (pad(x, (2, 1, 0))[::3] ** 2).sum() + (x[1:][::2][1:] ** 2).sum())
        twice = [pad(pad(x, first), second) for first in SIMPLE for second in SIMPLE]
        return twice, pad(inside(x), (1, 2, 0)), gradient(x)

    for size in (2, 5, 40):
        x = np.arange(1, size + 1, dtype=np.float32)
        outs, wanted = veery.tree.leaves(veery.jit(padded)(x)), veery.tree.leaves(interpreted(padded, x))
        for actual, expected in zip(outs, wanted, strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_paddings_with_nothing_between_them() -> None:
    """In programs from elsewhere: JAX's and ours leave such operations out."""
    nothings = {
        "transpose": "stablehlo.transpose %p, dims = [0] : (tensor<8xf32>) -> tensor<8xf32>",
        "reshape": "stablehlo.reshape %p : (tensor<8xf32>) -> tensor<8xf32>",
        "slice": "stablehlo.slice %p [0:8:1] : (tensor<8xf32>) -> tensor<8xf32>",
        "broadcast": "stablehlo.broadcast_in_dim %p, dims = [0] : (tensor<8xf32>) -> tensor<8xf32>",
        "concatenate": "stablehlo.concatenate %p, dim = 0 : (tensor<8xf32>) -> tensor<8xf32>",
        "convert": "stablehlo.convert %p : tensor<8xf32>",
    }
    for what, between in nothings.items():
        text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<9xf32> {{
          %z = stablehlo.constant dense<0.0> : tensor<f32>
          %p = stablehlo.pad %x, %z, low = [2], high = [1], interior = [1]
            : (tensor<3xf32>, tensor<f32>) -> tensor<8xf32>
          %n = {between}
          %r = stablehlo.pad %n, %z, low = [0], high = [1], interior = [0]
            : (tensor<8xf32>, tensor<f32>) -> tensor<9xf32>
          return %r : tensor<9xf32>
        }}"""
        out = veery.stablehlo.load(text)(np.array([1, 2, 3], np.float32))
        assert np.asarray(out).tolist() == [0, 0, 1, 0, 2, 0, 3, 0, 0], what
