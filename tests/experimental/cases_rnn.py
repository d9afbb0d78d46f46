"""Cases of `experimental.rnn`."""

from __future__ import annotations

import numpy as np
from support.recorded import module

I, H, T, B = 3, 2, 4, 2
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(B, T, I)).astype(np.float32)
LENGTHS = np.array([4, 2], np.int32)


def states(layers, directions):
    made = np.random.default_rng(1).normal(size=(2, layers * directions, B, H)).astype(np.float32)
    return made[0], made[1]


def run(rnn, layers, bidirectional, weights, x=X):
    parts = rnn.unpack_lstm_weights(weights, I, H, layers, bidirectional)
    h, c = states(layers, 1 + bidirectional)
    return rnn.lstm_ref(x, h, c, *parts, LENGTHS, I, H, layers, 0.0, bidirectional)


def case(layers, bidirectional, what):
    def run_it(jax):
        rnn = module(jax, "experimental.rnn")
        size = rnn.get_num_params_in_lstm(I, H, layers, bidirectional)
        weights = np.random.default_rng(2).normal(size=size).astype(np.float32)
        return what(jax, rnn, layers, bidirectional, weights)

    return run_it


def outputs(jax, rnn, layers, bidirectional, weights):
    return run(rnn, layers, bidirectional, weights)


def gradients(jax, rnn, layers, bidirectional, weights):
    loss = lambda w, x: sum((leaf**2).sum() for leaf in run(rnn, layers, bidirectional, w, x))
    return jax.grad(loss, argnums=(0, 1))(weights, X)


def layout(jax, rnn, layers, bidirectional, weights):
    sizes = I, H, layers, bidirectional
    parts = rnn.unpack_lstm_weights(jax.numpy.asarray(weights), *sizes)
    return rnn.get_num_params_in_lstm(*sizes), parts, rnn.swap_lstm_gates(jax.numpy.asarray(weights), *sizes)


def dropout(jax):
    rnn = module(jax, "experimental.rnn")
    h, c = states(1, 1)
    weights = np.zeros(rnn.get_num_params_in_lstm(I, H, 1, False), np.float32)
    return rnn.lstm_ref(X, h, c, *rnn.unpack_lstm_weights(weights, I, H, 1, False), LENGTHS, I, H, 1, 0.5, False)


CASES = {
    **{
        f"{what.__name__} of {layers} layers{' in both directions' * both}": case(layers, both, what)
        for what, layers, both in ((outputs, 1, True), (gradients, 2, True), (layout, 2, True), (layout, 1, False))
    },
    "first weights": lambda jax: module(jax, "experimental.rnn").init_lstm_weight(jax.random.PRNGKey(0), I, H, 2, True),
    "dropout": dropout,
}
