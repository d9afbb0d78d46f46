"""Values that are wider than what they are made of, in shaders whose invocations share memory: no call differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import veery
import veery.numpy as jnp
from veery import lax

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("gpu-races")]

_rng = np.random.default_rng(0)
MASK = _rng.random((9, 70)) < 0.5
BYTES = _rng.integers(-9, 9, (9, 70)).astype(np.int8)
W = _rng.standard_normal((9, 70)).astype(np.float32)
SINGLE = jnp.float32

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray]] = {
    "products of a mask": (lambda m: W[:5, :9] @ m.astype(SINGLE), lambda m: W[:5, :9] @ m, MASK),
    "products of transposed bytes": (lambda b: W[:5] @ b.T.astype(SINGLE), lambda b: W[:5] @ b.T, BYTES),
    "sums of products": (lambda m: (m.astype(SINGLE) * W).sum(0), lambda m: (m * W).sum(0), MASK),
    "sums of products with a choice": (
        lambda m: (jnp.where(m, 2.0, 1.0) * W).sum(1), lambda m: (np.where(m, 2, 1) * W).sum(1), MASK,
    ),
    "largest of broadcast sums": (
        lambda b: (b.astype(SINGLE)[:, None] + W).max(2), lambda b: (b[:, None] + W).max(2), BYTES,
    ),
    "values with several uses": (
        lambda b: (lambda x: (x.sum(0) + x.max(0)) @ x.T)(b.astype(SINGLE)),
        lambda b: (b.sum(0) + b.max(0)) @ b.T,
        BYTES,
    ),
    "convolutions": (
        lambda b: lax.conv(b[None, None, :, :16].astype(SINGLE), W[None, None, :3, :3], (1, 1), "VALID"),
        lambda b: np.einsum("...ij,ij", sliding_window_view(b[None, None, :, :16], (3, 3), (2, 3)), W[:3, :3]),
        BYTES,
    ),
    "products that go on": (lambda b: jnp.tanh(W[:5] @ b.T.astype(SINGLE)), lambda b: np.tanh(W[:5] @ b.T), BYTES),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_calls_are_right(name: str, on_gpu: Any) -> None:
    fun, reference, x = CASES[name]
    compiled = veery.jit(fun)
    expected = reference(x.astype(np.float64) if x.dtype != bool else x)
    for _ in range(12):
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
