"""Primitives that move, combine or select elements: values, derivatives, batching, dtypes and errors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives.table_structural import ROWS, Row
from support.numpy_trace import numpy_evaluation
from support.rule_checks import backward, check_backward, check_batching, check_forward, check_second_order, forward

import veery
from veery import lax
from veery._core.config import enable_x64

IDS = [f"{row.primitive}{i}" for i, row in enumerate(ROWS)]
FAMILIES = (
    *("_shape", "_reduce", "_cumulative", "_contract", "_slicing", "_gather_scatter", "_sort", "_conv", "_window"),
    "_barrier",
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("x64")]


def test_every_primitive_has_a_row() -> None:
    """Each primitive of the structural families stands in the table."""
    modules = [importlib.import_module(f"veery.lax.{family}") for family in FAMILIES]
    named = {p.name for module in modules for name, p in vars(module).items() if name.endswith("_p")}
    assert named - {"ge", "le"} == {row.primitive for row in ROWS}  # those two are what windows select by


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_reference_agrees_with_abstract_evaluation(row: Row, references: Any) -> None:
    """In each dtype the reference has the promised shape and dtype."""
    for dtype in row.dtypes:
        row.fun(*row.cast(dtype))


SMOOTH = [pytest.param(row, id=name) for row, name in zip(ROWS, IDS, strict=True) if row.differentiated]


@pytest.mark.parametrize("row", SMOOTH)
def test_jvp_equals_numerical_differences(row: Row, references: Any) -> None:
    check_forward(row.fun, row.operands, row.differentiated)


@pytest.mark.parametrize("row", [p for p in SMOOTH if p.values[0].reverse])
def test_vjp_is_the_transpose_of_jvp(row: Row, references: Any) -> None:
    check_backward(row.fun, row.operands, row.differentiated)


@pytest.mark.parametrize("row", [p for p in SMOOTH if p.values[0].second])
def test_second_derivative_equals_numerical_differences(row: Row, references: Any) -> None:
    check_second_order(row.fun, row.operands, row.differentiated)


@pytest.mark.parametrize("row", [pytest.param(r, id=n) for r, n in zip(ROWS, IDS, strict=True) if r.batched])
def test_batching_equals_a_loop(row: Row, references: Any) -> None:
    dtype = "float64" if "float64" in row.dtypes else row.dtypes[0]
    check_batching(row.fun, row.cast(dtype))


# Derivatives at awkward points, as JAX 0.10 has them: (function, operand, tangent, derivative).

_TIES = np.array([1.0, 3.0, 3.0, 2.0])
_ZERO = np.array([2.0, 0.0, 3.0])
_TWO_ZEROS = np.array([2.0, 0.0, 0.0])
_STEPS = np.array([1.0, 10.0, 100.0, 1000.0])
_POINT = lax.ScatterDimensionNumbers((), (0,), (0,))
_SAME = np.array([[0], [0]], np.int32)
_UPDATES = np.array([3.0, 3.0])
AWKWARD = [
    (lambda x: lax.reduce_max(x, (0,)), _TIES, _STEPS, 55.0),
    (lambda x: lax.reduce_min(x, (0,)), -_TIES, _STEPS, 55.0),
    (lambda x: lax.reduce_prod(x, (0,)), _ZERO, _STEPS[:3], 60.0),
    (lambda x: lax.reduce_prod(x, (0,)), _TWO_ZEROS, _STEPS[:3], 0.0),
    (lambda x: lax.cumprod(x), _ZERO, _STEPS[:3], [1.0, 20.0, 60.0]),
    (lambda x: lax.cummax(x), _TIES, _STEPS, [1.0, 10.0, 55.0, 55.0]),
    (lambda x: lax.cumlogsumexp(x), np.array([-np.inf, 0.0]), _STEPS[:2], [1.0, 10.0]),
    (lambda x: lax.sort(x), _TIES, _STEPS, [1.0, 1000.0, 10.0, 100.0]),
    (lambda x: lax.top_k(x, 2)[0], _TIES, _STEPS, [10.0, 100.0]),
    (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,)), _TIES, _STEPS, [10.0, 10.0, 100.0]),
    (lambda x: lax.scatter_max(x, _SAME, _UPDATES, _POINT), np.array([3.0, 1.0]), _STEPS[:2], [1 / 3, 10.0]),
    (lambda u: lax.scatter_max(np.zeros(2), _SAME, u, _POINT), _UPDATES, _STEPS[:2], [5.5, 0.0]),
    (lambda x: lax.gather(x, np.array([[9]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill"),
     _TIES, _STEPS, [0.0]),
]  # fmt: skip


@pytest.mark.parametrize(("fun", "x", "t", "expected"), AWKWARD)
def test_derivative_at_awkward_points(
    fun: Callable[..., Any], x: np.ndarray, t: np.ndarray, expected: Any, references: Any
) -> None:
    np.testing.assert_allclose(forward(fun, [x], [t]), expected, rtol=1e-12)
    (ct,) = backward(fun, [x], [0], np.ones(np.shape(expected)))
    np.testing.assert_allclose(np.sum(ct * t), np.sum(expected), rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 0), 1), ((1,), 0)])
def test_cumlogsumexp_of_complex_numbers(shape: Any, axis: int, reverse: bool, references: Any) -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=shape) * 3 + 2j * rng.normal(size=shape)
    fun = lambda x: lax.cumlogsumexp(x, axis, reverse)
    turned = lambda y: np.flip(y, axis) if reverse else y
    found, first = np.asarray(fun(x)), np.arange(shape[axis]) == (shape[axis] - 1 if reverse else 0)
    np.testing.assert_allclose(np.exp(found), turned(np.cumsum(turned(np.exp(x)), axis)), rtol=1e-10)
    assert (np.abs(np.compress(~first, found, axis).imag) <= np.pi).all()
    np.testing.assert_array_equal(np.compress(first, found, axis), np.compress(first, x, axis))
    if x.size:
        check_forward(fun, [x], [0])
        check_backward(fun, [x], [0])
    np.testing.assert_array_equal(np.asarray(lax.cumlogsumexp(x + 5000, axis)).real > 4000, True)
    with pytest.raises(ValueError, match="negative axes"):
        lax.cumlogsumexp(x, -1)
    with pytest.raises(ValueError, match="out of bounds"):
        lax.cumlogsumexp(x, 2)


@pytest.mark.parametrize("fun", [lambda x: lax.reduce_prod(x, (0,)), lambda x: lax.cumprod(x)])
def test_second_derivative_of_products_with_zeros(fun: Callable[..., Any], references: Any) -> None:
    check_second_order(fun, [_ZERO], [0])
    check_second_order(fun, [_TWO_ZEROS], [0])


def test_scatter_differentiates_the_update_that_wins(references: Any) -> None:
    fun = lambda u: lax.scatter(np.zeros(2), _SAME, u, _POINT)
    value = fun(np.array([5.0, 7.0]))
    tangent = forward(fun, [np.array([5.0, 7.0])], [np.array([50.0, 70.0])])
    np.testing.assert_array_equal(tangent, 10 * value)


@pytest.mark.compiler
def test_scatter_apply_applies_as_often_as_named() -> None:
    indices = np.array([[0], [2], [0]], np.int32)
    out = lax.scatter_apply(np.arange(1.0, 4.0), indices, lambda x: lax.mul(x, 10.0), _POINT, update_shape=(3,))
    np.testing.assert_array_equal(out, [100.0, 2.0, 30.0])


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (lambda x: lax.reduce_window(x, 5.0, lax.add, (2,), (2,), [(1, 2)]), [6, 10, 9]),
        (lambda x: lax.reduce_window(x, 5.0, lax.add, (2,), (1,), [(-1, 2)]), [10, 12, 9, 5]),
        (lambda x: lax.reduce_window(x, 5.0, lax.add, (2,), (2,), [(3, 4)]), [5, 6, 10, 9, 5]),
        (lambda x: lax.reduce_window(x, 2.0, lax.mul, (2,), padding=[(1, 0)], base_dilation=(2,)),
         [2, 2, 4, 4, 6, 6, 8]),
        (lambda x: lax.reduce_window(x, 0.0, lambda a, b: b, (3,), (2,), "SAME"), [3, 4]),
    ],
)  # fmt: skip
def test_windows_leave_padding_out(fun: Callable[..., Any], expected: list[float], references: Any) -> None:
    """As XLA has it: the initial value counts once, whether it is neutral or not."""
    np.testing.assert_array_equal(fun(np.arange(1.0, 5.0)), expected)


# Properties.

SIZES = st.integers(0, 4)


@st.composite
def gather_cases(draw: st.DrawFn) -> tuple[Any, tuple[int, ...], np.ndarray, np.ndarray]:
    """(dimension numbers, slice sizes, operand, indices) of any well-formed gather; some indices are out of bounds."""
    rank = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 4)) for _ in range(rank)]
    roles = [draw(st.sampled_from(("window", "collapsed", "batching"))) for _ in range(rank)]
    batching = [i for i, role in enumerate(roles) if role == "batching"]
    sizes = [draw(st.integers(1, n)) if role == "window" else 1 for n, role in zip(shape, roles, strict=True)]
    mapped = [i for i in range(rank) if roles[i] == "collapsed" or (roles[i] == "window" and draw(st.booleans()))]
    index_map = draw(st.permutations(mapped))
    extra = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    batch = draw(st.permutations([("batching", i) for i in batching] + [("extra", k) for k in range(len(extra))]))
    index_shape = [shape[i] if kind == "batching" else extra[i] for kind, i in batch]
    index_batching = [batch.index(("batching", i)) for i in batching]
    windows = roles.count("window")
    offset = sorted(draw(st.permutations(range(windows + len(batch))))[:windows])
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    indices = rng.integers(-1, 5, (*index_shape, len(index_map)), np.int32)
    collapsed = [i for i, role in enumerate(roles) if role == "collapsed"]
    numbers = lax.GatherDimensionNumbers(*map(tuple, (offset, collapsed, index_map, batching, index_batching)))
    return numbers, tuple(sizes), rng.normal(size=shape), indices


MODES = st.sampled_from(("clip", "fill"))


@settings(max_examples=60, deadline=None)
@given(gather_cases(), MODES)
def test_any_gather_is_linear_transposes_and_batches(case: Any, mode: str) -> None:
    numbers, sizes, x, indices = case
    fun = lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode, fill_value=0)
    with enable_x64(True), numpy_evaluation():
        check_backward(fun, (x, indices), (0,))
        check_batching(fun, (x, indices))


@settings(max_examples=60, deadline=None)
@given(gather_cases(), MODES, st.sampled_from(("scatter", "scatter_add", "scatter_sub", "scatter_max")))
def test_any_scatter_has_its_derivative_and_batches(case: Any, mode: str, name: str) -> None:
    numbers, sizes, x, indices = case
    with enable_x64(True), numpy_evaluation():
        windows = lax.gather(x, indices, numbers, sizes, mode="clip")
        updates = np.random.default_rng(1).normal(size=np.shape(windows))
        fun = lambda x, u, i: getattr(lax, name)(x, i, u, lax.ScatterDimensionNumbers(*numbers), mode=mode)
        check_forward(fun, (x, updates, indices), (0, 1), rtol=1e-5)
        check_backward(fun, (x, updates, indices), (0, 1))
        check_batching(fun, (x, updates, indices))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_slices_are_those_of_numpy(data: st.DataObject) -> None:
    shape = data.draw(st.lists(SIZES, min_size=0, max_size=3))
    limits = [data.draw(st.integers(0, n)) for n in shape]
    starts = [data.draw(st.integers(0, n)) for n in limits]
    steps = [data.draw(st.integers(1, 3)) for _ in shape]
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    with enable_x64(True), numpy_evaluation():
        np.testing.assert_array_equal(lax.slice(x, starts, limits, steps), x[tuple(map(slice, starts, limits, steps))])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_dynamic_slices_stay_inside(data: st.DataObject) -> None:
    shape = data.draw(st.lists(SIZES, min_size=1, max_size=3))
    sizes = [data.draw(st.integers(0, n)) for n in shape]
    starts = [data.draw(st.integers(-6, 6)) for _ in shape]
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    counted = [a + n if a < 0 else a for a, n in zip(starts, shape, strict=True)]
    begins = [min(max(a, 0), n - size) for a, n, size in zip(counted, shape, sizes, strict=True)]
    index = tuple(slice(b, b + size) for b, size in zip(begins, sizes, strict=True))
    with enable_x64(True), numpy_evaluation():
        for given_starts in (starts, np.array(starts), [np.int16(a) for a in starts]):
            np.testing.assert_array_equal(lax.dynamic_slice(x, given_starts, sizes), x[index])
            update = -np.ones(sizes, x.dtype)
            expected = x.copy()
            expected[index] = update
            np.testing.assert_array_equal(lax.dynamic_update_slice(x, update, given_starts), expected)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_padding_is_undone_by_the_opposite(data: st.DataObject) -> None:
    shape = data.draw(st.lists(SIZES, min_size=1, max_size=2))
    config = [tuple(data.draw(st.integers(0, 3)) for _ in range(3)) for _ in shape]
    x = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    with enable_x64(True), numpy_evaluation():
        padded = lax.pad(x, 0.0, config)
        cropped = lax.pad(padded, 0.0, [(-lo, -hi, 0) for lo, hi, _ in config])
        back = lax.slice(cropped, [0] * len(shape), np.shape(cropped), [interior + 1 for _, _, interior in config])
        np.testing.assert_array_equal(back, x)
        assert np.sum(padded) == np.sum(x)


def test_indices_of_narrow_types_reach_everywhere() -> None:
    x = np.arange(1000)
    with enable_x64(True), numpy_evaluation():
        assert lax.dynamic_slice(x, [np.int8(-1)], (1,)).tolist() == [999]
        assert lax.dynamic_index_in_dim(x, np.uint8(200), keepdims=False) == 200


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("cases", [1, 2, 3, 300])
def test_selectors_of_all_integer_types_choose_the_nearest_case(dtype: str, cases: int) -> None:
    which = np.array([1, 0, -1, 2, 200, 2**40, -(2**40)]).astype(dtype)
    with enable_x64(True), numpy_evaluation():
        chosen = lax.select_n(which, *(np.full(which.shape, i) for i in range(cases)))
        np.testing.assert_array_equal(chosen, np.clip(which.astype(object), 0, cases - 1).astype(int))


# Errors: type and words as in JAX 0.10.


def f(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


_i = np.array([[0]], np.int32)
_G, _S = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers
_dot = lambda lhs, rhs, *numbers, **kw: lax.dot_general(f(*lhs), f(*rhs), numbers, **kw)
_conv = lambda lhs, rhs, *args, **kw: lax.conv_general_dilated(f(*lhs), f(*rhs), *(args or ((1,), "SAME")), **kw)
_window = lambda *args, **kw: lax.reduce_window(f(3), np.float32(0), lax.add, *args, **kw)
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.broadcast_in_dim(f(3), (3,), ()), TypeError, "broadcast_dimensions must have length equal to operand"),
    (
        lambda: lax.broadcast_in_dim(f(3), (4,), (0,)),
        TypeError,
        "operand dimension sizes must either be 1, or be equal",
    ),
    (lambda: lax.broadcast_in_dim(f(3), (3,), (1,)), TypeError, "must be a subset of output dimensions"),
    (lambda: lax.broadcast_in_dim(f(2, 3), (3,), (0, 1)), TypeError, "must have equal or higher rank"),
    (lambda: lax.broadcast_shapes((3,), (4,)), ValueError, r"Incompatible shapes for broadcasting: shapes=\[\(3,\), "),
    (lambda: lax.reshape(f(3), (2,)), TypeError, "reshape total size must be unchanged"),
    (lambda: lax.reshape(f(3), (1.5,)), TypeError, "Shapes must be 1D sequences of concrete values of integer type"),
    (
        lambda: lax.squeeze(f(1, 2), (1,)),
        ValueError,
        "cannot select an axis to squeeze out which has size not equal to",
    ),
    (lambda: lax.expand_dims(f(2), (0, 0)), ValueError, "repeated axis in lax.expand_dims"),
    (lambda: lax.expand_dims(f(2), (5,)), ValueError, "axis 5 is out of bounds for array of dimension 2"),
    (
        lambda: lax.transpose(f(2, 3), (0,)),
        TypeError,
        "transpose permutation isn't a permutation of operand dimensions",
    ),
    (lambda: lax.concatenate([f(2, 3), f(2)], 0), TypeError, "Cannot concatenate arrays with different numbers of"),
    (lambda: lax.concatenate([f(2, 3), f(2, 4)], 0), TypeError, "Cannot concatenate arrays with shapes that differ"),
    (lambda: lax.concatenate([f(2, 3)] * 2, 2), TypeError, "concatenate dimension out of bounds: dimension 2"),
    (
        lambda: lax.concatenate([f(1), _i[0]], 0),
        TypeError,
        "requires arguments to have the same dtypes, got float32, int",
    ),
    (lambda: lax.concatenate([], 0), ValueError, "concatenate requires a non-empty sequences of arrays"),
    (lambda: lax.pad(f(2), f(1), [(0, 0, 0)]), ValueError, "padding_value must be a scalar"),
    (lambda: lax.pad(f(2), f(), [(0, 0, -1)]), ValueError, "interior padding in padding_config must be nonnegative"),
    (lambda: lax.pad(f(2), f(), [(-2, -2, 0)]), ValueError, "Dimension size after padding is not at least 0"),
    (lambda: lax.rev(f(2), (1,)), TypeError, "rev dimensions must all be less than operand ndim"),
    (lambda: lax.iota(bool, 3), TypeError, "iota does not accept dtype bool"),
    (
        lambda: lax.full((2,), f(2)),
        TypeError,
        r"full must be called with scalar fill_value, got fill_value.shape \(2,\)",
    ),
    (lambda: lax.split(f(3), (1, 1)), ValueError, "Sum of sizes 2 must be equal to dimension 0 of the operand shape"),
    (
        lambda: lax.reduce_sum(f(2), (1,)),
        ValueError,
        r"reduction axes \(1,\) contains out-of-bounds indices for float32\[2",
    ),
    (
        lambda: lax.reduce_sum(f(2) > 0, (0,)),
        TypeError,
        "reduce_sum does not accept dtype bool. Accepted dtypes are sub",
    ),
    (
        lambda: lax.reduce_and(f(2), (0,)),
        TypeError,
        "logical reduction requires operand dtype bool or int, got float32",
    ),
    (lambda: lax.argmax(f(2), 1, np.int32), ValueError, r"Invalid axis 1 for operand shape \(2,\)"),
    (lambda: lax.argmax(f(0), 0, np.int32), ValueError, "argmin and argmax require non-empty reduced dimension"),
    (lambda: lax.argmax(f(129), 0, np.int8), ValueError, "along 129 elements: int8 counts to 127 only"),
    (lambda: lax.argmax(f(2), 0, np.float32), TypeError, "index_dtype must be an integer type, but got float32"),
    (lambda: lax.reduce(f(2), np.int32(1), lambda a, b: a, (0,)), TypeError, "reduce operand dtypes should match"),
    (lambda: lax.reduce(f(2), f(2), lambda a, b: a, (0,)), ValueError, "reduce found non-scalar initial value"),
    (lambda: _dot((2, 3), (2, 3), ((1,), (0,)), ((), ())), TypeError, "contracting dimensions to have the same shape"),
    (
        lambda: _dot((2, 3), (3, 2), ((2,), (0,)), ((), ())),
        TypeError,
        "requires lhs dimension numbers to be nonnegative",
    ),
    (
        lambda: _dot((2, 3), (3, 2), ((1,), (0,)), ((0,), ())),
        TypeError,
        "requires equal numbers of lhs_batch and rhs_b",
    ),
    (lambda: _dot((2, 3), (3, 2), ((1,), (0,)), ((1,), (0,))), TypeError, "to be disjoint from contracting dimensions"),
    (lambda: lax.dot(f(2, 3), f(2, 3)), ValueError, "dimension_numbers must be specified when not performing simple"),
    (lambda: lax.dot(f(2), f(2), precision="x"), ValueError, "Precision argument must be one of"),
    (lambda: lax.batch_matmul(f(2), f(2)), ValueError, "Arguments to batch_matmul must be at least 2D, got 1, 1"),
    (lambda: lax.slice(f(3), (1,), (4,)), TypeError, "slice limit_indices must be less than or equal to operand shape"),
    (lambda: lax.slice(f(3), (0,), (3,), (1, 1)), TypeError, "slice strides must have length equal to the number of"),
    (lambda: lax.index_in_dim(f(3), 3), IndexError, "index 3 is out of bounds for axis 0 with size 3"),
    (lambda: lax.dynamic_slice(f(3), (0, 0), (1,)), ValueError, "Length of slice indices must match number of operand"),
    (lambda: lax.dynamic_slice(f(3), (0,), (4,)), TypeError, "slice slice_sizes must be less than or equal to operand"),
    (
        lambda: lax.dynamic_slice(f(3, 4), (np.int32(0), np.int8(1)), (1, 1)),
        TypeError,
        "index arguments to dynamic_slice must be integers of the same type, got: int32, int8",
    ),
    (
        lambda: lax.dynamic_update_slice(f(3, 4), f(1, 1), (0, np.uint8(1))),
        TypeError,
        "index arguments to dynamic_update_slice must be integers of the same type, got: int64, uint8",
    ),
    (lambda: lax.dynamic_slice(f(3), (True,), (1,)), TypeError, "must be integers of the same type, got: bool"),
    (
        lambda: lax.dynamic_slice(f(3), (np.float32(0),), (1,)),
        TypeError,
        "index arguments to dynamic_slice must be int",
    ),
    (lambda: lax.dynamic_update_slice(f(3), f(4), (0,)), TypeError, "update shape must be smaller than operand shape"),
    (
        lambda: lax.gather(f(3, 4), _i, _G((1, 0), (0,), (0,)), (1, 4)),
        TypeError,
        "offset_dims in gather op must be sorted",
    ),
    (
        lambda: lax.gather(f(3, 4), _i, _G((2,), (0,), (0,)), (1, 4)),
        TypeError,
        "Offset dimension 0 in gather op is out",
    ),
    (
        lambda: lax.gather(f(3, 4), _i, _G((1,), (0,), (0, 1)), (1, 4)),
        TypeError,
        "Gather op has 2 elements in start_index_",
    ),
    (
        lambda: lax.gather(f(3, 4), _i, _G((1,), (0,), (0,)), (1, 5)),
        TypeError,
        "Slice size at index 1 in gather op is out",
    ),
    (
        lambda: lax.gather(f(3, 4), _i, _G((1,), (0,), (0,)), (2, 4)),
        TypeError,
        "can only collapse slice dims with bound 1",
    ),
    (
        lambda: lax.gather(f(3, 4), f(1, 1), _G((1,), (0,), (0,)), (1, 4)),
        ValueError,
        "indices must have an integer type",
    ),
    (lambda: lax.gather(f(3), _i, _G((), (0,), (0,)), (1,), mode="bad"), ValueError, 'Unknown gather mode "bad"'),
    (
        lambda: lax.scatter(f(3, 4), _i, f(4), _S((1,), (0,), (0,))),
        TypeError,
        "Updates tensor must be of rank 2; got 1",
    ),
    (
        lambda: lax.scatter(f(3, 4), _i, f(1, 4), _S((1,), (), (0,))),
        TypeError,
        "Scatter op has window of size 1; doesn't",
    ),
    (
        lambda: lax.scatter(f(3, 4), _i, f(1, 5), _S((1,), (0,), (0,))),
        TypeError,
        "must not exceed the bounds of the corr",
    ),
    (
        lambda: lax.scatter(f(3, 4), _i, f(2, 4), _S((1,), (0,), (0,))),
        TypeError,
        "Bounds of the scatter dimensions of upd",
    ),
    (lambda: lax.sort((f(3), f(2))), TypeError, r"Arguments to sort must have equal shapes, got: \(3,\) \(2,\)"),
    (lambda: lax.sort((f(3),), num_keys=2), ValueError, "num_keys=2 must be between 1 and"),
    (lambda: lax.top_k(f(3), 4), ValueError, "k argument to top_k must be no larger than size along axis; got k=4"),
    (lambda: lax.cumsum(f(3), 1), ValueError, r"axis 1 is out of bounds for array of shape \(3,\)"),
    (
        lambda: lax.cumsum(f(3) > 0),
        TypeError,
        "cumsum does not accept dtype bool. Accepted dtypes are subtypes of number",
    ),
    (
        lambda: _conv((1, 2, 3), (1, 3, 3)),
        ValueError,
        "must equal the rhs input feature dimension size, but 2 // 1 != 3",
    ),
    (
        lambda: _conv((1, 2, 3), (1, 2, 3), (1,), "BAD"),
        RuntimeError,
        "Unrecognized padding type: expected 'VALID', 'SAM",
    ),
    (
        lambda: _conv((1, 2, 3), (1, 2, 3), (1,), "SAME", (2,)),
        ValueError,
        "String padding is not implemented for transpose",
    ),
    (
        lambda: _conv((1, 2, 3), (1, 2, 3), (1, 1), [(0, 0)]),
        ValueError,
        "must have the same number of dimensions, but got",
    ),
    (
        lambda: _conv((1, 3, 3), (1, 2, 3), feature_group_count=2),
        ValueError,
        "feature_group_count must divide lhs feature",
    ),
    (
        lambda: _conv((3, 2, 3), (2, 2, 3), batch_group_count=2),
        ValueError,
        "batch_group_count must divide lhs batch dimen",
    ),
    (
        lambda: _conv((1, 2, 3), (1, 2, 3), dimension_numbers=("NC", "OI", "NC")),
        TypeError,
        "must have len equal to the",
    ),
    (lambda: _window((2, 2)), TypeError, "reduce_window got the wrong number of window_dimensions for operand"),
    (lambda: _window((0,)), TypeError, "must have every element be strictly positive"),
    (lambda: _window((2,), (1, 1)), TypeError, "reduce_window got inconsistent window_strides and window_dimensions"),
]


@pytest.mark.parametrize(("call", "error", "words"), ERRORS)
def test_errors_have_type_and_words(
    call: Callable[[], Any], error: type[Exception], words: str, references: Any
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_scatter_mul_needs_unique_indices_for_its_updates(references: Any) -> None:
    fun = lambda u: lax.scatter_mul(np.ones(2), _SAME, u, _POINT)
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        forward(fun, [_UPDATES], [_UPDATES])


@pytest.mark.parametrize(("reduce", "init"), [(lax.max, -np.inf), (lax.min, np.inf), (lax.add, 0.0)])
@pytest.mark.parametrize(
    ("shape", "window", "padding"),
    [((1, 1), (3, 1), "VALID"), ((0, 3), (1, 2), "VALID"), ((0, 3), (2, 2), [(2, 2), (0, 0)])],
)
def test_derivatives_of_windows_that_are_none_or_of_nothing(
    shape: Any, window: Any, padding: Any, reduce: Any, init: float
) -> None:
    windows = lambda x: lax.reduce_window(x, init, reduce, window, (1, 1), padding)
    x = np.ones(shape, np.float32)
    out = windows(x)
    for compiled in (lambda f: f, veery.jit):
        _, t = compiled(lambda x: veery.jvp(windows, (x,), (x,)))(x)
        assert t.shape == out.shape and not np.asarray(t).any()
        (ct,) = compiled(lambda x: veery.vjp(windows, x)[1](np.ones(out.shape, np.float32)))(x)
        assert ct.shape == shape and not np.asarray(ct).any()
