"""Random values equal those of JAX 0.10.2, recorded in recorded.json, bit for bit."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

import veery

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())

CASES = {
    "PRNGKey": lambda jax, k: jax.random.PRNGKey(1234567),
    "split": lambda jax, k: jax.random.split(k, 5),
    "split by shape": lambda jax, k: jax.random.split(k, (2, 3)),
    "fold_in": lambda jax, k: jax.random.fold_in(k, 77),
    "typed keys": lambda jax, k: jax.random.key_data(jax.random.split(jax.random.key(42), 3)),
    "bits": lambda jax, k: jax.random.bits(k, (7,)),
    "bits of 16": lambda jax, k: jax.random.bits(k, (5, 3), "uint16"),
    "bits of 8": lambda jax, k: jax.random.bits(k, (9,), "uint8"),
    "uniform": lambda jax, k: jax.random.uniform(k, (101,)),
    "uniform between": lambda jax, k: jax.random.uniform(k, (33,), minval=-3.0, maxval=5.0),
    "normal": lambda jax, k: jax.random.normal(k, (257,)),
    "randint": lambda jax, k: jax.random.randint(k, (50,), -7, 1000),
    "randint of 8 bits": lambda jax, k: jax.random.randint(k, (20,), 0, 100, "int8"),
    "bernoulli": lambda jax, k: jax.random.bernoulli(k, 0.3, (64,)),
    "permutation of a range": lambda jax, k: jax.random.permutation(k, 23),
    "permutation of rows": lambda jax, k: jax.random.permutation(k, jax.numpy.arange(12).reshape(6, 2)),
    "truncated normal": lambda jax, k: jax.random.truncated_normal(k, -1.0, 2.0, (40,)),
    "rademacher": lambda jax, k: jax.random.rademacher(k, (16,)),
    "choice": lambda jax, k: jax.random.choice(k, 10, (4,), replace=False),
    "under jit": lambda jax, k: jax.jit(lambda key: jax.random.normal(key, (3, 5)))(k),
    "under vmap": lambda jax, k: jax.vmap(lambda key: jax.random.uniform(key, (4,)))(jax.random.split(k, 3)),
    "under scan": lambda jax, k: jax.lax.scan(
        lambda key, _: (jax.random.split(key)[0], jax.random.bits(key, (2,))), k, None, length=4
    )[1],
}


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
