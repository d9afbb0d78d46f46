"""Running folds: short and blocked lengths, both directions, all kinds of dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.jaxpr_graphs import Graph

RNG = np.random.default_rng(0)
REFERENCES = {
    "cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum, "cumlogsumexp": np.logaddexp,
}  # fmt: skip


def running(name: str, values: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    wide = np.float64 if values.dtype.kind in "fV" else values.dtype
    turned = np.flip(values, axis) if reverse else values
    result = REFERENCES[name].accumulate(turned.astype(wide), axis=axis, dtype=wide)
    return (np.flip(result, axis) if reverse else result).astype(values.dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [5, 1100])
def test_lengths_and_directions(length: int, reverse: bool) -> None:
    g = Graph()
    values = RNG.standard_normal((3, length, 2)).astype(np.float32)
    integers = RNG.integers(-9, 9, (2, length)).astype(np.int32)
    x, n = g.input(values), g.input(integers)
    for name in REFERENCES:
        if name != "cumprod":
            g.check(name, g.op(name, x, axis=1, reverse=reverse), running(name, values, 1, reverse), 1e-5)
    g.check("integers", g.op("cumprod", n, axis=1, reverse=reverse), running("cumprod", integers, 1, reverse))
    g.run()


def test_dtypes() -> None:
    g = Graph()
    for dtype in (np.int8, np.uint8, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16, np.float64, np.complex64,
                  np.complex128):  # fmt: skip
        values = RNG.integers(0, 3, (40,)).astype(dtype)
        g.check(
            f"cumsum {dtype}",
            g.op("cumsum", g.input(values), axis=0, reverse=False),
            running("cumsum", values, 0, False),
            1e-3,
        )
        if np.dtype(dtype).kind == "c":  # ordered by the imaginary parts where the real ones are equal
            values = values + 1j * RNG.integers(-3, 3, (40,)).astype(dtype)
            values[-7] = np.nan
        for name in ("cummax", "cummin"):
            g.check(
                f"{name} {dtype}",
                g.op(name, g.input(values), axis=0, reverse=True),
                running(name, values, 0, True),
            )
    flags = RNG.integers(0, 2, 40).astype(bool)
    g.check("bool", g.op("cummax", g.input(flags), axis=0, reverse=False), np.logical_or.accumulate(flags))
    g.check("empty", g.op("cumsum", g.input(np.zeros((0, 2), np.float32)), axis=0), np.zeros((0, 2), np.float32))
    g.run()


def test_infinities_and_nan() -> None:
    g = Graph()
    values = np.array([-np.inf, -np.inf, 1, np.inf, np.nan], np.float32)
    expected = np.array([-np.inf, -np.inf, 1, np.inf, np.nan], np.float32)
    g.check("cumlogsumexp", g.op("cumlogsumexp", g.input(values), axis=0, reverse=False), expected)
    g.check("cummax", g.op("cummax", g.input(values), axis=0, reverse=False), expected)
    g.run()


def test_half_precision_keeps_its_digits() -> None:
    g = Graph()
    ones = np.ones(2000, ml_dtypes.bfloat16)
    g.check("cumsum", g.op("cumsum", g.input(ones), axis=0, reverse=False), np.arange(1, 2001).astype(ones.dtype))
    g.run()


def test_cost_is_linear() -> None:
    """A window of the axis' length would be quadratic."""
    g = Graph()
    g.outvars.append(g.op("cumsum", g.input(np.ones(100_000, np.float32)), axis=0, reverse=False))
    text = g.text()
    assert "window_dimensions = array<i64: 1, 32>" in text and "100000>}" not in text
