"""`vectorize`: what its functions may take and give, and what it refuses."""

import numpy as np
import pytest

import veery as jax
import veery.numpy as jnp


def test_results_without_a_signature_have_any_shape():
    spread = jnp.vectorize(lambda x: (x + jnp.arange(3), x))
    pairs, same = spread(jnp.array([10, 20]))
    np.testing.assert_array_equal(pairs, [[10, 11, 12], [20, 21, 22]])
    np.testing.assert_array_equal(same, [10, 20])


@pytest.mark.parametrize("given", [0, 1])
def test_none_is_passed_as_it_is(given):
    either = jnp.vectorize(lambda x, y: 2 * y if x is None else 3 * x if y is None else x + y)
    x = np.arange(4)
    np.testing.assert_array_equal(either(*[x if i == given else None for i in range(2)]), [3 * x, 2 * x][given])
    np.testing.assert_array_equal(either(x, x), 2 * x)


@pytest.mark.parametrize(
    "signature, arguments, error, message",
    [
        ("(k),(k)->(k)", (np.arange(3), None), ValueError, r"Cannot pass None at locations \{1\} with signature="),
        ("(),()->(),()", (1, 2), TypeError, "output must be a tuple when multiple outputs are expected"),
        ("(),()->(),(),()", (1, 2), TypeError, "output must be a tuple"),
        ("()->()", (1, 2), TypeError, "wrong number of positional arguments: expected 1, got 2"),
        ("(),()->(n)", (1, 2), ValueError, "does not match core dimensions"),
    ],
)
def test_refused(signature, arguments, error, message):
    with pytest.raises(error, match=message):
        jnp.vectorize(lambda *xs: xs[0], signature=signature)(*arguments)


@pytest.mark.parametrize("axis", range(4))
def test_apply_along_axis_keeps_the_order_of_axes(axis):
    x = np.arange(120).reshape(2, 3, 4, 5)
    for fun in (lambda v: v[::-1] * 2, lambda v: v.sum(), lambda v: v[:, None] * v[:1]):
        np.testing.assert_array_equal(jnp.apply_along_axis(fun, axis, x), np.apply_along_axis(fun, axis, x))


def test_ranks_that_differ():
    add = jnp.vectorize(jnp.add, signature="(),()->()")
    matrix, row, number = jnp.zeros((2, 2)), jnp.zeros(2), jnp.zeros(())
    message = r"operands with shapes \[\(2, 2\), \(2,\)\] require rank promotion"
    with jax.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match=message):
            add(matrix, row)
        assert add(matrix, number).shape == (2, 2)
        assert jnp.vectorize(jnp.add, signature="(n),()->(n)")(matrix, row).shape == (2, 2)
    with jax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match=message):
        add(matrix, row)
