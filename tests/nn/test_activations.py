"""Activations against formulas in float64, their derivatives, and initializers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
import veery.numpy as jnp
from veery import nn, random

X = np.array([-30.0, -4.0, -1.5, -0.3, 0.0, 0.2, 0.9, 2.5, 5.0, 40.0], np.float32)
M = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
MASK = np.array([[True, False, True, True], [True, True, False, False], [False, True, False, True]])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    terms = np.exp(x - x.max(axis, keepdims=True)) * (1 if where is None else where)
    return terms / terms.sum(axis, keepdims=True)


erf = np.vectorize(math.erf)
ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0),
    "softplus": lambda x: np.logaddexp(x, 0),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip(x + 1, 0, 2) / 2,
    "tanh": np.tanh,
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu exact": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "log1mexp": lambda x: np.log(-np.expm1(-x)),
}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def fun_of(name: str) -> Callable[[Any], Any]:
    return (lambda x: nn.gelu(x, approximate=False)) if name == "gelu exact" else getattr(nn, name)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name):
    out = interpreted(fun_of(name), X)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, ELEMENTWISE[name](X.astype(np.float64)), rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_derivatives(name):
    """Against differences, away from kinks."""
    x = X[(X != 0) & (abs(X) != 1)] if name != "log1mexp" else X[X > 0]
    slopes = interpreted(veery.grad(lambda x: fun_of(name)(x).sum()), x)
    f, wide = ELEMENTWISE[name], x.astype(np.float64)
    np.testing.assert_allclose(slopes, (f(wide + 1e-5) - f(wide - 1e-5)) / 2e-5, rtol=1e-3, atol=1e-4)


def test_derivatives_at_kinks():
    zero = np.zeros(1, np.float32)
    assert interpreted(veery.grad(lambda x: nn.relu(x).sum()), zero) == 0
    assert interpreted(veery.grad(lambda x: nn.relu6(x).sum()), zero) == 0
    for f in (nn.elu, nn.selu, nn.softplus, nn.log_sigmoid):
        assert np.isfinite(interpreted(veery.grad(lambda x, f=f: f(x).sum()), np.array([1e3, -1e3], np.float32))).all()


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_softmax(axis):
    out = interpreted(
        lambda x, m: (
            nn.softmax(x, axis),
            nn.softmax(x, axis, where=m),
            nn.log_softmax(x, axis),
            nn.logsumexp(x, axis, keepdims=True),
            nn.logsumexp(x, axis, b=x, return_sign=True),
            nn.logsumexp(x, axis, where=m),
            nn.logmeanexp(x, axis, where=m),
            nn.standardize(x, axis),
            nn.standardize(x, axis, algorithm="stable", where=m),
        ),
        M,
        MASK,
    )
    total = np.sum(M * np.exp(M), axis)
    masked = np.sum(np.exp(M) * MASK, axis)
    std = np.sqrt(M.var(axis, keepdims=True) + 1e-5)
    mean = M.mean(axis, keepdims=True, where=MASK)
    masked_std = np.sqrt(M.var(axis, keepdims=True, where=MASK) + 1e-5)
    expected = (
        softmax(M, axis),
        softmax(M, axis, MASK),
        np.log(softmax(M, axis)),
        np.log(np.exp(M).sum(axis, keepdims=True)),
        (np.log(abs(total)), np.sign(total)),
        np.log(masked),
        np.log(masked / MASK.sum(axis)),
        (M - M.mean(axis, keepdims=True)) / std,
        (M - mean) / masked_std,
    )
    for a, e in zip(veery.tree.leaves(out), veery.tree.leaves(expected)):
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)


def test_softmax_is_stable_and_has_its_derivative():
    np.testing.assert_allclose(interpreted(nn.softmax, np.array([1e4, 1e4], np.float32)), [0.5, 0.5])
    jacobian = interpreted(veery.jacrev(nn.softmax), M[0])
    p = softmax(M[0])
    np.testing.assert_allclose(jacobian, np.diag(p) - np.outer(p, p), rtol=1e-5, atol=1e-6)


def test_one_hot_and_glu():
    i = np.array([[0, 3], [-1, 2]])
    expected = (i[..., None] == np.arange(3)).astype(np.float32)
    np.testing.assert_array_equal(interpreted(lambda i: nn.one_hot(i, 3), i), expected)
    out = interpreted(lambda i: nn.one_hot(i, 3, axis=0, dtype="int8"), i)
    np.testing.assert_array_equal(out, np.moveaxis(expected, -1, 0))
    assert out.dtype == np.int8
    np.testing.assert_allclose(interpreted(nn.glu, M), M[:, :2] * sigmoid(M[:, 2:]), rtol=1e-5)


def attention(q: Any, k: Any, v: Any, visible: Any, bias: Any) -> Any:
    k, v = (np.repeat(a, q.shape[2] // a.shape[2], 2) for a in (k, v))
    scores = np.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(q.shape[-1]) + bias
    return np.einsum("bnts,bsnh->btnh", softmax(np.where(visible, scores, -1e30)), v)


def test_dot_product_attention():
    rng = np.random.default_rng(1)
    q, k, v, bias = (
        rng.normal(size=s).astype(np.float32) for s in ((2, 5, 4, 3), (2, 6, 2, 3), (2, 6, 2, 3), (1, 4, 5, 6))
    )
    rows, columns = np.arange(5)[:, None], np.arange(6)
    everything = np.ones((5, 6), bool)
    for options, visible in (
        ({}, everything),
        ({"is_causal": True}, columns <= rows),
        ({"local_window_size": (1, 2)}, (columns >= rows - 1) & (columns <= rows + 2)),
        ({"key_value_seq_lengths": np.array([2, 4], np.int32)}, columns < np.array([2, 4])[:, None, None, None]),
    ):
        out = interpreted(lambda q, k, v, b, o=options: nn.dot_product_attention(q, k, v, b, **o), q, k, v, bias)
        if "local_window_size" in options:
            visible = (rows <= columns + 1) & (rows >= columns - 2)
        np.testing.assert_allclose(out, attention(q, k, v, visible, bias), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="multiple of key/value heads"):
        nn.dot_product_attention(q[:, :, :3], k, v)


@pytest.mark.compiler
def test_initializers():
    init = nn.initializers
    key = random.key(0)

    def draw(key: Any) -> Any:
        return [
            init.glorot_uniform()(key, (60, 80)),
            init.normal(0.5)(key, (4000,)),
            init.uniform(3.0)(key, (4000,)),
            init.constant(7)(key, (2,)),
        ]

    glorot, normal, uniform, constant = map(np.asarray, veery.jit(draw)(key))
    assert abs(glorot).max() <= math.sqrt(3 * 2 / 140) and abs(glorot.std() - math.sqrt(2 / 140)) < 0.005
    assert abs(normal.std() - 0.5) < 0.03 and 0 <= uniform.min() and 2.9 < uniform.max() <= 3
    assert constant.tolist() == [7, 7]
    with pytest.raises(ValueError, match="invalid mode"):
        init.variance_scaling(1.0, "x", "normal")(key, (2, 3))
    with pytest.raises(ValueError, match="Must be at least 2D"):
        init.lecun_normal()(key, (3,))


def test_identity_takes_arrays_alone():
    assert veery.nn.identity(2.0).weak_type
    with pytest.raises(TypeError, match="identity requires ndarray or scalar arguments, got <class 'list'>"):
        veery.nn.identity([1, 2])


def test_axes_as_arrays():
    """Dynamax gives them so."""
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    zero = jnp.array(0)
    for axis in (zero, (zero,), [zero, 1], (1, zero)):
        wanted = 0 if axis is zero else tuple(map(int, axis))
        np.testing.assert_array_equal(nn.logsumexp(x, axis), nn.logsumexp(x, wanted))
        np.testing.assert_array_equal(nn.softmax(x, axis), nn.softmax(x, wanted))
    with pytest.raises(veery.errors.ConcretizationTypeError, match="axis argument must be known"):
        veery.jit(lambda axis: nn.logsumexp(x, (axis,)))(0)
