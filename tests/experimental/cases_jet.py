"""Cases of `experimental.jet`."""

from __future__ import annotations

import numpy as np
from support.recorded import module

# Functions of one number or vector, of which JAX has rules too.
FUNCTIONS = {
    "sin": lambda jax, x: jax.numpy.sin(x),
    "exp": lambda jax, x: jax.numpy.exp(2 * x),
    "log": lambda jax, x: jax.numpy.log(x),
    "tanh": lambda jax, x: jax.numpy.tanh(x),
    "logistic": lambda jax, x: jax.nn.sigmoid(x),
    "sqrt": lambda jax, x: jax.numpy.sqrt(x),
    "integer_pow": lambda jax, x: x**5,
    "pow": lambda jax, x: x**1.7,
    "powers of each other": lambda jax, x: x**x,
    "division": lambda jax, x: jax.numpy.cos(x) / (1 + x * x),
    "matrices": lambda jax, x: jax.numpy.sin(np.arange(6, dtype=np.float32).reshape(2, 3) @ x) * 2,
    "sums": lambda jax, x: jax.numpy.cumsum(x)[::-1].sum() * x[:2],
    "erf": lambda jax, x: jax.lax.erf(x),
    "expm1": lambda jax, x: jax.numpy.expm1(x) + jax.numpy.log1p(x),
    "maximum": lambda jax, x: jax.numpy.maximum(x, 0.5 * x * x) + jax.numpy.abs(x),
    "select": lambda jax, x: jax.numpy.where(x > 0.3, x * x, 1 / x),
    "a network": lambda jax, x: jax.numpy.tanh(
        jax.numpy.outer(jax.numpy.tanh(x), np.ones(2, np.float32)).reshape(-1) @ np.ones((6, 2), np.float32)
    ),
    "jit": lambda jax, x: jax.jit(lambda x: jax.numpy.sin(x) * x)(x),
    "several results": lambda jax, x: (x, {"a": x * x}),
}
X = np.array([0.4, 0.9, 1.3], np.float32)
SERIES = [np.array(row, np.float32) for row in ([1.0, 0.5, -1.0], [0.2, 0.0, 0.7], [-0.3, 0.6, 0.0], [0.1, 0.1, 0.1])]


def jet(jax):
    return module(jax, "experimental.jet").jet


def of(function):
    return lambda jax: jet(jax)(lambda x: function(jax, x), (X,), (SERIES[:3],))


def two(jax):
    return jet(jax)(lambda x, y: x * jax.numpy.exp(y) - y / x, (X, X + 1), (SERIES[:2], SERIES[2:]))


CASES = {
    **{name: of(function) for name, function in FUNCTIONS.items()},
    "two arguments": two,
    "coefficients": lambda jax: jet(jax)(jax.numpy.sin, (X,), (SERIES[:3],), factorial_scaled=False),
    "no terms": lambda jax: jet(jax)(jax.numpy.sin, (X,), ([],)),
    "under jit": lambda jax: jax.jit(lambda x, s: jet(jax)(jax.numpy.sin, (x,), (s,)))(X, SERIES),
    "under grad": lambda jax: jax.grad(lambda x: jet(jax)(jax.numpy.sin, (x,), (SERIES,))[1][2].sum())(X),
    "under vmap": lambda jax: jax.vmap(lambda x: jet(jax)(jax.numpy.sin, (x,), ([np.float32(1.0)] * 2,)))(X),
    "lists of different lengths": lambda jax: jet(jax)(jax.numpy.add, (X, X), (SERIES[:1], SERIES[:2])),
    "a primal that is a dictionary": lambda jax: jet(jax)(lambda d: d["a"], ({"a": X},), (SERIES[:1],)),
    "a term that is a tuple": lambda jax: jet(jax)(jax.numpy.sin, (X,), ([(X,)],)),
    "too few arguments": lambda jax: jet(jax)(jax.numpy.add, (X, X), (SERIES[:1],)),
}
