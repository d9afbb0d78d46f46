"""Results that are read in several ways: sums against each other, matrices with their transposes, parts of products.

All results with all readers, each in a function of its own among the many of one program. VEERY_TEST_SHARE above 1
tries one of the sizes, the other one the next day.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from combinations.checking import faults
from combinations.steps import Program, values
from support.days import of_the_day

import veery
from veery import lax, nn, numpy as jnp

# Of a square matrix: vectors, and matrices of the same shape.
VECTORS: dict[str, Callable[[Any], Any]] = {
    "sums of rows": lambda x: x.sum(1),
    "sums of columns": lambda x: x.sum(0),
    "maxima": lambda x: x.max(1),
    "places of maxima": lambda x: jnp.argmax(x, 1),
    "a product with a vector": lambda x: x @ x[0],
    "log of sums": lambda x: nn.logsumexp(x, 1),
    "any": lambda x: (x > 1).any(1),
    "sums, divided by theirs": lambda x: x.sum(1) / jnp.abs(x).sum(),
    "columns of sums": lambda x: (x[:, :, None] * x[:, None, :]).sum(2)[:, 0],
}
MATRICES: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda x: jnp.exp(x),
    "a product": lambda x: x @ x,
    "softmax of rows": lambda x: nn.softmax(x, 1),
    "softmax of columns": lambda x: nn.softmax(x, 0),
    "sums of products": lambda x: (x[:, :, None] * x[:, None, :]).sum(2),
    "windows": lambda x: lax.reduce_window(x, -np.inf, lax.max, (3, 3), (1, 1), "SAME"),
    "convolution": lambda x: lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME")[0, 0],
    "running sums": lambda x: jnp.cumsum(x, 1),
    "sums of rows and columns": lambda x: x.sum(1)[:, None] + x.sum(0),
    "sums and maxima": lambda x: x.sum(1)[:, None] * x.max(1),
    "scaled by the total": lambda x: x / jnp.abs(x).sum(),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c * row), x[0], x)[1],
}
VECTOR_READERS: dict[str, Callable[[Any], Any]] = {
    "outer product": lambda v: v[:, None] * v,
    "differences, and it": lambda v: (v[:, None] * 1.0 - v, v),
    "ranks": lambda v: (v[:, None] < v).sum(1),
    "reverse": lambda v: v * v[::-1],
    "first": lambda v: v * v[0],
    "diagonal of its own": lambda v: jnp.where(jnp.eye(v.size) > 0, v[:, None] * 1.0, v),
    "three times": lambda v: v[:, None, None] * v[:, None] * v[:3],
    "kernel": lambda v: jnp.exp(-((v[:, None] * 1.0 - v) ** 2)) @ (v * 1.0),
    "halves": lambda v: v[: v.size // 2, None] * v[v.size // 2 :],
    "parts": lambda v: v[:3, None] * v[:3] + v[1:4],
    "neighbours": lambda v: v[1:] * v[:-1],
}
MATRIX_READERS: dict[str, Callable[[Any], Any]] = {
    "plus its transpose": lambda y: y + y.T,
    "plus its transpose, and it": lambda y: (y + y.T, y - 1),
    "function plus its transpose": lambda y: (lambda z: (z + z.T, z.sum()))(jnp.tanh(y) * 2),
    "reverse": lambda y: (y - y[::-1], y),
    "roll": lambda y: y + jnp.roll(y, 1, 0),
    "diagonals": lambda y: jnp.diag(y)[:, None] + jnp.diag(y) - 2 * y,
    "first row and column": lambda y: y - y[:1] * y[:, :1],
    "parts": lambda y: y[:, :2] * y[:2].T,
    "a part plus one of its transpose": lambda y: y[:3, :3] + y.T[:3, :3],
    "corners": lambda y: y[1:, 1:] * 2 - y.T[:-1, :-1] * y[1:, :-1],
    "a part by numbers": lambda y: lax.dynamic_slice(y.T, (1, 0), (2, 2)) - y[:2, :2],
    "a column's outer product": lambda y: y[:, :1] * y[:, 0],
    "rows against rows": lambda y: ((y[:, None] - y) ** 2).sum(2),
    "distances": lambda y: (y * y).sum(1)[:, None] + (y * y).sum(1) - 2 * y @ y.T,
    "entries against entries": lambda y: y[:, :, None] * y[:, None, :],
    "symmetric part in a product": lambda y: (y + y.T) @ y,
    "rows and columns in turn": lambda y: y / (1 + jnp.abs(y).sum(1, keepdims=True)) - y.sum(0),
    "sums of rows beside the transpose": lambda y: y.sum(1)[:, None] + y.T,
    "times a row, summed": lambda y: ((y * y[0]).sum(), (y * y[:, :1]).sum()),
}


@pytest.mark.parametrize("size", of_the_day([4, 13], 2))
@pytest.mark.parametrize("kind", ["vectors", "matrices"])
def test_results_that_are_read_in_two_ways(kind: str, size: int) -> None:
    makers, readers = (VECTORS, VECTOR_READERS) if kind == "vectors" else (MATRICES, MATRIX_READERS)
    rng = np.random.default_rng(size)
    programs = [
        Program(f"{made} -> {read}", lambda x, f=f, g=g: g(f(x)), (values(rng, (size, size), np.dtype("float32")),))
        for made, f in makers.items()
        for read, g in readers.items()
    ]
    assert not faults(programs)


def test_what_is_read_in_one_way_stays_in_its_dispatch() -> None:
    def dispatches(fun: Callable[[Any], Any], kernels: bool = True) -> int:
        jitted = veery.jit(fun, compiler_options={"kernels": kernels})
        return jitted.lower(jnp.ones((16, 16))).as_text("flow").count("flow.dispatch @")

    assert dispatches(lambda x: x / x.sum(1, keepdims=True)) == dispatches(lambda x: nn.softmax(x, 1)) == 1
    assert dispatches(lambda x: jnp.tanh(x @ x) * 2) == 1
    assert dispatches(lambda x: x.sum(1)[:, None] - x.sum(1)) == 2
    crossed = lambda x: (lambda y: y[:9, :9] + y.T[:9, :9])(x - x.max(0))
    assert dispatches(crossed, kernels=False) == 3  # 2 if the sums are not told apart
    assert dispatches(crossed) == 2
