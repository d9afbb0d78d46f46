"""Concatenations that begin with the same operand, which IREE joins (`part_updates`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes import leave_out

import veery
from veery import lax, numpy as jnp
from veery_lowering import kernels

JOINED = {
    "computed": lambda x: products(x, x[2:3] * 3),
    "constant": lambda x: products(x, jnp.ones(1, x.dtype)),
    "results": lambda x: jnp.stack([jnp.cumsum(join(x[2:3] * 3, -x[:1])), join(x[2:3] * 3, -x[1:2])]),
    "three": lambda x: products(x, h := x[2:3] * 3) * join(h, x[3:4]),
    "polynomial": jnp.poly,
}


def join(*xs: Any) -> Any:
    return lax.concatenate(xs, 0)


def products(x: Any, start: Any) -> Any:
    return jnp.cumsum(join(start, -x[:1]))[:, None] * join(start, -x[1:2])[None]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("by_iree", [True, False])
def test_joins_may_begin_alike(name: str, dtype: Any, by_iree: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complex numbers are joined by IREE where they are many."""
    if by_iree:
        veery.config.update("jax_enable_compilation_cache", False)
        monkeypatch.setattr(kernels, "part_numbers", lambda block: None)
    x = (np.arange(1, 5) + 10j * np.arange(1, 5)).astype(dtype)
    with veery.enable_x64(True):
        actual = veery.jit(lambda x: JOINED[name](x))(x)
        with veery.disable_jit():
            expected = JOINED[name](jnp.asarray(x))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_copies_of_joins_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, that part of the pass can go."""
    veery.config.update("jax_enable_compilation_cache", False)
    leave_out(monkeypatch, "part_updates")
    monkeypatch.setattr(kernels, "part_numbers", lambda block: None)
    x = (np.arange(1, 8) + 10j * np.arange(1, 8)).astype(np.complex64)  # of a size that was not compiled before
    actual = veery.jit(lambda x: JOINED["computed"](x))(x)
    assert not np.allclose(actual, np.outer([9 + 90j, 8 + 80j], [9 + 90j, -2 - 20j]))
