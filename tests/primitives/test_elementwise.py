"""Elementwise primitives: values, derivatives, batching, dtypes, shapes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from primitives import table_elementwise as table
from primitives.table_elementwise import ROWS, Row, dtype_of, smooth
from support.rule_checks import (
    backward,
    check_backward,
    check_batching,
    check_forward,
    check_second_order,
    forward,
)

import veery
from veery import lax, numpy as jnp
from veery._core.ad import NONDIFFERENTIABLE
from veery._core.avals import ShapedArray
from veery.lax import _samples

WIDE = ("float64", "complex128")
SMOOTH = [
    pytest.param(row, dtype_of(name), id=f"{row.name}-{name}{i}")
    for i, row in enumerate(ROWS)
    for name in row.dtypes
    if name in WIDE and row.differentiable
]
BATCHED = [
    pytest.param(row, dtype_of(name), id=f"{row.name}-{name}{i}")
    for i, row in enumerate(ROWS)
    for name in (*row.dtypes[:1], *row.dtypes[-1:])
]

pytestmark = pytest.mark.usefixtures("x64")


def functions(row: Row) -> list[Any]:
    """The primitive with each of its parameters."""
    return [lambda *xs, params=params: row.primitive.bind(*xs, **params) for params in row.params]


def test_every_primitive_has_a_row() -> None:
    """Each primitive of the elementwise families stands in the table."""
    families = ("_arithmetic", "_bitwise", "_compare", "_convert", "_special", "_transcendental")
    modules = [__import__(f"veery.lax.{family}", fromlist=["lax"]) for family in families]
    declared = {p.name for m in modules for n, p in vars(m).items() if n.endswith("_p") and getattr(lax, n, None) is p}
    declared |= {p.name for n, p in vars(_samples).items() if n.endswith("_p")}  # which are not public
    assert declared == {row.name for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.name}{i}" for i, row in enumerate(ROWS)])
def test_reference_agrees_with_abstract_evaluation(row: Row, references: Any) -> None:
    """For each dtype and for scalars, empty and odd shapes the reference has the promised shape and dtype."""
    for name in row.dtypes:
        operands = table.samples(row, dtype_of(name))
        for fun in functions(row):
            fun(*operands)
            if row.operands is None:
                fun(*(x[0] for x in operands))
                fun(*(np.asarray(x[:1].reshape(())) for x in operands))
                fun(*(x[:0].reshape(3, 0) for x in operands))
                fun(*(x[:7].reshape(7, 1, 1) for x in operands) if len(operands[0]) >= 7 else operands)


@pytest.mark.parametrize(("row", "dtype"), SMOOTH)
def test_jvp_equals_numerical_differences(row: Row, dtype: np.dtype, references: Any) -> None:
    for fun in functions(row):
        if row.primitive is not lax.reduce_precision_p:  # a step function
            check_forward(fun, smooth(row, dtype), row.differentiable)


@pytest.mark.parametrize(("row", "dtype"), SMOOTH)
def test_vjp_is_the_transpose_of_jvp(row: Row, dtype: np.dtype, references: Any) -> None:
    for fun in functions(row):
        if row.primitive is not lax.reduce_precision_p:  # linear up to rounding
            check_backward(fun, smooth(row, dtype), row.differentiable)


@pytest.mark.parametrize(("row", "dtype"), [p for p in SMOOTH if p.values[0].second_order])
def test_second_derivative_equals_numerical_differences(row: Row, dtype: np.dtype, references: Any) -> None:
    for fun in functions(row):
        if row.primitive is not lax.reduce_precision_p:
            check_second_order(fun, smooth(row, dtype), row.differentiable)


@pytest.mark.parametrize(("row", "dtype"), BATCHED)
def test_batching_equals_a_loop(row: Row, dtype: np.dtype, references: Any) -> None:
    operands = smooth(row, dtype)
    for fun in functions(row)[:3]:
        check_batching(fun, operands)
        if row.operands is None:
            check_batching(fun, [x[:1].reshape(()) for x in operands])
            check_batching(fun, [x[:6].reshape(2, 3) for x in operands])


NARY = [row for row in ROWS if len(row.domains) > 1 and row.operands is None]


@pytest.mark.parametrize("row", NARY, ids=[row.name for row in NARY])
def test_operands_that_broadcast(row: Row, references: Any) -> None:
    """Operands of rank 0 or with dimensions of size 1 have derivatives and batches as if they were broadcast first."""
    dtype = dtype_of(row.dtypes[-1])
    full = [x[:6].reshape(2, 3) for x in smooth(row, dtype)]
    for fun in functions(row)[:1]:
        for small in range(len(full)):
            for cut in (lambda x: x[0, 0], lambda x: x[:, :1]):
                operands = [cut(x) if i == small else x for i, x in enumerate(full)]
                np.testing.assert_array_equal(fun(*operands), fun(*np.broadcast_arrays(*operands)))
                check_batching(fun, operands)
                if dtype.name in WIDE and row.differentiable:
                    check_forward(fun, operands, row.differentiable)
                    check_backward(fun, operands, row.differentiable)


FLAT = [row for row in ROWS if row.primitive.jvp is NONDIFFERENTIABLE and "float64" in row.dtypes]


@pytest.mark.parametrize("row", FLAT, ids=[f"{row.name}{i}" for i, row in enumerate(FLAT)])
def test_steps_have_zero_derivative(row: Row, references: Any) -> None:
    operands = smooth(row, dtype_of("float64"))
    for fun in functions(row):
        tangent = forward(fun, operands, [np.ones_like(x) for x in operands])
        out = np.asarray(fun(*operands))
        assert np.shape(tangent) == out.shape
        assert tangent.dtype == (out.dtype if out.dtype.kind == "f" else np.dtype([("float0", "V")]))


# Derivatives at awkward points, as JAX 0.10 has them.

NAN, INF = np.nan, np.inf
AWKWARD_DERIVATIVES = [
    (lax.abs, 0, (0.0,), 1.0),
    (lax.abs, 0, (0j,), 0.0),
    (lax.sqrt, 0, (0.0,), INF),
    (lax.rsqrt, 0, (0.0,), -INF),
    (lax.cbrt, 0, (0.0,), INF),
    (lax.log, 0, (0.0,), INF),
    (lax.reciprocal, 0, (0.0,), -INF),
    (lax.max, 0, (2.0, 2.0), 0.5),
    (lax.max, 1, (2.0, 2.0), 0.5),
    (lax.max, 0, (NAN, 2.0), 0.0),
    (lax.min, 0, (2.0, 2.0), 0.5),
    (lax.min, 1, (1.0, 2.0), 0.0),
    (lax.pow, 0, (0.0, 0.0), NAN),
    (lax.pow, 0, (0.0, 1.0), 1.0),
    (lax.pow, 0, (0.0, 2.0), 0.0),
    (lax.pow, 1, (0.0, 0.0), 0.0),
    (lax.pow, 1, (0.0, 1.0), 0.0),
    (lax.pow, 1, (0.0, -1.0), NAN),
    (lax.pow, 1, (-1.0, 2.0), NAN),
    (lambda x: lax.pow(x, 0), 0, (0.0,), 0.0),
    (lambda x: lax.pow(x, 1), 0, (0.0,), 1.0),
    (lambda x: lax.pow(x, 2), 0, (-3.0,), -6.0),
    (lambda x: lax.integer_pow(x, 0), 0, (0.0,), 0.0),
    (lambda x: lax.integer_pow(x, 1), 0, (0.0,), 1.0),
    (lax.atan2, 0, (0.0, 0.0), NAN),
    (lax.atan2, 0, (0.0, -2.0), -0.5),
    (lax.div, 1, (1.0, 0.0), -INF),
    (lax.rem, 0, (7.0, 2.0), 1.0),
    (lax.rem, 1, (7.0, 2.0), -3.0),
    (lax.rem, 1, (-7.0, 2.0), 3.0),
    (lambda x: lax.clamp(0.0, x, 1.0), 0, (0.0,), 0.0),
    (lambda x: lax.clamp(0.0, x, 1.0), 0, (1.0,), 0.0),
    (lambda x: lax.clamp(0.0, x, 1.0), 0, (0.5,), 1.0),
    (lambda low: lax.clamp(low, np.array([-1.0]), 1.0), 0, (0.0,), 1.0),
    (lax.sign, 0, (0.0,), 0.0),
    (lax.bessel_i1e, 0, (0.0,), 0.5),
    (lax.bessel_i0e, 0, (0.0,), 0.0),
    (lax.erf_inv, 0, (1.0,), INF),
    (lax.acos, 0, (1.0,), -INF),
    (lax.logistic, 0, (1000.0,), 0.0),
    (lambda x: lax.reduce_precision(x, 5, 2), 0, (1.0,), 1.0),
]


@pytest.mark.parametrize(("fun", "position", "point", "expected"), AWKWARD_DERIVATIVES)
def test_derivative_at_awkward_point(fun: Any, position: int, point: Any, expected: float, references: Any) -> None:
    primals = [np.array([x]) for x in point]
    tangents = [np.ones_like(p) if i == position else None for i, p in enumerate(primals)]
    np.testing.assert_array_equal(np.asarray(forward(fun, primals, tangents)), np.array([expected]))
    np.testing.assert_array_equal(
        np.asarray(backward(fun, primals, [position], np.ones(1))[0]).real, np.array([expected])
    )


def test_acosh_derivative_is_right_in_the_left_half_plane(references: Any) -> None:
    """Where the root of x^2 - 1 has the wrong sign."""
    slope = forward(lax.acosh, [np.array([-2 + 1j])], [np.array([1.0 + 0j])])
    np.testing.assert_allclose(slope, [-0.402247932 - 0.248602894j], rtol=1e-8)


def test_acosh_has_a_second_derivative_at_one(references: Any) -> None:
    with np.errstate(divide="ignore"):
        assert veery.grad(veery.grad(lax.acosh))(np.float32(1)) == -np.inf


@pytest.mark.parametrize(
    ("fun", "position", "message"),
    [
        (lax.polygamma, 0, "polygamma gradient with respect to m is not supported"),
        (lax.zeta, 0, "zeta gradient with respect to x is not supported"),
        (lax.igamma_grad_a, 0, "igamma_grad_a gradient with respect to a is not supported"),
        (lambda a, b: lax.betainc(a, b, 0.5), 0, "Betainc gradient with respect to a and b not supported."),
    ],
)
def test_missing_derivatives_are_refused(fun: Any, position: int, message: str, references: Any) -> None:
    x = np.ones(2)
    with pytest.raises(ValueError, match=message):
        forward(fun, [x, x], [x if i == position else None for i in range(2)])


def test_conversions_between_integers_and_floats_have_no_derivative(references: Any) -> None:
    to_integer = lambda x: lax.convert_element_type(x, np.int32)
    assert forward(to_integer, [np.ones(3)], [np.ones(3)]).dtype == np.dtype([("float0", "V")])
    there_and_back = lambda x: lax.convert_element_type(to_integer(x), np.float64)
    np.testing.assert_array_equal(forward(there_and_back, [np.ones(3)], [np.ones(3)]), np.zeros(3))


# Operands of public functions.


def traced(fun: Any, *avals: ShapedArray) -> ShapedArray:
    """The type of the result, without evaluating anything."""
    from veery._transforms.staging import stage

    return stage(lambda *xs: [fun(*xs)], avals).out_avals[0]


F32, BF16, I8 = (ShapedArray((3,), dtype_of(name)) for name in ("float32", "bfloat16", "int8"))
WEAK = ShapedArray((), np.dtype("float64"), weak_type=True)


@pytest.mark.parametrize("aval", [F32, BF16, I8], ids=str)
def test_python_scalars_take_the_dtype_of_the_array(aval: ShapedArray) -> None:
    assert traced(lambda x: x + 2, aval) == aval
    assert traced(lambda x: jnp.maximum(2, x), aval) == aval
    assert traced(lambda x: lax.clamp(x.dtype.type(0), x, x.dtype.type(2)), aval) == aval
    assert traced(lambda x: lax.select(True, x, x), aval) == aval


def test_results_of_weakly_typed_operands_are_weakly_typed() -> None:
    assert traced(lambda x: x * 2, WEAK) == WEAK
    assert traced(lambda x: lax.mul(x, 2.0), WEAK) == WEAK
    assert traced(lambda x: lax.mul(x, np.float64(2)), WEAK) == WEAK.strip_weak_type()
    assert traced(lax.sin, WEAK) == WEAK
    assert traced(lambda x: lax.lt(x, 2.0), WEAK).weak_type


def test_operands_of_rank_0_and_of_size_1_are_broadcast(references: Any) -> None:
    np.testing.assert_array_equal(lax.add(np.ones(3), np.array(2.0)), 3 * np.ones(3))
    assert lax.add(np.ones((1, 3)), np.ones((2, 1))).shape == (2, 3)
    assert lax.add(np.zeros((0,)), np.ones((1,))).shape == (0,)
    np.testing.assert_array_equal(lax.betainc(1.0, np.ones(3), 0.5), np.full(3, 0.5))


def array(shape: Any = (3,), dtype: Any = "float32") -> np.ndarray:
    return np.ones(shape, dtype_of(dtype))


class NotAnArray:
    pass


ERRORS = [
    (
        lambda: lax.add(array(2), array(3)),
        "add got incompatible shapes for broadcasting: (2,), (3,).",
    ),
    (
        lambda: lax.add(array(3), array((1, 3))),
        "add: arrays must have the same number of dimensions, got {1, 2}",
    ),
    (
        lambda: lax.add(array(), array(dtype="int32")),
        "lax.add requires arguments to have the same dtypes, got float32, int32. (Tip: jnp.add is a similar "
        "function that does automatic type promotion on inputs).",
    ),
    (
        lambda: lax.add(array(dtype="int32"), 2.5),
        "lax.add requires arguments to have the same dtypes, got int32, float64.",
    ),
    (lambda: lax.add(array(), 2), "lax.add requires arguments to have the same dtypes, got float32, int64."),
    (lambda: lax.add(array(dtype="int8"), 300), "lax.add requires arguments to have the same dtypes, got int8, int64."),
    (lambda: lax.add(1, 2.0), "lax.add requires arguments to have the same dtypes, got int64, float64."),
    (lambda: lax.add(array(), 2.0), "lax.add requires arguments to have the same dtypes, got float32, float64."),
    (
        lambda: lax.lt(array(dtype="bfloat16"), 2.0),
        "lax.lt requires arguments to have the same dtypes, got bfloat16, float64.",
    ),
    (lambda: lax.select(True, 1, 2.0), "lax.select requires arguments to have the same dtypes, got float64, int64."),
    (
        lambda: lax.mul(array(), 2j),
        "lax.mul requires arguments to have the same dtypes, got float32, complex128. (Tip: jnp.multiply is",
    ),
    (
        lambda: lax.sin(array(dtype="int32")),
        "sin does not accept dtype int32. Accepted dtypes are subtypes of floating, complexfloating.",
    ),
    (
        lambda: lax.add(array(dtype="bool"), array(dtype="bool")),
        "add does not accept dtype bool at position 0. Accepted dtypes at position 0 are subtypes of integer, "
        "floating, complexfloating.",
    ),
    (
        lambda: lax.add(array(), True),
        "add does not accept dtype bool at position 1.",
    ),
    (
        lambda: lax.add("a", array()),
        "Error interpreting argument to add as a JAX value. The problematic value is of type <class 'str'> and "
        "was passed to add at position 0.",
    ),
    (
        lambda: lax.add(array(), NotAnArray()),
        "was passed to add at position 1.",
    ),
    (
        lambda: lax.bitwise_and(array(), array()),
        "and does not accept dtype float32 at position 0. Accepted dtypes at position 0 are subtypes of integer, bool.",
    ),
    (
        lambda: lax.bitwise_not(array()),
        "not does not accept dtype float32.",
    ),
    (
        lambda: lax.abs(array(dtype="uint8")),
        "abs does not accept dtype uint8.",
    ),
    (
        lambda: lax.lt(array(dtype="complex64"), array(dtype="complex64")),
        "lt does not accept dtype complex64 at position 0.",
    ),
    (
        lambda: lax.round(array(dtype="int32")),
        "round does not accept dtype int32.",
    ),
    (
        lambda: lax.complex(array(dtype="float16"), array(dtype="float16")),
        "complex does not accept dtype float16 at position 0. Accepted dtypes at position 0 are subtypes of "
        "float32, float64.",
    ),
    (
        lambda: lax.integer_pow(array(dtype="int32"), -2),
        "Integers cannot be raised to negative powers, got integer_pow(int32[3], -2)",
    ),
    (
        lambda: lax.pow(array(dtype="int32"), 2),
        "pow does not accept dtype int32 at position 0.",
    ),
    (
        lambda: lax.pow(array(), array(dtype="float64")),
        "two inexact dtypes must match, but got float32 and float64",
    ),
    (
        lambda: lax.select_n(array(), array(), array()),
        "select `which` must be boolean or integer type, got float32.",
    ),
    (
        lambda: lax.select_n(array(dtype="bool"), array(), array(), array()),
        "select with boolean `which` cannot have > 2 cases.",
    ),
    (
        lambda: lax.select(array(dtype="bool"), array(), array(dtype="int32")),
        "lax.select requires arguments to have the same dtypes, got int32, float32. (Tip: jnp.where is",
    ),
    (
        lambda: lax.select(array(dtype="bool"), array(2), array(3)),
        "select cases must have the same shapes, got [(3,), (2,)].",
    ),
    (
        lambda: lax.select(array(2, "bool"), array(), array()),
        "select `which` must be scalar or have the same shape as cases, got `which` shape (2,) but case shape (3,).",
    ),
    (
        lambda: lax.clamp(array(2), array(), array(2)),
        "clamp requires min.shape == operand.shape or min.shape == (), got min.shape=(2,), operand.shape=(3,).",
    ),
    (
        lambda: lax.clamp(0.0, array(dtype="int32"), 5),
        "lax.clamp requires arguments to have the same dtypes, got float64, int32, int64.",
    ),
    (
        lambda: lax.bitcast_convert_type(array(), np.bool_),
        "lax.bitcast_convert_type does not support bool or complex values unless the operand and destination "
        "types match. Got operand dtype=float32, new_dtype=dtype('bool').",
    ),
    (
        lambda: lax.reduce_precision(array(dtype="int32"), 5, 5),
        "reduce_precision does not accept dtype int32.",
    ),
    (
        lambda: lax.sin([1.0]),
        "Error interpreting argument to sin as a JAX value. The problematic value is of type <class 'list'> and was "
        "passed to sin at position 0.",
    ),
    (
        lambda: lax.convert_element_type([1, 2], np.float32),
        "Error interpreting argument to convert_element_type",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_errors(call: Any, message: str, references: Any) -> None:
    with pytest.raises(TypeError) as error:
        call()
    assert message in str(error.value)


VALUE_ERRORS = [
    (lambda: lax.select_n(array(dtype="bool")), "select_n() must have at least one case"),
    (lambda: lax.round(array(), 2), "2 is not a valid RoundingMethod"),
    (lambda: lax.reduce_precision(array(), 0, 5), "reduce_precision: exponent_bits must be positive; got 0"),
    (lambda: lax.reduce_precision(array(), 5, -1), "reduce_precision: mantissa_bits must be non-negative; got -1"),
    (lambda: lax.bitcast_convert_type(array(dtype="int16"), np.int32), "3 * 16 != 32"),
    (lambda: lax.convert_element_type(array(), None), "Invalid argument to dtype: None."),
]


@pytest.mark.parametrize(("call", "message"), VALUE_ERRORS, ids=[message[:40] for _, message in VALUE_ERRORS])
def test_value_errors(call: Any, message: str, references: Any) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


def test_complex_to_real_warns(references: Any) -> None:
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        lax.convert_element_type(array(dtype="complex64"), np.float32)
