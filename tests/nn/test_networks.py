"""Networks of ordinary size: their gradients, compiled, against the NumPy evaluation of every operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation

import veery
from veery import lax, nn, numpy as jnp
from veery._core.config import enable_x64

pytestmark = pytest.mark.compiler

RNG = np.random.default_rng(0)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def max_pool(x: Any, window: int, stride: int, padding: str) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), padding)


def images(parameters: dict[str, Any], x: Any, pool: tuple[int, int, str]) -> Any:
    """Two convolutions with pooling and a linear layer."""
    x = max_pool(nn.relu(lax.conv_general_dilated(x, parameters["a"], (1, 1), "SAME", dimension_numbers=LAYOUT)), *pool)
    x = nn.relu(lax.conv_general_dilated(x, parameters["b"], (2, 2), "VALID", dimension_numbers=LAYOUT))
    return nn.log_softmax(x.mean((1, 2)) @ parameters["c"])[:, 0].mean()


@pytest.mark.parametrize("pool", [(2, 2, "VALID"), (3, 2, "SAME")], ids=str)
def test_convolutions_with_pooling(pool: tuple[int, int, str]) -> None:
    parameters = {"a": normal(3, 3, 1, 8) / 3, "b": normal(3, 3, 8, 16) / 8, "c": normal(16, 10)}
    check(veery.grad(lambda p, x: images(p, x, pool)), parameters, normal(4, 28, 28, 1))


def test_attention() -> None:
    parameters = {name: normal(24, 24) / 5 for name in "qkvo"}

    def attend(p: dict[str, Any], x: Any) -> Any:
        q, k, v = (jnp.reshape(x @ p[name], (2, 17, 3, 8)) for name in "qkv")
        weights = nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 8**0.5)
        mixed = jnp.reshape(jnp.einsum("bhts,bshd->bthd", weights, v), (2, 17, 24))
        out = x + mixed @ p["o"]
        return (nn.gelu((out - out.mean(-1, keepdims=True)) / jnp.sqrt(out.var(-1, keepdims=True) + 1e-5)) ** 2).mean()

    check(veery.grad(attend), parameters, normal(2, 17, 24))


def check(fun: Any, *args: Any) -> None:
    with enable_x64(True):
        compiled = veery.jit(fun)(*args)
        with numpy_evaluation():
            expected = fun(*args)
        for name, value in expected.items():
            np.testing.assert_allclose(np.asarray(compiled[name]), np.asarray(value), rtol=1e-9, atol=1e-12)
