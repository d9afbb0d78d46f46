"""Random values equal those of JAX 0.10.2, recorded in recorded.json, bit for bit."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from recorded_cases import CASES

import veery

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_values_are_jax_bit_for_bit(name):
    check_bits(name, CASES[name](veery, veery.random.PRNGKey(42)))


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["normal", "truncated normal", "uniform", "under vmap", "under scan"])
def test_values_of_a_constant_key_are_the_same(name):
    check_bits(name, veery.jit(lambda: CASES[name](veery, veery.random.PRNGKey(42)))())
    words = np.array([0, 42], np.uint32)
    wrapped = veery.jit(lambda: CASES[name](veery, veery.random.wrap_key_data(words)))
    check_bits(name, wrapped())


def check_bits(name, actual):
    entry = RECORDED[name]
    expected = np.frombuffer(base64.b64decode(entry["data"]), entry["dtype"]).reshape(entry["shape"])
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.view(np.uint8), expected.view(np.uint8))


def test_every_recorded_value_is_compared():
    assert set(CASES) == set(RECORDED)


def test_keys_are_checked():
    with pytest.raises(TypeError):
        veery.random.uniform(1.5)
    with pytest.raises(ValueError, match="single key"):
        veery.random.split(veery.random.split(veery.random.key(0)))
