"""Pytrees as one vector."""

import numpy as np
import pytest

import veery.numpy as jnp
from veery.flatten_util import ravel_pytree


def test_round_trip():
    tree = {"a": jnp.ones((2, 2)), "b": (jnp.array([0, 1]), 5.0), "c": None}
    vector, unravel = ravel_pytree(tree)
    assert vector.dtype == np.float32 and np.asarray(vector).tolist() == [1, 1, 1, 1, 0, 1, 5]
    again = unravel(vector * 2)
    assert np.asarray(again["a"]).tolist() == [[2, 2], [2, 2]] and again["c"] is None
    assert again["b"][0].dtype == np.int32 and np.asarray(again["b"][0]).tolist() == [0, 2]
    assert again["b"][1].shape == () and float(again["b"][1]) == 10.0


def test_functions_of_equal_trees_are_equal():
    unravel, same, other = [ravel_pytree([jnp.ones(n)])[1] for n in (2, 2, 3)]
    assert unravel == same and hash(unravel) == hash(same) and unravel != other


def test_empty_tree():
    vector, unravel = ravel_pytree({"a": []})
    assert vector.shape == (0,) and vector.dtype == np.float32 and unravel(vector) == {"a": []}


@pytest.mark.compiler
def test_one_dtype_takes_that_of_the_vector():
    vector, unravel = ravel_pytree([jnp.ones(2), jnp.ones((1, 1))])
    assert unravel(vector.astype(jnp.float16))[1].dtype == np.float16


@pytest.mark.compiler
def test_errors():
    vector, unravel = ravel_pytree([jnp.ones(2), jnp.array([0, 1])])
    with pytest.raises(ValueError, match=r"array of shape \(3,\), but expected \(4,\)"):
        unravel(vector[:3])
    with pytest.raises(TypeError, match="array of dtype float16, but expected dtype float32"):
        unravel(vector.astype(jnp.float16))
    with pytest.raises(TypeError, match="Cannot determine dtype of x"):
        ravel_pytree({"a": "x"})


def test_real_leaves_beside_complex_ones_are_unraveled_without_a_warning():
    vector, unravel = ravel_pytree((jnp.ones(2), jnp.ones(1) * 1j))
    real, _ = unravel(vector)
    assert real.dtype == np.float32 and real.tolist() == [1, 1]
