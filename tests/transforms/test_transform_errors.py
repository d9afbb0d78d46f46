"""What transformations refuse, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax

V3, V4 = np.ones(3, np.float32), np.ones(4, np.float32)
identity = lambda x: x


def raises(kind, words):
    return pytest.raises(kind, match=words)


def test_gradients_of_what_is_no_real_scalar():
    with raises(TypeError, r"Gradient only defined for scalar-output functions. Output had shape: \(3,\)"):
        veery.grad(identity)(V3)
    with raises(TypeError, "Gradient only defined for scalar-output functions. Output was"):
        veery.grad(lambda x: (x, x))(1.0)
    with raises(TypeError, "requires real- or complex-valued inputs .* but got int32"):
        veery.grad(identity)(1)
    with raises(TypeError, "requires real-valued outputs .* but got complex64"):
        veery.grad(identity)(1j)
    with raises(TypeError, "requires real-valued outputs .* but got int32"):
        veery.grad(lambda x: lax.convert_element_type(x, np.int32))(1.0)
    with raises(TypeError, "holomorphic=True requires inputs with complex dtype"):
        veery.grad(identity, holomorphic=True)(1.0)
    with raises(TypeError, "requires at least 3 positional arguments"):
        veery.grad(identity, argnums=2)(1.0)
    with raises(TypeError, "two-element tuple"):
        veery.grad(identity, has_aux=True)(1.0)


def test_masked_arrays():
    masked = np.ma.array(V3, mask=[True, False, False])
    for f in (veery.jit(identity), veery.vmap(lax.sin), veery.grad(lax.sin), lax.sin, jnp.asarray, veery.device_put):
        with raises(ValueError, r"masked arrays are not supported as direct inputs.*arr.filled\(\)"):
            f(masked)
    assert jnp.array([masked.filled(2)]).tolist() == [[2, 1, 1]]


def test_tangents_that_do_not_match():
    with raises(TypeError, "must have the same tree structure"):
        veery.jvp(lambda p: p["a"], ({"a": 1.0},), ({"b": 1.0},))
    with raises(TypeError, "primal dtype float32 and so expected tangent dtype float32, but got tangent dtype int32"):
        veery.jvp(identity, (np.float32(1),), (np.int32(1),))
    with raises(TypeError, "expected tangent dtype float16, but got tangent dtype float32"):
        veery.jvp(identity, (np.float16(1),), (1.0,))  # a Python number has a dtype of its own, too
    with raises(ValueError, "different primal and tangent shapes"):
        veery.jvp(identity, (V3,), (V4,))
    with raises(TypeError, "must be tuples or lists"):
        veery.jvp(identity, 1.0, 1.0)
    for tangents in ((), [1.0]):
        with raises(TypeError, "must have the same tree structure"):
            veery.jvp(lambda x, y=1.0: x * y, (1.0,), tangents)
    _, f_jvp = veery.linearize(identity, np.ones(2, np.int32))
    with raises(ValueError, "inconsistent with the original primal values"):
        f_jvp(np.ones(2, np.int32))


def test_cotangents_that_do_not_match():
    _, pullback = veery.vjp(lambda x: {"y": x}, V3)
    with raises(ValueError, "unexpected tree structure"):
        pullback(V3)
    with raises(ValueError, "unexpected JAX type"):
        pullback({"y": V4})
    for output, cotangent in ((np.float32(1), 1), (np.float16(1), 1.0), (np.complex64(1), 1.0)):
        with raises(ValueError, "unexpected JAX type"):
            veery.vjp(identity, output)[1](cotangent)
    with raises(TypeError, "single argument"):
        pullback({"y": V3}, {"y": V3})


def test_axes_that_do_not_match():
    with raises(ValueError, "vmap got inconsistent sizes for array axes to be mapped") as error:
        veery.vmap(lambda a, b: a)(V3, V4)
    assert "one axis had size 3: axis 0 of argument a of type float32[3]" in str(error.value)
    assert "one axis had size 4: axis 0 of argument b of type float32[4]" in str(error.value)
    with raises(ValueError, "at least one non-None value in in_axes"):
        veery.vmap(identity, in_axes=None)(V3)
    with raises(ValueError, r"len\(in_axes\)=1, len\(args\)=2"):
        veery.vmap(lambda a, b: a, in_axes=(0,))(V3, V3)
    with raises(ValueError, "implies that its rank should be at least 2, but is only 1"):
        veery.vmap(identity, in_axes=1)(V3)
    with raises(ValueError, "tree prefix"):
        veery.vmap(identity, in_axes=({"a": 0},))([V3])
    with raises(ValueError, "at vmap out_axes.*, got axis spec None but output was batched on axis 0"):
        veery.vmap(identity, out_axes=None)(V3)
    with raises(TypeError, "in_axes must be an int, None"):
        veery.vmap(identity, in_axes="x")
    with raises(TypeError, "out_axes must be an int, None, .*but got x"):
        veery.vmap(identity, out_axes="x")
    with raises(ValueError, r"the `axis_size` argument was 3;\n.*one axis had size 4: axis 0 of kwargs\['b'\] of type"):
        veery.vmap(lambda *, b: b, axis_size=3)(b=V4)
    with raises(ValueError, "must be passed at least one argument containing an array"):
        veery.vmap(identity)(None)


def test_control_flow_that_changes_types():
    with raises(TypeError, "carry input and carry output must have equal types") as error:
        lax.scan(lambda c, x: (lax.convert_element_type(c, np.int32), x), np.float32(0), V3)
    assert "has type float32[] but the corresponding output carry component has type int32[]" in str(error.value)
    with raises(TypeError, "same pytree structure"):
        lax.scan(lambda c, x: ((c, c), x), np.float32(0), V3)
    with raises(TypeError, "must be a pair"):
        lax.scan(lambda c, x: c, np.float32(0), V3)
    with raises(ValueError, "different leading axis sizes"):
        lax.scan(lambda c, x: (c, c), 0.0, (V3, V4))
    with raises(ValueError, "`length` argument of 5"):
        lax.scan(lambda c, x: (c, c), 0.0, V3, length=5)
    with raises(TypeError, "must return a boolean scalar"):
        lax.while_loop(lambda x: x, identity, 1.0)
    with raises(TypeError, "carry input and carry output must have equal types"):
        lax.while_loop(lambda x: True, lambda x: lax.broadcast(x, (2,)), np.float32(1))
    with raises(TypeError, "branches must have equal output types"):
        lax.cond(True, lambda x: x, lambda x: lax.broadcast(x, (2,)), 1.0)
    with raises(TypeError, "branches must have equal output types"):
        lax.cond(True, lambda: 1, lambda: 2.0)  # Python's numbers too
    with raises(TypeError, "same pytree structure"):
        lax.cond(True, lambda x: x, lambda x: (x,), 1.0)
    with raises(TypeError, "Pred must be a scalar"):
        lax.cond(np.array([True]), identity, identity, 1.0)
    with raises(ValueError, "Empty branch sequence"):
        lax.switch(0, [], 1.0)


def test_carries_that_differ_are_shown_leaf_by_leaf():
    init = {"a": np.float32(0), "b": (V3, np.int32(1))}
    with raises(TypeError, "must have equal types") as error:
        lax.scan(lambda c, x: ({"a": c["b"][1], "b": (lax.slice(c["b"][0], (0,), (2,)), c["b"][1])}, x), init, V3)
    words = str(error.value)
    assert "* the input carry component c['a'] has type float32[] but the corresponding output carry component" in words
    assert "c['b'][0] has type float32[3]" in words and "has type float32[2], so the shapes do not match." in words
    with raises(
        TypeError, r"carry c is a <class 'dict'> .* carry output is a <class 'tuple'>.*, so their Python types differ"
    ):
        lax.while_loop(lambda c: True, lambda c: (c["a"],), init)
    with raises(TypeError, r"input carry component loop_carry\[1\] has type float32\[\]"):
        lax.fori_loop(0, 3, lambda i, c: lax.convert_element_type(c, np.int32), np.float32(1))
    with raises(TypeError, r"of true_fun at path \['a'\] has type float32\[\] but .* of false_fun has type int32"):
        lax.cond(True, lambda x: {"a": x}, lambda x: {"a": lax.convert_element_type(x, np.int32)}, np.float32(1))
    with raises(TypeError, "(?s)branch 2 is <lambda> at .*branch 0 output is a pytree leaf, so their Python types"):
        lax.switch(1, [identity, identity, lambda x: (x,)], np.float32(1))


@pytest.mark.compiler
def test_reverse_mode_of_loops_of_unknown_length():
    doubled = lambda x: lax.while_loop(lambda y: lax.lt(y, np.float32(10)), lambda y: lax.mul(y, np.float32(2)), x)
    with raises(ValueError, "Reverse-mode differentiation does not work for lax.while_loop"):
        veery.grad(doubled)(1.0)


def test_transposes_of_what_is_not_linear():
    with raises(NotImplementedError, "Transpose rule .* for 'integer_pow' not implemented"):
        veery.linear_transpose(lambda x: x**2, 3.0)(2.0)
    for fun in (lambda x: x * x, lambda x: 1 / x, lambda x: jnp.where(x > 0, x, 0.0)):
        with raises(TypeError, "is not linear in what it is given, .*only linear functions are transposed"):
            veery.linear_transpose(fun, 3.0)(2.0)
    with raises(TypeError, r"functions, but got \[dtype\('bool'\)\] -> \[dtype\('bool'\)\]"):
        veery.linear_transpose(identity, True)(True)


def test_tangents_of_integers_that_a_rule_gives():
    @veery.custom_jvp
    def first(x):
        return jnp.argmax(x), x.sum()

    first.defjvp(lambda p, t: (first(*p), (wrong, t[0].sum())))
    wrong = np.float32(1)
    with raises(TypeError, r"Expected float0\[\] \(tangent type of int32\[\]\) but got float32\[\]"):
        veery.jvp(first, (V3,), (V3,))
    wrong = np.zeros((), veery.float0)
    (_, total), (tangent, _) = veery.jvp(first, (V3,), (V3,))
    assert (float(total), tangent.dtype) == (3.0, veery.float0)


@pytest.mark.parametrize("x", [1, 1j])
def test_jacfwd_of_what_is_not_real(x):
    with raises(
        TypeError, "jacfwd requires real-valued inputs .* but got (int|complex).* or integer inputs, use jax.jvp"
    ):
        veery.jacfwd(lambda x: x)(x)
