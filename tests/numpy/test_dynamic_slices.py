"""Slices of a traced start in index expressions, on arrays and references."""

from __future__ import annotations

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import ds

X, Y = np.arange(8.0), np.arange(24.0).reshape(4, 6)


def equal(found, expected):
    np.testing.assert_array_equal(found, expected)


def test_what_ds_makes():
    assert ds(None) == slice(None) and ds(3) == ds(0, 3) and repr(ds(1, 3, 2)) == "Slice(start=1, size=3, stride=2)"
    leaves, treedef = veery.tree.flatten(ds(jnp.int32(2), 3))
    assert [int(x) for x in leaves] == [2] and veery.tree.unflatten(treedef, [5]) == ds(5, 3)
    assert veery.tree.leaves(ds(2, 3)) == []
    with pytest.raises(ValueError, match="`stride` must be >= 0"):
        ds(0, 2, -1)
    with pytest.raises(ValueError, match="Non-static stride in `dslice`"):
        ds(0, 2, jnp.int32(1))
    with pytest.raises(veery.errors.TracerIntegerConversionError):
        veery.make_jaxpr(lambda n: jnp.arange(8)[ds(0, n)])(2)


@pytest.mark.parametrize("start", [2, jnp.int32(2)], ids=["known", "array"])
def test_reading(start):
    x, y = jnp.array(X), jnp.array(Y)
    equal(x[ds(start, 3)], X[2:5])
    equal(x[ds(start, 3, 2)], X[2:7:2])
    equal(y[1, ds(start, 2)], Y[1, 2:4])
    equal(y[ds(start, 2), None, 1:3], Y[2:4, None, 1:3])
    equal(y[..., ds(start, 2)], Y[..., 2:4])
    equal(y[jnp.array([0, 3]), ds(start, 2)], Y[[0, 3], 2:4])
    equal(y[ds(1, 2), ds(start, 2)], Y[1:3, 2:4])
    equal(x.at[ds(start, 2)].get(), X[2:4])
    equal(veery.vmap(lambda i: x[ds(i + start, 2)])(jnp.arange(3)), [X[2:4], X[3:5], X[4:6]])
    equal(veery.grad(lambda x: (x[ds(start, 2)] ** 2).sum())(x), [0, 0, 4, 6, 0, 0, 0, 0])


@pytest.mark.parametrize("start", [7, jnp.int32(7)], ids=["known", "array"])
def test_out_of_bounds_reading_moves_and_writing_leaves_out(start):
    x = jnp.array(X)
    equal(x[ds(start, 3)], X[5:])
    equal(x[ds(start - 9, 2)], X[6:])
    equal(x.at[ds(start, 3)].set(-1), X)
    equal(x.at[ds(start, 3)].set(-1, mode="clip"), [0, 1, 2, 3, 4, -1, -1, -1])
    with pytest.raises(TypeError, match="slice_sizes must be less than or equal to operand shape"):
        x[ds(start, 9)]


@pytest.mark.parametrize("start", [2, jnp.int32(2)], ids=["known", "array"])
def test_writing(start):
    x, y = jnp.array(X), jnp.array(Y)
    equal(x.at[ds(start, 2)].set(jnp.array([5.0, 6.0])), [0, 1, 5, 6, 4, 5, 6, 7])
    equal(x.at[ds(start, 2, 2)].set(-1), [0, 1, -1, 3, -1, 5, 6, 7])
    equal(x.at[ds(start, 2)].apply(jnp.negative), [0, 1, -2, -3, 4, 5, 6, 7])
    expected = Y.copy()
    expected[0, 2:4] += 100
    equal(y.at[0, ds(start, 2)].add(100), expected)
    expected[[1, 3], 2:4] /= 2
    equal(y.at[0, ds(start, 2)].add(100).at[jnp.array([1, 3]), ds(start, 2)].divide(2), expected)


def references(i):
    ref = veery.new_ref(jnp.array(Y))
    ref[0, ds(i, 3)] = jnp.ones(3)
    ref[ds(i, 2), ds(1, 2)] = ref[ds(i, 2), ds(1, 2)] * 2
    veery.ref.addupdate(ref, (1, ds(i, 2, 2)), jnp.ones(2))
    read = veery.ref.get(ref, ds(i, 2))
    return read, veery.ref.swap(ref, (jnp.array([0, 3]), ds(i, 1)), jnp.zeros((2, 1))), ref[...]


def test_references():
    expected = Y.copy()
    expected[0, 1:4] = 1
    expected[1:3, 1:3] *= 2
    expected[1, 1:4:2] += 1
    read, swapped = expected[1:3].copy(), expected[[0, 3], 1:2].copy()
    expected[[0, 3], 1:2] = 0
    for found in (references(1), veery.jit(references)(1), veery.vmap(references)(jnp.array([1]))):
        for each, right in zip(found, (read, swapped, expected)):
            equal(each.reshape(right.shape), right)
    text = str(veery.make_jaxpr(references)(1))
    assert "[:,c:c+3][0,:] <- " in text and "[c:c+2,:]\n" in text
    with pytest.raises(ValueError, match="Out of bound slice: start=7, size=3, stride=1, dim=8"):
        veery.new_ref(jnp.array(X))[ds(7, 3)]
