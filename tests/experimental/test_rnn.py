"""`experimental.rnn` beside JAX 0.10.2, as recorded in recorded/rnn.json: of its reference, for lstm runs on GPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases_rnn import CASES, LENGTHS, H, I, X, run, states
from support.recorded import check, read

import veery
from veery.experimental import rnn

RECORDED = read(Path(__file__).with_name("recorded") / "rnn.json")
pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name], rtol=2e-5, atol=2e-5)


def test_lstm_unpacks_its_weights():
    weights = rnn.init_lstm_weight(veery.random.key(1), I, H, 1, True)
    found = rnn.lstm(X, *states(1, 2), weights, LENGTHS, I, H, 1, 0.0, True)
    for a, b in zip(found, run(rnn, 1, True, weights)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
