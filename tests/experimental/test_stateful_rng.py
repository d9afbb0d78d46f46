"""`experimental.random`, beside what JAX 0.10.2 draws."""

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery.experimental.random import StatefulPRNG, stateful_rng

pytestmark = pytest.mark.compiler


def test_draws_are_those_of_jax():
    rng = stateful_rng(42)
    assert [float(rng.uniform()) for _ in range(2)] == [np.float32(0.5302608), np.float32(0.72766423)]
    drawn = veery.jit(rng.uniform)
    assert [float(drawn()) for _ in range(2)] == [np.float32(0.6672406), np.float32(0.3890121)]
    assert veery.random.key_data(rng.key()).tolist() == [2954079971, 3276725750]
    children = stateful_rng(123).spawn(2)
    assert [child.integers(0, 10, 2).tolist() for child in children] == [[4, 5], [2, 1]]


def test_each_call_of_a_batch_has_its_generator():
    rng = stateful_rng(123)
    together = rng.split(3)
    found = veery.vmap(lambda rng, x: x + rng.uniform())(together, jnp.zeros(3))
    np.testing.assert_array_equal(found, np.array([0.35525954, 0.21937883, 0.5336956], np.float32))
    with pytest.raises(ValueError, match="split stateful generator"):
        together.key()


def test_shapes_follow_the_arguments():
    rng = stateful_rng(0)
    assert rng.random(3).shape == (3,) and rng.uniform(jnp.zeros(2), 1).shape == (2,)
    assert rng.normal(0, jnp.ones((2, 1)), dtype=jnp.float16).dtype == jnp.float16
    assert rng.integers(5, size=(2, 3)).shape == (2, 3)
    assert rng.key(2).shape == (2,)


def test_what_is_no_generator_is_refused():
    with pytest.raises(ValueError, match="typed PRNG key"):
        StatefulPRNG(jnp.ones(2), veery.new_ref(0))
    with pytest.raises(ValueError, match="scalar integer ref"):
        StatefulPRNG(veery.random.key(0), 0)
    with pytest.raises(TypeError, match="requires an explicit seed"):
        veery.jit(lambda: stateful_rng().uniform())()
    assert stateful_rng().random() != stateful_rng().random()
