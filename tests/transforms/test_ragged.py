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


def test_errors(in_numpy):
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
