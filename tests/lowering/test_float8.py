"""Floats of 8 bits, all 256 of them, in compiled programs: against NumPy in float32, rounded to their type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp

DTYPES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


# What is computed, and NumPy's function of float32.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{name: (getattr(lax, name), getattr(np, numpy)) for name, numpy in {
        "neg": "negative", "abs": "abs", "sign": "sign", "floor": "floor", "is_finite": "isfinite", "sqrt": "sqrt",
        "square": "square", "exp": "exp", "log": "log", "sin": "sin", "tanh": "tanh", "expm1": "expm1",
    }.items()},
    "isnan": (jnp.isnan, np.isnan),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
    "astype(bool)": (lambda x: x.astype(bool), lambda x: x != 0),
    "where": (lambda x: jnp.where(x > x[0], x, x[0]), lambda x: np.where(x > x[0], x, x[0])),
}  # fmt: skip
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{name: (getattr(lax, name), getattr(np, numpy)) for name, numpy in {
        "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum", "min": "minimum",
        "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
        "nextafter": "nextafter",
    }.items()},
    "where": (lambda x, y: jnp.where(x > y, x, y), lambda x, y: np.where(x > y, x, y)),
}  # fmt: skip
ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "max": (lambda x: x.max(1), lambda x: x.max(1)),
    "min": (lambda x: x.min(0), lambda x: x.min(0)),
    "argmax": (lambda x: x.argmax(1), lambda x: x.argmax(1)),
    "cummax": (lambda x: lax.cummax(x, 0), lambda x: np.maximum.accumulate(x, 0)),
    "sort": (lambda x: jnp.sort(x, 1), lambda x: np.sort(x, 1)),
    "top_k": (lambda x: lax.top_k(x, 3, axis=0)[0], lambda x: -np.sort(-x, 0)[[*range(3)]]),
    "product": (lambda x: lax.dot(x, x, preferred_element_type="float32"), lambda x: x @ x),
}


def _check(cases: dict[str, Any], operands: list[np.ndarray]) -> None:
    functions = [compute for compute, _ in cases.values()]
    found = veery.jit(lambda *xs: [f(*xs) for f in functions])(*operands)
    wide = [x.astype(np.float32) for x in operands]
    for (name, (_, reference)), y in zip(cases.items(), found, strict=True):
        with np.errstate(all="ignore"):
            wanted = np.asarray(reference(*wide)).astype(y.dtype)
        if name == "nextafter":
            wanted = reference(*operands)
        np.testing.assert_array_equal(np.asarray(y).astype(np.float64), wanted.astype(np.float64), err_msg=name)


@pytest.fixture(params=DTYPES)
def numbers(request: pytest.FixtureRequest) -> np.ndarray:
    return np.arange(256).astype(np.uint8).view(jnp.dtype(request.param))


def test_every_number(numbers: np.ndarray) -> None:
    _check(CASES, [numbers])


def test_pairs_of_numbers(numbers: np.ndarray) -> None:
    _check(PAIRS, [numbers, np.random.default_rng(0).permutation(numbers)])


def test_rows(numbers: np.ndarray) -> None:
    shuffled = np.random.default_rng(1).permutation(numbers).reshape(16, 16)
    without_nan = np.where(np.isnan(shuffled.astype(np.float32)), shuffled.dtype.type(1), shuffled)
    orders = {name: case for name, case in ROWS.items() if name not in ("product", "top_k")}
    _check(orders, [shuffled])
    _check({"top_k": ROWS["top_k"]}, [without_nan])
    small = np.random.default_rng(2).integers(-3, 4, (16, 16)).astype(numbers.dtype)
    _check({"product": ROWS["product"]}, [small])


@pytest.mark.parametrize("name", [*DTYPES, "float8_e8m0fnu"])
def test_conversions(name: str) -> None:
    """What float32 numbers become: all that are of 8 bits, what is halfway between those, and neighbours of both."""
    dtype = jnp.dtype(name)
    numbers = np.arange(256).astype(np.uint8).view(dtype).astype(np.float32)
    numbers = np.sort(numbers[np.isfinite(numbers) & (np.abs(numbers) >= np.finfo(np.float32).tiny)])
    with np.errstate(all="ignore"):
        halfway = numbers[1:] / 2 + numbers[:-1] / 2
        x = np.concatenate([numbers, halfway, 1.1 * numbers, np.float32([np.inf, -np.inf, np.nan, 1e30, -1e30])])
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
        x = x[~(np.abs(x) < np.finfo(np.float32).tiny)].astype(np.float32)
        wanted = x.astype(dtype)
    found = np.asarray(veery.jit(lambda x: x.astype(dtype))(x))
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    back = np.asarray(veery.jit(lambda x: x.astype("float32"))(wanted))
    np.testing.assert_array_equal(back, wanted.astype(np.float32))


def test_a_number_without_sign() -> None:
    """float8_e8m0fnu has powers of 2, and a NaN, which IREE does not know for one."""
    x = np.arange(256).astype(np.uint8).view(jnp.dtype("float8_e8m0fnu"))
    np.testing.assert_array_equal(np.asarray(veery.jit(jnp.isnan)(x)), np.arange(256) == 255)
