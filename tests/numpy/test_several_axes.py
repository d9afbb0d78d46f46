"""Axes are given as an int, or as anything that can be gone through."""

from __future__ import annotations

import numpy as np
import pytest

import veery.numpy as jnp

pytestmark = pytest.mark.compiler

X = np.arange(6.0, dtype=np.float32).reshape(1, 1, 2, 3)


@pytest.mark.parametrize("axes", [range(2), np.array([0, 1]), iter([0, 1])], ids=["range", "array", "iterator"])
def test_several(axes):
    assert jnp.expand_dims(X, axes).shape == (1, 1, *X.shape)


@pytest.mark.parametrize("axes", [range(-2, 0), np.array([2, 3]), [2, 3]], ids=["range", "array", "list"])
@pytest.mark.parametrize("name", ["sum", "max", "mean", "flip"])
def test_functions_of_axes(name, axes):
    expected = getattr(np, name)(X, tuple(axes))
    assert np.array_equal(getattr(jnp, name)(X, axes), expected)


def test_other_functions():
    assert jnp.squeeze(X, range(2)).shape == (2, 3)
    assert jnp.moveaxis(X, range(2), range(2, 4)).shape == (2, 3, 1, 1)
    assert np.array_equal(jnp.roll(X, (1, 2), range(2, 4)), np.roll(X, (1, 2), (2, 3)))
    assert np.array_equal(jnp.sum(X, np.array(3)), X.sum(3))


def test_what_is_no_axis():
    with pytest.raises(TypeError, match="must be a concrete integer, got 1.0"):
        jnp.sum(X, 1.0)
