"""Functions that turn 64 bits on for a while, transformed where they are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "power": lambda x: x**2.5 + x**3,
    "division": lambda x: 1 / (x + 1),
    "sigmoid": lambda x: jnp.tanh(x) + veery.nn.gelu(x) + veery.nn.relu(x),
    "mean": lambda x: (jnp.arange(3.0) * x).mean() + jnp.std(jnp.arange(3.0) * x),
    "norm": lambda x: jnp.linalg.norm(jnp.ones(3) * x),
    "det": lambda x: jnp.linalg.det(jnp.eye(3) * x + 1),
    "prod": lambda x: jnp.cumprod(jnp.arange(1.0, 4) * x)[2] + jnp.prod(jnp.arange(1.0, 4) * x),
    "sort": lambda x: jnp.sort(jnp.arange(3.0) * x)[1],
    "at": lambda x: jnp.ones(3).at[1].set(x).sum(),
    "fft": lambda x: jnp.abs(jnp.fft.fft(jnp.ones(4) * x)).sum(),
    "scan": lambda x: lax.scan(lambda c, _: (c * x, c), x, None, length=3)[0],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x),
    "cond": lambda x: lax.cond(x > 0.5, jnp.sin, jnp.cos, x),
    "jit": veery.jit(lambda x: jnp.sin(x) / 2),
    "checkpoint": veery.checkpoint(lambda x: jnp.sin(x) / 2),
    "vmap": lambda x: veery.vmap(lambda y: y**2.5)(jnp.ones(3) * x).sum(),
}
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": veery.grad,
    "second": lambda f: veery.grad(veery.grad(f)),
    "grad of jit": lambda f: veery.grad(veery.jit(f)),
    "hessian": veery.hessian,
    "vmap of grad": lambda f: lambda x: veery.vmap(veery.grad(f))(jnp.ones(2, x.dtype) * x)[0],
}


@pytest.mark.compiler
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_64_bits(name: str, transform: str) -> None:
    function = FUNCTIONS[name]

    def inside(x: Any) -> Any:
        with veery.enable_x64(True):
            y = function(x.astype(jnp.float64))
            assert y.dtype == np.float64
        return y.astype(jnp.float32)

    with veery.enable_x64(True):
        expected = TRANSFORMS[transform](function)(jnp.float64(np.float32(0.6)))
    with veery.enable_x64(False):
        actual = TRANSFORMS[transform](inside)(jnp.float32(0.6))
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.compiler
def test_a_result_of_64_bits_is_differentiated() -> None:
    def wide(x: Any) -> Any:
        with veery.enable_x64(True):
            return jnp.sin(x.astype(jnp.float64))

    with veery.enable_x64(False):
        value, gradient = veery.value_and_grad(wide)(jnp.float32(0.5))
        assert (value.dtype, gradient.dtype) == (np.float64, np.float32)
        np.testing.assert_allclose(gradient, np.cos(0.5), rtol=1e-6)


@pytest.mark.compiler
def test_arrays_of_numpy_mean_nothing_by_their_width() -> None:
    with veery.enable_x64(False):
        f = lambda x: (lax.mul(x, np.ones(3)) * np.arange(3)).sum()
        assert veery.grad(f)(jnp.ones(3)).dtype == np.float32
        assert veery.vmap(lambda x: lax.mul(x, np.ones(3)))(jnp.ones((2, 3))).dtype == np.float32


@pytest.mark.compiler
def test_constants_of_programs_are_of_64_bits() -> None:
    """NumPy's arrays, and numbers in programs so large that they are arguments of these."""
    table = np.arange(40.0) / 3

    def narrow(x: Any) -> Any:
        with veery.enable_x64(True):
            return x.astype(jnp.float64) * table + (jnp.arange(40) + jnp.int64(2**40))

    def long(x: Any) -> Any:
        with veery.enable_x64(True):
            y = x.astype(jnp.float64)
            for _ in range(40):
                y = jnp.sin(y) * 0.1 + 0.7
            return y

    with veery.enable_x64(False):
        x = jnp.arange(40, dtype=jnp.float32)
        for f in (narrow, long):
            expected = f(x)
            assert expected.dtype == np.float64
            for jitted in (veery.jit(f), veery.jit(veery.jit(f))):
                np.testing.assert_allclose(jitted(x), expected, rtol=1e-12)
