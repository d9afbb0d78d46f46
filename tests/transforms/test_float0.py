"""The tangents of integers, arrays of float0: through jit, branches and loops, and in Jacobians."""

from __future__ import annotations

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax

X = np.array([0.5, 2.0, 1.5], np.float32)
FLOAT0 = veery.float0


def where(x):
    """The tangent of an integer."""
    return veery.jvp(jnp.argmax, (x,), (x,))[1]


def is_float0(x, shape=()):
    return x.dtype == FLOAT0 and x.shape == shape


@pytest.mark.compiler
def test_through_jit():
    def everything(x, i, t):
        product = lambda x, i: x * i
        return {
            "grad": veery.grad(lambda x, i: x[0] * i, argnums=(0, 1), allow_int=True)(x, i)[1],
            "jvp": veery.jvp(product, (x, i), (x, t))[1],
            "given back": t,
            "nested": veery.jit(lambda x, t: (where(x), t, x))(x, t),
            "branch": lax.cond(i > 2, lambda: (where(x), x), lambda: (t, -x)),
            "loop": lax.scan(lambda c, _: (c * 2, (where(c), c)), x, None, length=2)[1],
            "batch": veery.vmap(where)(jnp.stack([x, x])),
        }

    f = veery.jit(everything)
    for _ in range(2):
        found = f(X, np.int32(3), np.zeros((), FLOAT0))
        assert is_float0(found["grad"]) and is_float0(found["given back"]) and is_float0(found["batch"], (2,))
        np.testing.assert_allclose(found["jvp"], 3 * X)
        assert is_float0(found["nested"][0]) and is_float0(found["nested"][1])
        np.testing.assert_array_equal(found["nested"][2], X)
        assert is_float0(found["branch"][0]) and is_float0(found["loop"][0], (2,))
        np.testing.assert_array_equal(found["branch"][1], X)
        np.testing.assert_array_equal(found["loop"][1], [X, 2 * X])


@pytest.mark.parametrize("batched", [False, True])
def test_jacobians_of_integers_are_zero(in_numpy, batched):
    f = veery.jacfwd(lambda x: (x, lax.argmax(x, 0, np.int32), 4))
    of_x, of_index, of_constant = veery.vmap(f)(np.stack([X, X])) if batched else f(X)
    lead = (2,) if batched else ()
    assert of_x.shape == (*lead, 3, 3)
    assert of_index.shape == of_constant.shape == (*lead, 3) and of_index.dtype == np.int32
    assert not of_index.any() and not of_constant.any()


@pytest.mark.compiler
def test_jacobians_in_integers_are_zero_in_reverse_mode() -> None:
    i = np.arange(3, dtype=np.int8)
    for fun in (lambda x, i: (x * x, x), veery.jit(lambda x, i: (x * i[0], x))):
        jacobian = veery.jacrev(fun, argnums=(0, 1), allow_int=True)(X, i)
        for of_x, of_i in jacobian:
            assert of_x.shape == (*X.shape, *X.shape) and of_x.dtype == X.dtype
            assert of_i.shape == (*X.shape, 3) and of_i.dtype == np.int8 and not of_i.any()


def test_arrays_of_float0():
    zeros = jnp.zeros((2,), FLOAT0)
    for x in (
        jnp.ones(2, FLOAT0),
        jnp.full((2,), 1, FLOAT0),
        jnp.zeros_like(zeros),
        jnp.ones_like(jnp.arange(2), FLOAT0),
        jnp.array(zeros),
        jnp.asarray(zeros, device=veery.devices()[0]),
        lax.full((2,), 0, FLOAT0),
        veery.device_put(zeros),
        veery.jit(lambda: jnp.zeros((2,), FLOAT0))(),
    ):
        assert is_float0(x, (2,))
    np.testing.assert_array_equal(lax.convert_element_type(zeros, np.int32), np.zeros(2, np.int32))
    np.testing.assert_array_equal(jnp.array(zeros, float), np.zeros(2, np.float32))
