"""The α-entmax example: its values, and its derivatives against numerical ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from support import numerics

import veery

SCORES = np.array([1.0, 0.6, 0.2, -0.4, -2.5])


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples/entmax.py"
    spec = importlib.util.spec_from_file_location("entmax_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close(actual, expected, tolerance):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


def sparsemax(z):
    """The projection onto the simplex, by sorting."""
    ordered = np.sort(z)[::-1]
    counts = np.arange(1, len(z) + 1)
    size = np.max(counts[1 + counts * ordered > np.cumsum(ordered)])
    return np.maximum(z - (np.sum(ordered[:size]) - 1) / size, 0)


def test_values(in_numpy, example):
    close(example.entmax(SCORES, 2.0), sparsemax(SCORES), 1e-10)
    softmax = np.exp(SCORES) / np.sum(np.exp(SCORES))
    close(example.entmax(SCORES, 1.0001), softmax, 1e-3)
    p = np.asarray(example.entmax(SCORES, 1.5))
    close(np.sum(p), 1, 1e-12)
    assert p[-1] == 0 and np.all(p[:3] > 0)
    batch = np.stack([SCORES, -SCORES])
    close(veery.vmap(lambda z: example.entmax(z, 1.5))(batch), [example.entmax(z, 1.5) for z in batch], 1e-12)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0])
def test_derivatives(in_numpy, example, alpha):
    target = np.array([0.2, 0.5, 0.1, 0.1, 0.1])
    loss = lambda z: example.loss(z, target, alpha)
    gradient = veery.grad(loss)
    close(gradient(SCORES), numerics.gradient(loss, SCORES), 1e-5)
    close(veery.jit(gradient)(SCORES), gradient(SCORES), 1e-12)
    jacobian = veery.jacrev(lambda z: example.entmax(z, alpha))(SCORES)
    close(jacobian, np.transpose(jacobian), 1e-9)
    close(np.sum(np.asarray(jacobian), 0), np.zeros(5), 1e-9)
    close(veery.jacrev(gradient)(SCORES), [numerics.directional(gradient, [SCORES], [e]) for e in np.eye(5)], 1e-4)
    batch = np.stack([SCORES, SCORES[::-1] * 0.5])
    close(veery.vmap(gradient)(batch), [gradient(z) for z in batch], 1e-10)


@pytest.mark.compiler
def test_compiled(example):
    scores = SCORES.astype(np.float32)
    value, gradient = veery.jit(veery.value_and_grad(lambda z: example.loss(z, np.float32(0), 2.0)))(scores)
    close(value, np.sum(sparsemax(SCORES) ** 2), 1e-5)
    close(gradient, numerics.gradient(lambda z: np.sum(sparsemax(z) ** 2), SCORES), 1e-4)
