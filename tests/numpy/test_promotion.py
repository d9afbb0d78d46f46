"""dtypes of results: all pairs of dtypes, weak types through functions, ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.interpreted import interpreted

import veery
import veery.numpy as jnp
from veery import eval_shape, numpy_dtype_promotion, numpy_rank_promotion
from veery._core.dtypes import TypePromotionError
from veery.scipy import special

DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bfloat16", "float16", "float32", "complex64"]


def test_binary_operators_promote_as_the_lattice_says():
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = (veery.ShapeDtypeStruct((2,), d) for d in (a, b))
        expected = jnp.promote_types(a, b)
        assert eval_shape(lambda x, y: x + y, x, y).dtype == expected, (a, b)
        assert eval_shape(jnp.maximum, x, y).dtype == expected
        assert eval_shape(lambda x, y: x == y, x, y).dtype == bool
        assert eval_shape(lambda x, y: jnp.where(x, x, y), x, y).dtype == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_scalars_adopt_the_dtype(dtype):
    x = veery.ShapeDtypeStruct((2,), dtype)
    kind = jnp.dtype(dtype).kind
    small = dtype == "bfloat16"
    for scalar in (3, 2.5, 1j):
        inexact = small or kind in "fc"
        if isinstance(scalar, int):
            expected = np.dtype("int32") if dtype == "bool" else jnp.dtype(dtype)
        elif isinstance(scalar, float):
            expected = jnp.dtype(dtype) if inexact else np.dtype("float32")
        else:
            expected = np.dtype("complex64")
        for out in (eval_shape(lambda x, s=scalar: x * s, x), eval_shape(lambda x, s=scalar: s * x, x)):
            assert out.dtype == expected, (dtype, scalar)


@pytest.mark.compiler
def test_the_examples_of_the_documentation():
    assert (jnp.int8(32) + 4).dtype == np.int8
    out = jnp.arange(3) + 5.0
    assert out.dtype == np.float32 and out.weak_type
    assert (jnp.array(1.0) + 1).weak_type
    assert not (jnp.ones(2) * 2.0).weak_type
    weak = jnp.full(3, 9) != 8
    assert weak.weak_type and not weak.any().weak_type and not jnp.all(weak).weak_type
    assert jnp.sin(1.0).weak_type and not jnp.sin(np.int32(1)).weak_type
    assert (jnp.ones(2, "int8") + 300).tolist() == [45, 45]
    assert (np.float32(2) * jnp.arange(2)).dtype == np.float32
    assert isinstance(np.ones(2) + jnp.ones(2), veery.Array)


def test_results_of_integers_where_only_floats_will_do():
    for dtype, expected in [("int8", "float32"), ("bool", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16")]:
        x = veery.ShapeDtypeStruct((2,), dtype)
        for fun in (jnp.sin, jnp.exp, jnp.sqrt, jnp.arctan, jnp.log2, lambda x: x / x, lambda x: jnp.hypot(x, x)):
            assert eval_shape(fun, x).dtype == jnp.dtype(expected)


def test_strict_promotion():
    with numpy_dtype_promotion("strict"):
        assert (jnp.ones(2, "int8") + 1).dtype == np.int8
        with pytest.raises(TypePromotionError, match="no available implicit dtype promotion path"):
            jnp.ones(2, "int8") + jnp.ones(2, "int16")


def test_rank_promotion():
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    with numpy_rank_promotion("raise"), pytest.raises(ValueError, match="Operands could not be broadcast together"):
        x + y
    with numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion for add on shapes"):
        veery.make_jaxpr(lambda x, y: x + y)(x, y)
    with numpy_rank_promotion("raise"):
        assert (x + 1.0).shape == (2, 3)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y: jnp.linspace(x, y, 3),
        jnp.vecdot,
        lambda x, y: jnp.piecewise(x, [y > 0], [1.0]),
    ],
)
def test_ranks_that_differ_are_refused_on_request_by_what_broadcasts_later(fun):
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    assert fun(x, y).dtype == np.float32
    with numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match=r"for (linspace|vecdot|piecewise) on shapes \(2, 3\) \(3,\)"):
            fun(x, y)
        assert fun(x, x).dtype == np.float32
        assert jnp.linspace(x, 1, 3).shape == (3, 2, 3)
        assert jnp.piecewise(x, [jnp.array(True)], [2.0]).tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    ("fun", "stays"),
    [
        (jnp.tril, True),
        (jnp.triu, True),
        (lambda x: jnp.diag(x[0]), True),
        (jnp.diagflat, False),
        (lambda x: jnp.einsum("ij,jk", x, x), True),
        (lambda x: jnp.einsum("ij->ji", x), True),
        (lambda x: jnp.einsum("ij,j", x, x[0].astype(x.dtype)), False),
        (lambda x: jnp.einsum("ij,jk", x, x, preferred_element_type=x.dtype), False),
        (lambda x: jnp.insert(x, 0, np.float32(1), axis=0), True),
        (lambda x: jnp.insert(x.astype(x.dtype), 0, 1.0), False),
        (lambda x: jnp.polyadd(x[0], x[0, :1]), True),
        (lambda x: jnp.polysub(x[0], x[0].astype(x.dtype)), False),
        (lambda x: jnp.polymul(x[0], x[0]), True),
        (lambda x: veery.lax.dynamic_update_slice(x, x, (0, 0)), False),
    ],
)
@pytest.mark.parametrize("value", [0.5, 2])
def test_results_are_weak_where_those_of_jax_are(fun, stays, value):
    assert fun(jnp.full((2, 2), value)).weak_type == stays


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=2, max_size=2))
def test_broadcasting_agrees_with_numpy(shapes):
    x, y = (np.arange(np.prod(s, dtype=int), dtype=np.float32).reshape(s) for s in shapes)
    try:
        expected = x - y
    except ValueError:
        with pytest.raises((TypeError, ValueError), match="ncompatible shapes for broadcasting"):
            veery.eval_shape(lambda x, y: x - y, x, y)
        return
    np.testing.assert_array_equal(interpreted(lambda x, y: x - y, x, y), expected)
    np.testing.assert_array_equal(interpreted(lambda x, y: jnp.where(x > y, x, y), x, y), np.where(x > y, x, y))


def test_scalars_out_of_range():
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        jnp.array(2**40)
    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for int8"):
        jnp.int8(300)
    with pytest.raises(OverflowError):
        jnp.ones(3, int) + 2**40
    with veery.enable_x64(True):  # NumPy makes floats of integers of which some need int64 and others uint64
        with pytest.raises(OverflowError, match="9223372036854775808 out of bounds for int64"):
            jnp.array([[1], [2**63]])
        assert int(jnp.array([1, 2**63 + 1], np.uint64)[1]) == 2**63 + 1


def test_scalars_of_few_bits_wrap():
    """As in JAX, up to what a long of C holds."""
    assert jnp.array([[4, 5], [6, -1]], jnp.int2).tolist() == [[0, 1], [-2, -1]]
    assert int(jnp.array(9, jnp.int4)) == -7 and int(jnp.asarray(-(2**63), jnp.uint4)) == 0
    for values in (2**63, [2**63], [2**63, -1], [2**70]):
        with pytest.raises(OverflowError, match="int4"):
            jnp.array(values, jnp.int4)


def test_x64():
    with veery.enable_x64(True):
        assert jnp.array(1.0).dtype == np.float64
        assert jnp.arange(3).dtype == np.int64
        assert (jnp.ones(2) * 2).dtype == np.float64
        assert (jnp.ones(2, "float32") * 2.0).dtype == np.float32
        assert jnp.ones(2, "int32").sum().dtype == np.int64
    assert jnp.array(1.0).dtype == np.float32
    with pytest.warns(UserWarning, match="Explicitly requested dtype float64"):
        jnp.zeros(2, "float64")


def test_weak_types_that_constants_and_joins_take_away():
    """As in JAX, of which these are recorded: numbers keep a weak type where arrays lose it."""
    weak = lambda *shape: jnp.full(shape, 1.5)
    kinds = lambda fun, *shapes: [fun(weak(*shape)).weak_type for shape in shapes]
    for name in ("deg2rad", "rad2deg", "degrees", "radians", "sinc"):
        assert kinds(getattr(jnp, name), (), (1,), (0,), (2, 2)) == [True, False, False, False], name
    for name in ("isinf", "isposinf", "isneginf", "signbit"):
        assert kinds(getattr(jnp, name), (), (2,)) == [False, False], name
    assert not jnp.signbit(3).weak_type
    assert kinds(jnp.angle, (), (2,)) == [False, True]
    for name, expected in (("hypot", [0, 0, 0, 1]), ("logaddexp2", [0, 0, 0, 1]), ("heaviside", [0, 1, 0, 1])):
        pairs = [((2,), ()), ((), (2,)), ((2,), (2,)), ((), ())]
        assert [getattr(jnp, name)(weak(*a), weak(*b)).weak_type for a, b in pairs] == expected, name
    assert [jnp.cross(weak(*a), weak(*b)).weak_type for a, b in (((2,), (2,)), ((3,), (3,)), ((4, 3), (3,)))] == [
        1,
        0,
        0,
    ]
    assert kinds(lambda x: veery.lax.associative_scan(jnp.add, x), (0,), (1,), (2,), (5,)) == [True, True, False, False]


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("fun", "operand", "dtype", "weak"),
    [
        (lambda x: 2.0**x, 3, "float64", True),
        (lambda x: 2.0**-x, 3, "float64", True),
        (lambda x: 2.0**x, jnp.int32(3), "float64", False),
        (lambda x: jnp.float32(2) ** x, 3, "float32", False),
        (lambda x: 2**x, 3, "int64", False),
        (lambda x: x**2, 3, "int64", True),
        (lambda x: x**2.0, 3, "float64", True),
        (lambda x: (2.0**-x) * jnp.float32(1), 3, "float32", False),
    ],
)
@pytest.mark.usefixtures("x64")
def test_powers_of_traced_numbers_are_weak_where_both_are(fun, operand, dtype, weak):
    """As JAX's are: loops count with weak integers, and what they scale keeps its dtype."""
    result = veery.eval_shape(fun, operand)
    assert (result.dtype, result.weak_type) == (dtype, weak)
    assert veery.jit(fun)(operand).dtype == dtype


def test_products_of_bools_and_angles_of_integers():
    assert jnp.dot(True, True).dtype == bool and jnp.inner(True, False) == False  # noqa: E712
    assert jnp.dot(np.array([True, False]), True).tolist() == [True, False]
    assert jnp.angle(np.array([-1, 2])).dtype == "float32"
    with veery.enable_x64(True):
        assert jnp.angle(np.array([-1, 2], np.int32)).dtype == "float64"


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize(
    "fun", [lambda x: jnp.round(x, 1), lambda x: jnp.full_like(x, x), special.logit, special.kl_div]
)
def test_weak_arrays_get_a_type_from_constants_and_numbers_do_not(fun, rank):
    """As in JAX, whose constants are arrays there."""
    number = jnp.asarray(0.5)
    x = jnp.full_like(number, 0.5, shape=(2,) * rank)
    assert x.weak_type
    result = veery.eval_shape(lambda x: fun(x, x) if fun is special.kl_div else fun(x), x)
    assert (result.dtype, result.weak_type) == ("float32", rank == 0)
