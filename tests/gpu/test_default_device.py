"""Ordinary programs in one process with a GPU as the default: it is not lost, and the values are right."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special
from support.features import has, rounds_each

import veery
import veery.numpy as jnp
from veery import lax, random

# One process, so that what one program does to the device is felt by the next.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("gpu-default-device")]

_rng = np.random.default_rng(0)
A = (_rng.standard_normal((65, 65)) / 8).astype(np.float32)
M = _rng.standard_normal((8, 5)).astype(np.float32)
X = _rng.standard_normal(5).astype(np.float32)
T = np.tanh(M.astype(np.float64) @ X)  # and its derivative:
D = (1 - T * T)[:, None] * M


def _assert_close(actual: Any, expected: Any, tolerance: float = 2e-6) -> None:
    expected = np.asarray(expected, np.float64)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.fixture(autouse=True)
def _on_one_device(on_gpu: Any) -> Any:
    """The device is the one that it was: nothing of this loses it."""
    before = on_gpu.hal
    yield
    assert on_gpu.hal is before


def test_powers() -> None:
    wide = A.astype(np.float64)
    got = veery.jit(lambda x: (x + x * x + 3) * (x * x + x * x.T))(A)
    _assert_close(got, (wide + wide * wide + 3) * (wide * wide + wide * wide.T))
    _assert_close(jnp.linalg.matrix_power(jnp.asarray(A), 3), wide @ wide @ wide)


def test_gradients_jacobians_and_hessians() -> None:
    layer = lambda w: jnp.tanh(M @ w)
    total = lambda w: layer(w).sum()
    _assert_close(veery.grad(total)(X), D.sum(0))
    for jacobian in (veery.jacfwd, veery.jacrev):
        _assert_close(veery.jit(jacobian(layer))(X), D)
    _assert_close(veery.jit(veery.hessian(total))(X), M.T @ (-2 * T[:, None] * D), 1e-5)


def test_hessians_begin_with_an_identity() -> None:
    """The identity is made of `iota` results that nothing else depends on."""
    n = np.arange(1.0, 5.0, dtype=np.float32)
    got = veery.hessian(lambda x: jnp.sum(x * x * x[::-1]))(n)
    expected = np.diag(2 * n[::-1]) + np.fliplr(np.diag(2 * n + 2 * n[::-1]))
    _assert_close(got, expected)


def test_entmax() -> None:
    path = Path(__file__).parents[2] / "examples" / "entmax.py"
    spec = importlib.util.spec_from_file_location("entmax_example", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    scores = np.array([1.0, 0.6, 0.2, -0.4, -2.5], np.float32)
    _assert_close(veery.jit(example.entmax, static_argnums=1)(scores, 2.0), [0.7, 0.3, 0, 0, 0])
    target = np.array([0.2, 0.5, 0.1, 0.1, 0.1], np.float32)
    gradient = veery.jit(veery.grad(example.loss), static_argnums=2)(scores, target, 2.0)
    _assert_close(gradient, [0.7, -0.7, 0, 0, 0])  # (I - 1/2) 2 (p - target) on the two that are not zero


def test_random_numbers(on_gpu: Any) -> None:
    if not has(on_gpu, "int64"):
        pytest.skip(f"{on_gpu.device_kind} has no 64-bit integers, of which keys are made")
    draw = lambda key: random.normal(key, (1000,))
    got = veery.jit(draw)(random.key(0))
    with veery.default_device(veery.devices("cpu")[0]):
        expected = veery.jit(draw)(random.key(0))
    _assert_close(got, expected, 1e-6 if rounds_each(on_gpu) else 1e-3)
    # What is far out hangs on the last digits of the uniform numbers that it is made of.
    _assert_close(special.erf(got / np.sqrt(2)), special.erf(expected / np.sqrt(2)), 3e-7)


def test_scans_and_their_gradients() -> None:
    xs = _rng.standard_normal((20, 7)).astype(np.float32)

    def fold(xs: Any) -> Any:
        carry, outs = lax.scan(lambda c, a: (c * 0.9 + a, c * a), jnp.zeros(7), xs)
        return carry.sum() + (2 * outs).sum()

    c, value, wide = np.zeros(7), 0.0, xs.astype(np.float64)
    for a in wide:
        c, value = c * 0.9 + a, value + (2 * c * a).sum()
    got, gradient = veery.jit(veery.value_and_grad(fold))(xs)
    _assert_close(got, value + c.sum(), 1e-5)
    adjoint, expected = np.ones(7), np.zeros((20, 7))
    before = [np.zeros(7)]
    for a in wide[:-1]:
        before.append(before[-1] * 0.9 + a)
    for i in reversed(range(20)):
        expected[i] = adjoint + 2 * before[i]
        adjoint = adjoint * 0.9 + 2 * wide[i]
    _assert_close(gradient, expected, 1e-5)


def test_custom_derivatives() -> None:
    @veery.custom_vjp
    def softplus(x: Any) -> Any:
        return jnp.log1p(jnp.exp(x))

    softplus.defvjp(lambda x: (softplus(x), x), lambda x, g: (3 * g * x,))  # a rule that is not the derivative
    _assert_close(veery.jit(veery.grad(lambda x: softplus(x).sum()))(X), 3 * X)


def test_chains_of_calls_that_nobody_waits_for() -> None:
    step = veery.jit(lambda x: jnp.sin(x @ A) + 0.1)
    x, expected = jnp.asarray(A), A.astype(np.float64)
    for _ in range(20):
        x, expected = step(x), np.sin(expected @ A) + 0.1
    _assert_close(x, expected, 1e-4)


def test_results_that_are_constants_or_arguments() -> None:
    """Of such work IREE lost on which queue it was to be done."""
    fun = veery.jit(lambda x: (jnp.zeros(4), x * 2, x.reshape(2, 2), x))
    for i in range(60):
        zeros, doubled, square, same = fun(np.full(4, i, np.float32))
        np.testing.assert_array_equal(np.asarray(zeros) + doubled + np.ravel(square) + same, np.full(4, 4.0 * i))
