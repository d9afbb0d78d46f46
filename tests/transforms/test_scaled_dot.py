"""Products of arrays in blocks with scales, beside NumPy's of what the blocks stand for."""

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax

pytestmark = pytest.mark.compiler

RNG = np.random.default_rng(0)


def array(*shape, dtype="float8_e4m3fn"):
    """Small integers, whose products are exact in bfloat16."""
    return jnp.asarray(RNG.integers(-3, 4, shape)).astype(dtype)


def scale(*shape):
    return jnp.asarray(2.0 ** RNG.integers(-2, 3, shape)).astype("float8_e8m0fnu")


def expanded(x, scales, axes):
    x, scales = np.asarray(x).astype(np.float64), np.asarray(scales).astype(np.float64)
    for axis in axes:
        scales = np.repeat(scales, x.shape[axis] // scales.shape[axis], axis)
    return x * scales


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float32", "bfloat16"])
def test_blocks_of_matrices_are_scaled(dtype, compiled):
    a, b, s, t = array(2, 3, 8, dtype=dtype), array(2, 8, 4, dtype=dtype), scale(2, 3, 2), scale(2, 4, 4)
    dot = lambda a, b, s, t: lax.scaled_dot(a, b, lhs_scale=s, rhs_scale=t, preferred_element_type=jnp.float32)
    out = (veery.jit(dot) if compiled else dot)(a, b, s, t)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out, expanded(a, s, [2]) @ expanded(b, t, [1]))


def test_the_result_is_bfloat16_and_a_scale_may_be_left_out():
    a, b, t = array(3, 8), array(8, 4), scale(2, 4)
    out = lax.scaled_dot(a, b, rhs_scale=t)
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(out.astype("float32"), np.asarray(a, float) @ expanded(b, t, [0]), rtol=2**-8)
    np.testing.assert_allclose(
        lax.scaled_dot(a, b).astype("float32"), np.asarray(a, float) @ np.asarray(b, float), rtol=2**-8
    )


def test_several_dimensions_are_contracted_and_batched_in_any_place():
    a, b, s, t = array(4, 3, 2, 6), array(4, 6, 2, 5), scale(2, 3, 2, 3), scale(1, 2, 2, 5)
    numbers = (((0, 3), (0, 1)), ((2,), (2,)))
    how = {"dimension_numbers": numbers, "preferred_element_type": np.float32}
    out = lax.scaled_dot(a, b, lhs_scale=s, rhs_scale=t, **how)
    expected = np.einsum("kijl,kljn->jin", expanded(a, s, [0, 3]), expanded(b, t, [0, 1]))
    np.testing.assert_array_equal(out, expected)


def test_vmap():
    a, b, s = array(5, 3, 8), array(8, 4, 5), scale(5, 3, 2)
    dot = lambda a, b, s: lax.scaled_dot(a, b, lhs_scale=s, preferred_element_type=np.float32)
    out = veery.jit(veery.vmap(dot, in_axes=(0, 2, 0)))(a, b, s)
    np.testing.assert_array_equal(out, expanded(a, s, [2]) @ np.asarray(b, float).transpose(2, 0, 1))


@pytest.mark.parametrize(
    "shapes, message",
    [
        (((8,), (8,), None), "does not support 0-rank and 1-rank operands"),
        (((3, 8), (2, 8, 4), None), "must have the same rank. Got lhs rank: 2 rhs rank: 3"),
        (((2, 3, 8), (3, 8, 4), None), r"the same batch dimension size for batch dims \(0, 0\)"),
        (((3, 8), (6, 4), None), "LHS contracting dim 1 of size 8 does not match RHS contracting dim 0 of size 6"),
        (((3, 8), (8, 4), (3, 3)), "LHS contracting dim 1 of size 8 must be divisible by its scale's dim size 3"),
        (
            ((3, 8), (8, 4), (3, 8)),
            r"The ratio of LHS contracting dim 1 to its scale's dim size \(1\) must be at least",
        ),
        (((3, 8), (8, 4), (1, 2)), "LHS dim 0 of size 3 does not match scale dim size 1"),
        (((3, 8), (8, 4), (2,)), "Got LHS rank: 2 and its scale's rank: 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(shapes, message):
    lhs, rhs, scales = shapes
    with pytest.raises(TypeError, match=message):
        lax.scaled_dot(jnp.ones(lhs), jnp.ones(rhs), lhs_scale=None if scales is None else jnp.ones(scales))
