"""What XLA's algebra would make wrong of NaN, and no other compiler does: formulas that keep it from that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
import veery.numpy as jnp
from veery import lax

_NAMES = ("float16", "bfloat16", "float32", "float64")

# Functions of x = (nan, -1, 0, 2) and mask = (False, False, True, True).
NOT_NEGATIVE = {
    "square": lambda x: x * x >= 0,
    "absolute": lambda x: abs(x) >= 0,
    "exponential": lambda x: 0 <= jnp.exp(x),
    "root": lambda x: jnp.sqrt(abs(x)) >= jnp.zeros_like(x),
    "sum": lambda x: abs(x) + x * x >= 0,
}
MASKED = {
    "mask": lambda x, m: x * m,
    "converted": lambda x, m: m.astype(x.dtype) * x,
    "comparison": lambda x, m: x * (x >= 0),
    "complement": lambda x, m: x * (1 - (~m).astype(x.dtype)),
    "by way of integers": lambda x, m: x * m.astype("int32").astype(x.dtype),
    "two": lambda x, m: x * m * m,
    "logarithm": lambda x, m: jnp.log(x - x * 0 - 3) * m,  # NaN of what is none
}


@pytest.mark.parametrize("name", _NAMES)
def test_nan_passes_no_comparison(name: str, on_xla: Any, x64: Any) -> None:
    x = np.array([np.nan, -1, 0, 2]).astype(jnp.dtype(name))
    outs = results([(fun, (x,)) for fun in NOT_NEGATIVE.values()])
    assert {key: out.tolist() for key, out in zip(NOT_NEGATIVE, outs)} == dict.fromkeys(
        NOT_NEGATIVE, [False, True, True, True]
    )


@pytest.mark.parametrize("name", _NAMES)
def test_false_times_nan_is_nan(name: str, on_xla: Any, x64: Any) -> None:
    x, mask = np.array([np.nan, -1, 0, 2]).astype(jnp.dtype(name)), np.array([False, False, True, True])
    outs = results([(fun, (x, mask)) for fun in MASKED.values()])
    for key, out in zip(MASKED, outs):
        expected = [np.nan] * 4 if key == "logarithm" else [np.nan, 0, 0, 2]
        np.testing.assert_array_equal(out.astype(np.float64), expected, err_msg=key)


@pytest.mark.parametrize("name", _NAMES)
def test_exponentials_of_a_chosen_nan(name: str, on_xla: Any, x64: Any) -> None:
    """XLA computed nothing where its exponential is of a constant NaN: results were what was in their memory."""
    functions = jnp.exp, jnp.expm1, jnp.cosh, veery.nn.sigmoid, veery.nn.selu, veery.nn.softmax
    x, nan = np.array([0.25, 0.5, 0.75]).astype(jnp.dtype(name)), np.array(np.nan).astype(jnp.dtype(name))
    chosen = [(lambda s, x, fun=fun: fun(jnp.where(s, nan, x)), (np.True_, x)) for fun in functions]
    for fun, out in zip(functions, results(chosen)):
        np.testing.assert_array_equal(out.astype(np.float64), [np.nan] * 3, err_msg=fun.__name__)


def test_nan_is_chosen_apart_only_where_it_may_be_a_constant(on_xla: Any) -> None:
    x, nan = np.array([0.25, 0.5, 0.75], np.float32), np.full(3, np.nan, np.float32)
    zero = lambda: lax.full((3,), 0.0, np.float32)
    cases: dict[str, tuple[Any, bool]] = {
        "arguments": (lambda x: jnp.exp(jnp.exp(x) * 2 - x.max()), False),
        "softmax": (lambda x: veery.nn.softmax(x * 2), False),
        "masked": (lambda x: veery.nn.softmax(jnp.where(x > 0.3, x, -jnp.inf)), False),
        "chosen": (lambda x: jnp.exp(jnp.where(x > 0.3, x, jnp.nan)), True),
        "beyond an exponential": (lambda x: jnp.exp(jnp.exp(jnp.where(x > 0.3, x, jnp.nan))), True),
        "an array, which is passed": (lambda x: jnp.exp(lax.select(x > 0.3, x, nan)), False),
        "computed": (lambda x: jnp.exp(lax.select(x > 0.3, x, zero() / zero())), True),
        "computed of a range": (lambda x: jnp.exp(lax.select(x > 0.3, x, jnp.sqrt(lax.iota(np.float32, 3) - 5))), True),
        "in a loop": (lambda x: lax.fori_loop(0, 2, lambda _, y: jnp.exp(y), x), True),
    }
    for name, (function, guarded) in cases.items():
        lowered = veery.jit(function).lower(x)
        assert ("compare NE" in lowered.as_text()) is guarded, name
        np.testing.assert_allclose(lowered.compile()(x), function(x), rtol=1e-5, err_msg=name)


def test_complex_functions_beyond_their_range(on_xla: Any) -> None:
    """XLA's own make NaN of 0 times infinity."""
    x = np.array([1e30j, -1e30j, complex(-0.0, 1e30), 1e30 + 0j, 3 + 1j, 0.5j], np.complex64)
    outs = results([(fun, (x,)) for fun in (jnp.sin, jnp.cos, jnp.exp2, jnp.log10, jnp.log2)])
    with np.errstate(all="ignore"):
        wide = x.astype(complex)
        small = [np.sin(wide), np.cos(wide), np.exp2(wide), np.log10(wide), np.log2(wide)]
    np.testing.assert_array_equal(outs[0][:3], [complex(0, np.inf), complex(0, -np.inf), complex(0, np.inf)])
    np.testing.assert_array_equal(outs[1][:3], [complex(np.inf, 0)] * 3)
    assert outs[2][3] == complex(np.inf, 0)
    for out, expected in zip(outs, small):
        np.testing.assert_allclose(out[4:], expected[4:], rtol=1e-6)


def test_log1p_of_float64_everywhere(on_xla: Any, x64: Any) -> None:
    """XLA's own errs by 120 units in the last place next to 1 - sqrt(2)."""
    x = np.concatenate([np.linspace(-0.999, 3, 20_000), [0.0, -0.0, 1e-300, -1e-17, 1e300, np.inf, -1.0, -2.0, np.nan]])
    found = np.asarray(veery.jit(lax.log1p)(x))
    with np.errstate(all="ignore"):
        expected = np.log1p(x)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(float).eps)
    np.testing.assert_array_equal(np.signbit(found[-9:-7]), [False, True])


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_small_and_large_parts_of_complex_functions(name: str, on_xla: Any, x64: Any) -> None:
    """XLA's own sine of 2 + 1e-8i was real, its cosh of 89 infinite, its reciprocal root off beside the real axis."""
    tiny, large = (1e-8, 88.9) if name == "complex64" else (1e-17, 710.2)
    parts = np.array([0.0, tiny, 1e-4, 0.3, 2.0, large, 1e5])
    z = (parts[:, None] + 1j * parts).ravel()
    z = np.concatenate([z, -z, z.conj()]).astype(name)
    functions = jnp.sin, jnp.cos, jnp.sinh, jnp.cosh, jnp.expm1, lax.rsqrt
    exact: list[Any] = [np.sin, np.cos, np.sinh, np.cosh, np.expm1, lambda z: 1 / np.sqrt(z)]
    with np.errstate(all="ignore"):
        wanted = [f(z.astype(np.clongdouble)).astype(name) for f in exact]
    eps = np.finfo(name).eps
    for fun, ours, right in zip(functions, results([(fun, (z,)) for fun in functions]), wanted):
        for part in ("real", "imag"):
            found, given = getattr(ours, part), getattr(right, part)
            at = np.isfinite(given) & (abs(given) > 1e-30)
            np.testing.assert_allclose(found[at], given[at], rtol=40 * eps, err_msg=f"{fun.__name__}, {part}")
