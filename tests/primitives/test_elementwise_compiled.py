"""Elementwise primitives compiled for the CPU: values in each dtype, awkward ones among them, and eager evaluation."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from primitives.table_elementwise import ALL, ROWS, Row, dtype_of, samples, smooth
from support.compiled import assert_close, results

from veery import lax, numpy as jnp

# One worker has all cases of a dtype: they are compiled at once.
CASES = [
    pytest.param(
        row, params, name, id=f"{name}-{row.name}{i}.{j}", marks=pytest.mark.xdist_group(f"elementwise-{name}")
    )
    for name in ALL
    for i, row in enumerate(ROWS)
    if name in (row.dtypes if row.compiled is None else row.compiled)
    for j, params in enumerate(row.params)
]

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("x64")]


@functools.cache
def operands_of(row: Row, name: str) -> tuple[np.ndarray, ...]:
    return samples(row, dtype_of(name))


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> Any:
    """From a dtype to the results of its selected cases, by row and parameters."""
    selected: dict[str, list[Any]] = {}
    for item in request.session.items:
        if getattr(item, "originalname", "") == "test_compiled_values_equal_the_reference":
            case = item.callspec.params  # type: ignore[attr-defined]
            selected.setdefault(case["name"], []).append((case["row"], case["params"]))

    @functools.cache
    def of_dtype(name: str) -> dict[tuple[int, int], Any]:
        calls = [
            (functools.partial(row.primitive.bind, **params), operands_of(row, name)) for row, params in selected[name]
        ]
        return {(id(row), id(params)): out for (row, params), out in zip(selected[name], results(calls), strict=True)}

    return of_dtype


@pytest.mark.parametrize(("row", "params", "name"), CASES)
def test_compiled_values_equal_the_reference(row: Row, params: dict[str, Any], name: str, compiled: Any) -> None:
    actual = compiled(name)[id(row), id(params)]
    if isinstance(actual, Exception):
        raise actual
    operands = operands_of(row, name)
    assert_close(actual, row.primitive.reference(*operands, **params), row.ulps_in(name), operands)


NARY = [row for row in ROWS if len(row.domains) > 1 and row.operands is None]


def test_compiled_operands_that_broadcast() -> None:
    """Operands of rank 0 and with dimensions of size 1 are broadcast by the lowering."""
    calls, expected = [], []
    for row in NARY:
        name = "float32" if "float32" in row.dtypes else row.dtypes[-1]
        full = [x[:6].reshape(2, 3) for x in smooth(row, dtype_of(name))]
        scalars = (full[0][0, 0], *full[1:]), (*full[:-1], full[-1][0, 0])
        for operands in (*scalars, (full[0][:1], full[1][:, :1], *full[2:])):
            calls.append((functools.partial(row.primitive.bind, **row.params[0]), operands))
            expected.append((row, operands))
    for (row, operands), out in zip(expected, results(calls), strict=True):
        assert_close(out, row.primitive.reference(*operands, **row.params[0]), row.ulps_in("float32"), operands)


EAGER = [
    (lax.sin, np.linspace(-3, 3, 5)),
    (lax.neg, np.arange(5)),
    (lambda x: lax.add(x, np.int8(1)), np.arange(5, dtype=np.int8)),
    (lambda x: lax.mul(np.float32(2), x), np.linspace(-3, 3, 5, dtype=np.float32)),
    (lambda x: lax.select(lax.gt(x, 2), x, lax.neg(x)), np.arange(5)),
    (lambda x: lax.convert_element_type(x, bool), np.arange(3)),
    (lambda x: lax.clamp(1, x, 2), np.arange(4)),
    (lax.conj, np.array([1 + 2j, 3j])),
    (lax.population_count, np.arange(5, dtype=np.uint8)),
    (lax.erf, np.array(0.5)),
    (lax.sqrt, np.zeros((0, 3))),
]


@pytest.mark.parametrize(("fun", "x"), EAGER)
def test_eager_evaluation_equals_the_reference(fun: Any, x: np.ndarray) -> None:
    from support.numpy_trace import numpy_evaluation

    with numpy_evaluation():
        expected = np.asarray(fun(x))
    assert_close(np.asarray(fun(x)), expected, 8)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_signs_of_zeros_are_kept(name: str) -> None:
    """Of the functions through which NumPy passes a negative zero."""
    zeros = np.array([0.0, -0.0]).astype(dtype_of(name))
    functions = [lax.neg, lax.sign, lax.floor, lax.ceil, lax.round, lax.sin, lax.tan, lax.asin, lax.atan, lax.sinh,
                 lax.tanh, lax.asinh, lax.atanh, lax.expm1, lax.log1p, lax.sqrt, lax.cbrt, lax.erf,
                 lambda x: x * 3.0, lambda x: jnp.arctan2(x, 2.0), lambda x: lax.integer_pow(x, 3)]  # fmt: skip
    for fun, out in zip(functions, results([(fun, (zeros,)) for fun in functions]), strict=True):
        expected = [True, False] if fun is lax.neg else [False, True]
        assert np.signbit(out.astype(np.float64)).tolist() == expected, fun


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_powers_of_subnormal_numbers_are_those_of_zero(name: str) -> None:
    """And nothing between: exponents near 0 tell."""
    info = np.finfo(name)
    tiny = np.array([info.smallest_subnormal, info.smallest_normal / 4, -info.smallest_subnormal, 0.0]).astype(name)
    exponents = np.array([1e-3, 0.3, 7.0, -1e-3, 0.0], name)
    x, y = (z.ravel() for z in np.meshgrid(tiny, exponents))
    x, y = x[(x >= 0) | (y == 7)], y[(x >= 0) | (y == 7)]
    (found,) = results([(lax.pow, (x, y))])
    np.testing.assert_array_equal(found, np.where(y > 0, 0, np.where(y < 0, np.inf, 1)))
