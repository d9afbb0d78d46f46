"""`lax.rng_bit_generator` and keys of rbg beside JAX 0.10.2 (recorded/bit_generators.json), bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases_bit_generators import CASES, END, STATE
from support.recorded import check, read

import veery
import veery.numpy as jnp
from veery import lax, random

RECORDED = read(Path(__file__).with_name("recorded") / "bit_generators.json")
pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name], rtol=1e-6 if "numbers" in name else 0, atol=0)


def test_states_of_another_type_are_refused():
    for state in (np.zeros(2, np.uint32), np.zeros(4, np.int32), np.zeros((2, 4), np.uint32)):
        with pytest.raises(TypeError, match=r"uint32\[4\]"):
            lax.rng_bit_generator(state, (3,))


def test_batches_are_what_each_gives():
    states = jnp.stack([STATE, END, STATE[::-1]])
    after, bits = veery.vmap(lambda s: lax.rng_bit_generator(s, (6,)))(states)
    for i, state in enumerate(states):
        one, made = lax.rng_bit_generator(state, (6,))
        assert after[i].tolist() == one.tolist() and bits[i].tolist() == made.tolist()


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_keys_under_transformations(impl):
    keys = random.split(random.key(3, impl=impl), 4)
    draw = lambda key: random.uniform(key, (2,))
    wanted = [draw(key).tolist() for key in keys]
    assert veery.jit(veery.vmap(draw))(keys).tolist() == wanted
    assert lax.map(draw, keys).tolist() == wanted
    assert len({str(row) for row in wanted}) == 4


def test_generators_have_keys_of_their_own():
    key = random.key(0, impl="rbg")
    assert key.dtype != random.key(0).dtype and key.dtype == random.key_dtype("rbg")
    assert random.clone(key).dtype == key.dtype
    with pytest.raises(TypeError):
        random.uniform(random.PRNGKey(0, impl="rbg"))  # raw keys are of the default generator
