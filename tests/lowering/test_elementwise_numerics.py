"""The accuracy of elementwise lowerings on the CPU, in units in the last place, and their special values.

The tables name, for each operation and dtype, the greatest error over a grid that holds signed zeros, infinities, NaN,
huge and tiny numbers beside random ones. All operations of a dtype are compiled as one program.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import veery
from veery import lax
from veery_lowering import stablehlo as hlo
from veery_lowering.emit.rules.elementwise import add
from veery_lowering.mlir import context, ir

LONG = np.longdouble
CLONG = np.clongdouble
# float64 references need more than float64: x87's 64 bits, or quadruple.
needs_long_double = pytest.mark.skipif(np.finfo(LONG).nmant < 60, reason="no extended precision on this machine")

_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-4, -1e-4, 1e-7, 1e-10, -1e-10,
            1e-30, -1e-30, 10.0, -10.0, 30.0, 88.0, 89.5, -87.3, -104.0, 1e3, 1e4, 1e5, 1e6, 1e10, -1e10, 1e20,
            1e30, 3.4e38, -3.4e38, 0.9999999, 1.0000001, 0.70710678, 0.41421356, 2.41421356, 1.5707964, 11.0,
            16367173 * 2.0**72]  # fmt: skip
_SPECIAL_64 = [709.7, -708.0, 1e300, -1e300, 1e-300, 6381956970095103 * 2.0**797, 1e22, 2.0**20, 1e16]


def grid(dtype: str) -> np.ndarray:
    """Special values and random ones of many magnitudes."""
    random = np.random.default_rng(0)
    parts = [np.array(_SPECIAL), random.uniform(-9, 9, 300), random.uniform(-1, 1, 200), random.uniform(-90, 90, 100)]
    parts.append(np.exp(random.uniform(-60, 80, 300)) * random.choice([-1, 1], 300))
    if dtype == "float64":
        parts += [np.array(_SPECIAL_64), np.exp(random.uniform(-600, 700, 200)) * random.choice([-1, 1], 200)]
    with np.errstate(over="ignore"):
        return np.concatenate(parts).astype(_dtype(dtype))


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def _gamma_reference(function):
    return lambda x: function(x.astype(np.float64)).astype(LONG)


def _erfc(x: np.ndarray) -> np.ndarray:
    """SciPy's erfc has 200 ulp of error at 23; its scaled form has not."""
    scaled = scipy.special.erfcx(np.maximum(x, 0).astype(np.float64)) * np.exp(-(x**2))
    return np.where((x > 1) & (x < np.inf), scaled, scipy.special.erfc(x.astype(np.float64)))


# name: (primitive's parameters, reference, greatest error in ulp for float32 and for float64)
UNARY = {
    "exp": ({}, np.exp, 1.0, 1.1),
    "exp2": ({}, np.exp2, 1.0, 1.1),
    "expm1": ({}, np.expm1, 1.6, 2.0),
    "log": ({}, np.log, 1.0, 1.0),
    "log1p": ({}, np.log1p, 1.0, 1.0),
    "sin": ({}, np.sin, 1.5, 2.5),
    "cos": ({}, np.cos, 1.5, 2.5),
    "tan": ({}, np.tan, 3.0, 3.5),
    "asin": ({}, np.arcsin, 1.6, 1.8),
    "acos": ({}, np.arccos, 1.2, 1.4),
    "atan": ({}, np.arctan, 1.8, 1.5),
    "sinh": ({}, np.sinh, 2.0, 2.5),
    "cosh": ({}, np.cosh, 1.5, 1.7),
    "tanh": ({}, np.tanh, 2.4, 2.6),
    "asinh": ({}, np.arcsinh, 1.7, 1.7),
    "acosh": ({}, np.arccosh, 1.7, 1.7),
    "atanh": ({}, np.arctanh, 1.8, 1.8),
    "sqrt": ({}, np.sqrt, 0.6, 0.6),
    "rsqrt": ({}, lambda x: 1 / np.sqrt(x), 1.6, 1.6),
    "cbrt": ({}, np.cbrt, 1.1, 1.1),
    "logistic": ({}, lambda x: 1 / (1 + np.exp(-x)), 2.2, 2.4),
    "abs": ({}, np.abs, 0.0, 0.0),
    "neg": ({}, np.negative, 0.0, 0.0),
    "floor": ({}, np.floor, 0.0, 0.0),
    "ceil": ({}, np.ceil, 0.0, 0.0),
    "square": ({}, np.square, 0.6, 0.6),
    "integer_pow": ({"y": 5}, lambda x: x**5, 2.5, 2.5),
    "erf": ({}, _gamma_reference(scipy.special.erf), 5.0, 6.0),
    "erfc": ({}, _erfc, 4.5, 8.0),
    "bessel_i0e": ({}, _gamma_reference(scipy.special.i0e), 5.0, 8.0),
    "bessel_i1e": ({}, lambda x: np.where(x == 0, x, _gamma_reference(scipy.special.i1e)(x)), 10.0, 12.0),
}
# Zeros of these on the negative axis are no floats; errors there are relative to 1.
GAMMA = {"lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma}


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The error of each element in units in the last place; infinite for a wrong NaN, infinity or sign of zero.

    Results below the smallest normal number may be flushed to zero: the CPU's vector code does.
    """
    info = ml_dtypes.finfo(actual.dtype)
    smallest, largest = LONG(float(info.smallest_normal)), LONG(float(info.max))
    got, want = actual.astype(np.float64).astype(LONG), np.asarray(expected, LONG)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where((want == 0) | ~np.isfinite(want), smallest, np.abs(want))))
        unit = np.exp2(np.maximum(exponent, LONG(info.minexp)) - info.nmant)
        want = np.where(np.abs(want) >= largest * (1 + LONG(2.0) ** -(info.nmant + 2)), np.copysign(np.inf, want), want)
        error = np.abs(got - want) / unit
        same = (np.isnan(got) & np.isnan(want)) | ((got == want) & (np.isinf(want) | (want != 0)))
        zero = (want == 0) & (got == 0)
        flushed = (np.abs(want) < smallest) & (np.abs(got) <= smallest) & (want != 0)
        near_top = (np.abs(np.asarray(expected, LONG)) >= largest * (1 - unit / 16)) & np.isinf(got)
        wrong_sign = np.signbit(got) != np.signbit(want)
    return np.where(
        same | flushed | near_top, 0.0, np.where(zero & wrong_sign, np.inf, np.where(np.isnan(error), np.inf, error))
    ).astype(float)


def _bind(name: str, *operands, **params):
    return getattr(lax, f"{name}_p").bind(*operands, **params)


@cache
def _unary_results(dtype: str) -> dict[str, np.ndarray]:
    names = [*UNARY, *GAMMA] if dtype in ("float32", "float64") else list(UNARY)
    with veery.enable_x64():
        program = veery.jit(lambda x: [_bind(name, x, **(UNARY[name][0] if name in UNARY else {})) for name in names])
        return dict(zip(names, map(np.asarray, program(grid(dtype)))))


def _expected(function, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64).astype(LONG))


def _assert_within(actual: np.ndarray, expected: np.ndarray, limit: float, *operands: np.ndarray) -> None:
    errors = ulps(actual, expected)
    worst = int(np.argmax(errors))
    inputs = ", ".join(repr(operand[worst]) for operand in operands)
    assert errors[worst] <= limit, (
        f"{errors[worst]:.2f} ulp (limit {limit}) at ({inputs}): got {actual[worst]!r}, expected {expected[worst]!r}"
    )


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=needs_long_double)])
def test_unary(name: str, dtype: str) -> None:
    _, reference, limit32, limit64 = UNARY[name]
    x = grid(dtype)
    actual = _unary_results(dtype)[name]
    # DAZ: what is subnormal on the way in counts as zero
    _assert_within(actual, _expected(reference, x), limit32 if dtype == "float32" else limit64, x)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_unary_of_narrow_floats_rounds_once(name: str, dtype: str) -> None:
    x = grid(dtype)
    _assert_within(_unary_results(dtype)[name], _expected(UNARY[name][1], x), 0.51, x)


@pytest.mark.parametrize("name", GAMMA)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma(name: str, dtype: str) -> None:
    x = grid(dtype)
    actual, expected = _unary_results(dtype)[name], _expected(_gamma_reference(GAMMA[name]), x)
    keep = (x > -40) & (np.floor(x) != x) | ((x > 0) & (x < 1e30))
    with np.errstate(all="ignore"):
        error = np.abs(actual - expected)[keep] / np.maximum(1, np.abs(expected[keep])) / np.finfo(dtype).eps
    assert np.nanmax(np.where(np.isfinite(expected[keep]), error, 0)) < 40
    np.testing.assert_array_equal(np.isnan(actual[keep]), np.isnan(expected[keep]))


def test_lgamma_and_digamma_at_their_exact_points() -> None:
    x = np.array([1.0, 2.0, 0.0, -0.0, -1.0, -2.0, np.inf], np.float32)
    lgamma, digamma = veery.jit(lambda x: [lax.lgamma(x), lax.digamma(x)])(x)
    np.testing.assert_array_equal(lgamma, [0.0, 0.0, np.inf, np.inf, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(np.isnan(digamma), [False, False, True, True, True, True, False])


_PAIR = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -3.0, 5.0, 64.0, 2.0**24 + 2, np.inf, -np.inf, np.nan, 1e30, -1e30, 0.25]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    special = np.array(list(itertools.product(_PAIR, _PAIR))).T
    x = [special[0], random.uniform(0, 5, 300), np.exp(random.uniform(-60, 60, 300)), -random.uniform(0, 9, 100)]
    y = [special[1], random.uniform(-9, 9, 300), random.uniform(-1, 1, 300), random.integers(-9, 9, 100)]
    with np.errstate(over="ignore"):
        return np.concatenate(x).astype(dtype), np.concatenate(y).astype(dtype)


@needs_long_double
@pytest.mark.parametrize("dtype, limit, halves", [("float32", 0.6, range(-9, 10, 2)), ("float64", 1.6, (-1, 1, 3))])
def test_powers_by_halves(dtype: str, limit: float, halves: Sequence[int]) -> None:
    x, _ = pairs(dtype)
    with veery.enable_x64():
        lowered = veery.jit(lambda x: [lax.pow(x, np.asarray(n / 2, dtype)) for n in halves]).lower(x)
        results = lowered.compile()(x)
    assert "math.pow_minus_1_halves" in lowered.as_text() and "math.pow_f" not in lowered.as_text()
    for n, result in zip(halves, results, strict=True):
        with np.errstate(all="ignore"):
            expected = np.power(x.astype(LONG), LONG(n) / 2)
        _assert_within(np.asarray(result), expected, limit, x)


def test_other_exponents_are_not_by_halves() -> None:
    for y in (0.75, 6.5, 1.0, np.nan, np.inf):
        assert "halves" not in veery.jit(lambda x, y=y: lax.pow(x, y)).lower(np.ones(3, np.float32)).as_text()


@needs_long_double
@pytest.mark.parametrize("dtype, limits", [("float32", (0.6, 2.0, 0.0)), ("float64", (1.6, 2.0, 0.0))])
def test_binary(dtype: str, limits: tuple[float, float, float]) -> None:
    x, y = pairs(dtype)
    with veery.enable_x64():
        results = veery.jit(lambda x, y: [lax.pow(x, y), lax.atan2(x, y), lax.rem(x, y)])(x, y)
    for result, reference, limit in zip(results, (np.power, np.arctan2, np.fmod), limits):
        with np.errstate(all="ignore"):
            expected = reference(x.astype(LONG), y.astype(LONG))
        _assert_within(np.asarray(result), expected, limit, x, y)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_remainders_are_exact_and_call_no_library(dtype: str) -> None:
    """Also of quotients of hundreds of bits, of whole ones, and of subnormal numbers."""
    rng, kind = np.random.default_rng(0), _dtype(dtype)
    bits = rng.integers(0, 2 ** (8 * kind.itemsize), (2, 40_000), dtype=np.uint64)
    x, y = bits.astype(f"uint{8 * kind.itemsize}").view(kind)
    with np.errstate(all="ignore"):
        y = np.concatenate([y[:30_000], (x[30_000:].astype(np.float64) / rng.integers(1, 9, 10_000)).astype(kind)])
        expected = np.fmod(x.astype(np.float64), y.astype(np.float64)).astype(kind)
    compiled = veery.jit(lax.rem).lower(x, y).compile()
    assert compiled._program.metadata["pipeline"] == "short"
    actual = np.asarray(compiled(x, y))
    same = (actual == expected) & (np.signbit(actual) == np.signbit(expected))
    assert (same | (np.isnan(actual) & np.isnan(expected))).all()


@pytest.mark.parametrize("y", [64, 68, 200])
def test_integer_power_beyond_63(y: int) -> None:
    x = np.array([3, -3, 2, 1, -1, 0], np.int32)
    expected = np.array([pow(int(v), y, 2**32) for v in x], np.uint32).view(np.int32)
    np.testing.assert_array_equal(veery.jit(lambda x: _bind("integer_pow", x, y=y))(x), expected)


COMPLEX = {
    "exp": np.exp, "expm1": None, "log": np.log, "log1p": None, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip
_CUT = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-5, 30.0]


def complex_grid(dtype: str) -> np.ndarray:
    random = np.random.default_rng(2)
    cuts = [complex(re, im) for re in _CUT for im in _CUT]
    wide = np.exp(random.uniform(-20, 20, (2, 200))) * random.choice([-1, 1], (2, 200))
    near = random.uniform(-3, 3, (2, 200))
    circle = np.exp(1j * random.uniform(0, 6.3, 50))
    return np.concatenate([cuts, wide[0] + 1j * wide[1], near[0] + 1j * near[1], circle, 1 + 1e-3 * near[0]]).astype(
        dtype
    )


@cache
def _complex_results(dtype: str) -> dict[str, np.ndarray]:
    with veery.enable_x64():
        program = veery.jit(lambda z: [_bind(name, z) for name in COMPLEX])
        return dict(zip(COMPLEX, map(np.asarray, program(complex_grid(dtype)))))


def _log_of_next(z: np.ndarray) -> np.ndarray:
    shifted = z.copy()
    shifted.real += 1  # adding a complex 1 would lose the sign of a zero
    return np.log(shifted)


@needs_long_double
@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(name: str, dtype: str) -> None:
    z = complex_grid(dtype)
    reference = COMPLEX[name] or {"expm1": lambda z: np.exp(z) - 1, "log1p": _log_of_next}[name]
    with np.errstate(all="ignore"):
        expected = reference(z.astype(CLONG))
        actual = _complex_results(dtype)[name]
        error = np.abs(actual - expected) / np.abs(expected) / np.finfo(dtype).eps
    ordinary = np.isfinite(expected) & (np.abs(expected) < np.finfo(dtype).max) & (np.abs(expected) > 1e-9)
    if name in ("expm1", "log1p"):
        ordinary &= np.abs(z) > 1e-2  # the reference cancels
    worst = int(np.argmax(np.where(ordinary, error, 0)))
    assert error[worst] <= 4.0 or not ordinary[worst], (z[worst], actual[worst], expected[worst], error[worst])
    poles = np.isinf(expected.real) | np.isinf(expected.imag)
    np.testing.assert_array_equal(np.abs(actual[poles]), np.inf)


@pytest.mark.parametrize(
    "name", ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sin", "tan", "exp"]
)
def test_complex_signs_on_branch_cuts(name: str) -> None:
    z = complex_grid("complex64")[: len(_CUT) ** 2]
    with np.errstate(all="ignore"):
        expected = np.asarray(COMPLEX[name](z.astype(np.complex128)))
    actual = _complex_results("complex64")[name][: len(z)]
    for part in ("real", "imag"):
        got, want = getattr(actual, part), getattr(expected, part)
        clear = np.abs(want) > 1e-6
        np.testing.assert_array_equal(np.signbit(got[clear]), np.signbit(want[clear]))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_squares_have_no_real_part_where_the_parts_are_alike(dtype: str) -> None:
    huge = np.finfo(dtype).max / 2
    x = np.array([0.1, -0.3, 1.0, huge, -huge], dtype).real
    with veery.enable_x64(True):
        found = [np.asarray(veery.jit(lax.square)(z)) for z in (x + 1j * x, x - 1j * x, np.array([np.inf + huge * 1j]))]
    for got, sign in zip(found[:2], (1, -1)):
        np.testing.assert_array_equal(got.real, 0.0)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got.imag, sign * (2 * x * x))
    np.testing.assert_array_equal(found[2].real, np.inf)


@pytest.mark.parametrize("dtype", ["complex64", pytest.param("complex128", marks=needs_long_double)])
def test_complex_quotients(dtype: str) -> None:
    """Of numbers of all magnitudes; squares of most of them are no normal numbers."""
    random, span = np.random.default_rng(0), 36 if dtype == "complex64" else 300
    a, b = (
        (10.0 ** random.uniform(-span / 2, span / 2, 2000) * np.exp(2j * np.pi * random.random(2000))).astype(dtype)
        for _ in range(2)
    )
    large = np.array([10.0**span, 10.0**-span, 10.0**-span, 2.0], dtype)
    special = np.array([1 + 1j, 2, 0, 3 - 1j, 1 + 2j], dtype), np.array([0, 0, 0, np.inf, complex(0, -np.inf)], dtype)
    with veery.enable_x64(True):
        run = veery.jit(lambda a, b, c, x, y: (a / b, b**-1, (c + c * 1j) / (c - c * 1j), lax.reciprocal(c), x / y))
        found = [np.asarray(each) for each in run(a, b, large, *special)]
    wide = np.complex128 if dtype == "complex64" else CLONG
    expected = [a.astype(wide) / b, 1 / b.astype(wide), np.full(4, 1j, dtype), 1 / large.astype(wide)]
    for got, want in zip(found, expected):
        assert np.max(np.abs(got - want) / np.abs(want)) < 4 * np.finfo(dtype).eps
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(found[-1].real, [inf, inf, nan, 0, 0])
    np.testing.assert_array_equal(found[-1].imag, [inf, nan, nan, 0, 0])


def test_complex_maximum_is_lexicographic() -> None:
    a = np.array([1 + 2j, 1 - 1j, 2 + 0j, complex(np.nan, 0)], np.complex64)
    b = np.array([1 + 1j, 1 + 0j, 1 + 9j, 1j], np.complex64)
    largest, smallest = veery.jit(lambda a, b: [lax.max(a, b), lax.min(a, b)])(a, b)
    np.testing.assert_array_equal(largest, [1 + 2j, 1 + 0j, 2 + 0j, a[3]])
    np.testing.assert_array_equal(smallest, [1 + 1j, 1 - 1j, 1 + 9j, a[3]])


def test_bool_addition_is_lowered_to_or() -> None:
    with context():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            flag = hlo.full(True, (2,), bool)
            add(flag, flag)
        text = str(module)
    assert "stablehlo.or" in text and "stablehlo.add" not in text


def test_complex_truth_looks_at_both_parts() -> None:
    z = np.array([0, 3j, 2, complex(0, np.nan)], np.complex64)
    truth = veery.jit(lambda z: _bind("convert_element_type", z, new_dtype=np.dtype(bool), weak_type=False))(z)
    np.testing.assert_array_equal(truth, [False, True, True, True])


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_floats_saturate_as_integers_and_nan_is_zero() -> None:
    values = [np.nan, np.inf, -np.inf, 3e38, -3e38, 300.0, -1.0, -129.7, 2.0**31, 2.0**32, 2.0**63, 1.9, -1.9, 65535.5]
    programs = veery.jit(lambda *xs: [_bind("convert_element_type", x, new_dtype=np.dtype(d), weak_type=False)
                                      for x in xs for d in INTEGERS])  # fmt: skip
    with veery.enable_x64():
        results = iter(programs(np.array(values, np.float32), np.array(values)))
    for operand, name in itertools.product((np.array(values, np.float32), np.array(values)), INTEGERS):
        info = np.iinfo(name)
        expected = [0 if v != v else info.max if v >= info.max else info.min if v <= info.min else int(v)
                    for v in operand.astype(object)]  # fmt: skip
        np.testing.assert_array_equal(np.asarray(next(results)), np.array(expected, name), err_msg=name)


def test_float64_rounds_once_to_narrow_floats() -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-30, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, np.inf, -0.0, 1e300])
    with veery.enable_x64():
        half, brain = veery.jit(lambda x: [lax.convert_element_type(x, np.float16),
                                           lax.convert_element_type(x, ml_dtypes.bfloat16)])(x)  # fmt: skip
    np.testing.assert_array_equal(np.asarray(half)[:1], np.array([1 + 2.0**-10], np.float16))
    np.testing.assert_array_equal(np.asarray(brain)[1:3].astype(float), [1 + 2.0**-7, 1.0])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integer_division_by_zero_and_wide_shifts_do_not_trap(dtype: str) -> None:
    info = np.iinfo(dtype)
    a, b = np.array([7, info.min, info.max, 5], dtype), np.array([0, 0, 2, info.bits], dtype)
    with veery.enable_x64():
        quotient, rest, left, logical, arithmetic = map(np.asarray, veery.jit(lambda a, b: [
            lax.div(a, b), lax.rem(a, b), lax.shift_left(a, b), lax.shift_right_logical(a, b),
            lax.shift_right_arithmetic(a, b)])(a, b))  # fmt: skip
    all_ones = np.array(-1).astype(dtype)
    np.testing.assert_array_equal(quotient, np.array([all_ones, all_ones, info.max // 2, 5 // info.bits], dtype))
    np.testing.assert_array_equal(rest, np.array([7, info.min, 1, 5 % info.bits], dtype))
    assert left[3] == logical[3] == arithmetic[3] == 0


def test_total_order_compare_and_selection_by_integers() -> None:
    x = np.array([-np.nan, -np.inf, -0.0, 0.0, 1.0, np.inf, np.nan], np.float32)
    x[0] = np.copysign(np.float32(np.nan), -1)
    below = veery.jit(lambda a, b: _bind("lt_to", a, b))(x[:-1], x[1:])
    assert np.asarray(below).all()
    cases = [np.full(4, v, np.float32) for v in (10, 20, 30)]
    picked = veery.jit(lambda which, *cases: _bind("select_n", which, *cases))(np.array([0, 1, 2, 1], np.int32), *cases)
    np.testing.assert_array_equal(picked, [10, 20, 30, 20])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_incomplete_gamma_and_beta(dtype: str) -> None:
    random = np.random.default_rng(3)
    a, x = random.uniform(0.05, 20, 200).astype(dtype), random.uniform(0, 30, 200).astype(dtype)
    b, p = random.uniform(0.1, 9, 200).astype(dtype), random.uniform(0, 1, 200).astype(dtype)
    a[:4], x[:4] = [0, 1, 2, 1], [1, 0, np.inf, -1]
    with veery.enable_x64():
        lower, upper, beta = map(np.asarray, veery.jit(lambda a, b, x, p: [
            _bind("igamma", a, x), _bind("igammac", a, x), _bind("regularized_incomplete_beta", a, b, p)
        ])(a, b, x, p))  # fmt: skip
    wide = [v.astype(np.float64) for v in (a, b, x, p)]
    tolerance = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(lower, scipy.special.gammainc(wide[0], wide[2]), rtol=tolerance)
    np.testing.assert_allclose(upper, scipy.special.gammaincc(wide[0], wide[2]), rtol=tolerance, atol=1e-37)
    np.testing.assert_allclose(beta, scipy.special.betainc(wide[0], wide[1], wide[3]), rtol=tolerance, atol=1e-37)


def test_integers_as_bfloat16() -> None:
    """IREE makes one conversion of two, for which many processors have no code."""
    values = np.array([3, -1, 257, -999, 2**30 + 1])
    arguments = [values.astype(name) for name in ("int64", "int32", "int8", "uint16", "bool")]
    wide = lambda x: x.astype(np.float32)
    half = lambda x: x.astype(ml_dtypes.bfloat16)
    with veery.enable_x64(True):
        found = veery.jit(lambda *xs: [(half(x), half(wide(x)), half(wide(x)[None, ::2])) for x in xs])(*arguments)
    for x, (direct, twice, part) in zip(arguments, found, strict=True):
        expected = half(wide(x))
        for actual, wanted in ((direct, expected), (twice, expected), (part, expected[None, ::2])):
            np.testing.assert_array_equal(np.asarray(actual), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_what_overflows_is_infinite_also_where_it_is_subtracted_from(name: str, dtype: str) -> None:
    most = float(np.finfo(dtype).max)
    last = np.log(most) if name == "exp" else np.finfo(dtype).maxexp
    x = np.array([last * 1.001, np.inf, last * 1.001, 1e30, -np.inf, np.nan], dtype)
    y = np.array([most, np.inf, np.inf, -np.inf, 1, 1], dtype)
    with veery.enable_x64(True):
        out = veery.jit(lambda x, y: getattr(lax, name)(x) - y)(x, y)
    np.testing.assert_array_equal(out, np.array([np.inf, np.nan, np.nan, np.inf, -1, np.nan], dtype))
