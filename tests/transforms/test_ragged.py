"""Products of rows with the matrices of their groups, against a loop."""

from __future__ import annotations

import numpy as np
import pytest

import veery
from veery import lax

ROWS = np.arange(15.0).reshape(5, 3) / 7
MATRICES = np.arange(24.0).reshape(2, 3, 4) / 5


def expected(rows, matrices, sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)[: len(rows)]
    found = [row @ matrices[group] for row, group in zip(rows, groups)]
    return np.stack(found + [np.zeros(matrices.shape[2])] * (len(rows) - len(found)))


@pytest.mark.parametrize("sizes", [(2, 3), (0, 5), (1, 2), (4, 3)])
def test_values_derivatives_and_batches(in_numpy, sizes):
    sizes = np.array(sizes, np.int32)
    f = lambda rows, matrices: lax.ragged_dot(rows, matrices, sizes)
    np.testing.assert_allclose(f(ROWS, MATRICES), expected(ROWS, MATRICES, sizes), rtol=1e-12)
    veery.test_util.check_grads(f, (ROWS, MATRICES), order=2, modes=["fwd", "rev"])
    batch = veery.vmap(lax.ragged_dot, in_axes=(0, None, 0))(
        np.stack([ROWS, -ROWS]), MATRICES, np.stack([sizes, sizes[::-1]])
    )
    np.testing.assert_allclose(batch[0], expected(ROWS, MATRICES, sizes), rtol=1e-12)
    np.testing.assert_allclose(batch[1], expected(-ROWS, MATRICES, sizes[::-1]), rtol=1e-12)


def dims(contracting, batch, ragged, group=()):
    return lax.RaggedDotDimensionNumbers((contracting, batch), (ragged,), group)


A, B = np.sin(np.arange(36.0)).reshape(2, 6, 3), np.cos(np.arange(48.0)).reshape(2, 6, 4)
SIZES = np.array([[2, 3], [1, 5]], np.int32)
PARTS = [(slice(0, 2), slice(2, 5)), (slice(0, 1), slice(1, 6))]


def parted(a, b):
    """For each batch, the product of each group's rows."""
    return np.stack([[a[i, p].T @ b[i, p] for i, p in enumerate(parts)] for parts in zip(*PARTS)])


def rows_by_group(a, c):
    out = np.zeros((2, 6, 4))
    for i, parts in enumerate(PARTS):
        for g, part in enumerate(parts):
            out[i, part] = a[i, part] @ c[g, i]
    return out


@pytest.mark.parametrize(
    "a, b, sizes, numbers, reference",
    [
        (A[0], B[0], SIZES[0], dims(((0,), (0,)), ((), ()), 0), lambda a, b: parted(A, B)[:, 0]),
        (A, B, SIZES, dims(((1,), (1,)), ((0,), (0,)), 1), parted),
        (A, np.stack([MATRICES, -MATRICES], 1), SIZES, dims(((2,), (2,)), ((0,), (1,)), 1, (0,)), rows_by_group),
        (A, MATRICES, SIZES, dims(((2,), (1,)), ((), ()), 1, (0,)), lambda a, c: rows_by_group(a, np.stack([c, c], 1))),
        (A[0], B[0], SIZES[0], dims(((), ()), ((0,), (0,)), 0),
         lambda a, b: (np.arange(6) < 5)[:, None, None] * a[:, :, None] * b[:, None, :]),
    ],
    ids=["contracted", "contracted, in batches", "free, in batches", "free, behind others", "batch"],
)  # fmt: skip
def test_other_dimensions(in_numpy, a, b, sizes, numbers, reference):
    f = lambda a, b: lax.ragged_dot_general(a, b, sizes, numbers)
    np.testing.assert_allclose(f(a, b), reference(a, b), rtol=1e-12, atol=1e-12)
    veery.test_util.check_grads(f, (a, b), order=1, modes=["fwd", "rev"])


def test_errors(in_numpy):
    for wrong, message in (
        (dims(((1,), (1,)), ((), ()), 0), "expects 1 rhs group dimensions where the ragged dimension of lhs is free"),
        (dims(((1,), (1,)), ((), ()), 1, (0,)), "expects 0 rhs group dimensions"),
        (lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (), ()), "exactly one lhs ragged dimension"),
    ):
        with pytest.raises(TypeError, match=message):
            lax.ragged_dot_general(ROWS, MATRICES, np.array([2, 3]), wrong)
    with pytest.raises(TypeError, match="group_sizes of shape"):
        lax.ragged_dot_general(A, MATRICES, SIZES[:1], dims(((2,), (1,)), ((), ()), 1, (0,)))
    sizes = np.array([2, 3], np.int32)
    with pytest.raises(TypeError, match="contracting dimensions to have the same shape"):
        lax.ragged_dot(ROWS, MATRICES[:, :2], sizes)
    with pytest.raises(TypeError, match="integer dtype"):
        lax.ragged_dot(ROWS, MATRICES, sizes.astype(float))
    with pytest.raises(TypeError, match="2 groups, group_sizes has 1"):
        lax.ragged_dot(ROWS, MATRICES, sizes[:1])
    with pytest.raises(TypeError, match="takes lhs of shape"):
        lax.ragged_dot(ROWS[0], MATRICES, sizes)
    with pytest.raises(NotImplementedError, match="group_offset"):
        lax.ragged_dot(ROWS, MATRICES, sizes, group_offset=np.array([0]))
