"""Types that `vmap` takes as wholes."""

from __future__ import annotations

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery.interpreters import batching


class Columns:
    """A pytree whose array has the batch as its last axis, and a table that all elements share."""

    def __init__(self, data, table):
        self.data, self.table = data, table

    shape = property(lambda self: self.data.shape[::-1])


veery.tree_util.register_pytree_node(Columns, lambda x: ((x.data, x.table), None), lambda _, xs: Columns(*xs))


@pytest.fixture
def columns(in_numpy):
    seen = []

    def to_elt(cont, index, x, axis):
        seen.append(axis)
        return Columns(cont(x.data, -1) + index(), x.table)

    def from_elt(cont, size, x, axis):
        seen.append((size, axis))
        return Columns(cont(size, x.data, -1), x.table)

    batching.register_vmappable(Columns, int, int, to_elt, from_elt, None)
    yield seen
    batching.unregister_vmappable(Columns)


DATA = np.arange(6.0).reshape(3, 2)


def test_objects_are_mapped_as_wholes(columns):
    def f(x, y):
        assert x.data.shape == (3,) and x.table.shape == (4,)
        return Columns(x.data * y, x.table), x.data.sum()

    batch = Columns(DATA, np.ones(4))
    (out, total) = veery.vmap(f)(batch, jnp.array([1.0, 10.0]))
    indexed = DATA + [0, 1]
    assert np.array_equal(out.data, indexed * [1, 10]) and out.table.shape == (4,)
    assert np.array_equal(total, indexed.sum(0))
    assert columns == [0, (2, 0)]


def test_within_another_vmap(columns):
    f = veery.vmap(lambda x, y: Columns(x.data * y, x.table))
    many = veery.vmap(lambda y: f(Columns(DATA, np.ones(4)), y).data)(np.array([[1.0, 2], [3, 4]]))
    assert np.array_equal(many, [(DATA + [0, 1]) * y for y in ([1, 2], [3, 4])])


def test_what_varies_needs_an_axis(columns):
    def unplaced(cont, size, x, axis):
        return Columns(cont(size, x.data, None), x.table)

    batching.register_vmappable(
        Columns, int, int, lambda cont, index, x, axis: Columns(cont(x.data, 1), 0), unplaced, None
    )
    with pytest.raises(ValueError, match="out_axes is None"):
        veery.vmap(lambda x: x)(Columns(DATA, 0))


def test_other_pytrees_are_taken_apart(in_numpy):
    out = veery.vmap(lambda x: Columns(x.data * 2, x.table))(Columns(DATA, np.ones(3)))
    assert np.array_equal(out.data, DATA * 2) and out.table.shape == (3,)
