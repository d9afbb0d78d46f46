"""Random values equal those of JAX 0.10.2, recorded in recorded.json, bit for bit."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from recorded_cases import CASES
from support.days import of_the_day

import veery
from veery.lax import _rng

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


SAMPLERS = {
    "gumbel": lambda key: veery.random.gumbel(key, (33, 5)),
    "logistic": lambda key: veery.random.logistic(key, (33, 5)),
    "laplace": lambda key: veery.random.laplace(key, (33, 5)),
    "gamma": lambda key: veery.random.gamma(key, 2.5, (33, 5)),
    "beta": lambda key: veery.random.beta(key, 2.0, 0.5, (33, 5)),
    "pareto": lambda key: veery.random.pareto(key, 2.0, (33, 5)),
    "lognormal": lambda key: veery.random.lognormal(key, 1.0, (33, 5)),
    "cauchy": lambda key: veery.random.cauchy(key, (33, 5)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", of_the_day(list(SAMPLERS), 2))
def test_values_are_the_same_beside_what_reads_them(name):
    """Their last operations are products, which compilers fuse with sums that read them."""
    f, keys = SAMPLERS[name], veery.random.split(veery.random.key(3), 3)
    alone = veery.jit(lambda keys: [f(key) for key in keys])(keys)
    scaled = veery.jit(lambda one: f(keys[0]) * one + 0 * one)(np.float32(1))
    batched = veery.jit(veery.vmap(f))(keys)
    looped = veery.jit(lambda keys: veery.lax.scan(lambda c, key: (c, f(key)), 0, keys)[1])(keys)
    np.testing.assert_array_equal(scaled, alone[0])
    np.testing.assert_array_equal(batched, alone)
    np.testing.assert_array_equal(looped, alone)


@pytest.mark.compiler
def test_a_sample_that_overflows_is_infinite_also_where_it_is_subtracted_from():
    key, sample = veery.random.key(0), lambda key: veery.random.lognormal(key, 60.0, (10_000,))
    infinite = np.isinf(sample(key))
    assert infinite.any()
    np.testing.assert_array_equal(np.isinf(veery.jit(lambda key: sample(key) - np.float32(3e38))(key)), infinite)


def check_bits(name, actual):
    entry = RECORDED[name]
    expected = np.frombuffer(base64.b64decode(entry["data"]), entry["dtype"]).reshape(entry["shape"])
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.view(np.uint8), expected.view(np.uint8))


def test_every_recorded_value_is_compared():
    assert set(CASES) == set(RECORDED)


@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (64,)])
def test_bits_of_few_words_are_those_of_many(shape, monkeypatch):
    operands = [np.random.default_rng(3).integers(0, 2**32, s, np.uint32) for s in ((), shape, (), shape)]
    operands[1].flat[0], operands[3].flat[-1] = 2**32 - 1, 0
    few = _rng.threefry2x32_reference(*operands)
    monkeypatch.setattr(_rng, "_FEW", 0)
    with np.errstate(over="ignore"):
        many = _rng.threefry2x32_reference(*operands)
    for x, y in zip(few, many, strict=True):
        assert x.dtype == y.dtype and np.array_equal(x, y)


def test_keys_are_checked():
    with pytest.raises(TypeError):
        veery.random.uniform(1.5)
    for count in (-1, (2, -1)):
        with pytest.raises(ValueError, match="nonnegative number of keys"):
            veery.random.split(veery.random.key(0), count)
    with pytest.raises(ValueError, match="single key"):
        veery.random.split(veery.random.split(veery.random.key(0)))
