"""Reductions: neutral elements, NaN, ties, bools, half precision, empty axes."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from support.jaxpr_graphs import Graph

RNG = np.random.default_rng(0)


def reduced(g: Graph, name: str, values: np.ndarray, reference: Callable, *, axes: tuple = (1,), tolerance: float = 0):
    x = g.input(values)
    expected = np.asarray(reference(values, axis=axes), values.dtype)
    out = g.op(name, x, out=expected.shape, axes=axes)
    g.check(f"{name} {values.dtype} {values.shape}", out, expected, tolerance)


def test_sums_and_products() -> None:
    g = Graph()
    for dtype in (np.int8, np.uint16, np.int64, np.float32, np.float64, np.complex64, np.complex128):
        values = RNG.integers(1, 4, (3, 5)).astype(dtype)
        reduced(g, "reduce_sum", values, np.sum, axes=(0, 1))
        reduced(g, "reduce_prod", values, np.prod)
    g.run()


def test_half_precision_sums_keep_their_digits() -> None:
    """A running sum of 4096 ones in bfloat16 would stop at 256."""
    g = Graph()
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = g.input(np.ones((2, 4096), dtype))
        g.check(str(dtype), g.op("reduce_sum", x, out=(2,), axes=(1,)), np.full(2, 4096, dtype))
    g.run()


def test_bools_are_not_added_modulo_two() -> None:
    g = Graph()
    for values in ([[True, True], [False, False]], [[True, False], [True, True]]):
        array = np.array(values)
        reduced(g, "reduce_sum", array, np.any)
        reduced(g, "reduce_or", array, np.any)
        reduced(g, "reduce_and", array, np.all)
        reduced(g, "reduce_max", array, np.any)
        reduced(g, "reduce_min", array, np.all)
        reduced(g, "reduce_prod", array, np.all)
    g.run()


def test_extremes_and_bits() -> None:
    g = Graph()
    for dtype in (np.int8, np.int32, np.uint8, np.uint64, np.float32, np.float64):
        values = RNG.integers(0, 100, (3, 5)).astype(dtype)
        reduced(g, "reduce_max", values, np.max)
        reduced(g, "reduce_min", values, np.min)
        if np.dtype(dtype).kind in "iu":
            for name, ufunc in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
                reduced(g, f"reduce_{name}", values, lambda x, axis, f=ufunc: f.reduce(x, axis=axis[0]))
    infinite = np.array([[-np.inf, -np.inf], [np.nan, 1], [np.inf, 2]], np.float32)
    reduced(g, "reduce_max", infinite, np.max)
    reduced(g, "reduce_min", infinite, np.min)
    numbers = np.array([[1 + 2j, 1 + 3j, 0 + 9j], [2 - 1j, 2 - 2j, -1 + 0j]], np.complex64)
    reduced(g, "reduce_max", numbers, np.max)
    reduced(g, "reduce_min", numbers, np.min)
    g.run()


def test_arg_extremes() -> None:
    """The first NaN wins, then the lowest index of equals; bools and infinities as well."""
    g = Graph()
    samples = [
        np.array([[1, 3, 3, 0], [5, np.nan, 7, np.nan], [-np.inf] * 4, [np.inf, 1, np.inf, 0]], np.float32),
        np.array([[2, 2, 1], [0, -5, -5]], np.int32),
        np.array([[0, 255, 255], [3, 3, 0]], np.uint8),
        np.array([[False, True, True], [False, False, False]]),
        np.array([[1, 2, 2]], ml_dtypes.bfloat16),
    ]
    for values in samples:
        x = g.input(values)
        wide = values.astype(np.float32)
        for name, function in {"argmax": np.argmax, "argmin": np.argmin}.items():
            for axis in (0, 1):
                expected = function(wide, axis=axis).astype(np.int32)
                out = g.op(name, x, out=expected.shape, of=np.int32, axes=(axis,), index_dtype=np.dtype(np.int32))
                g.check(f"{name} {values.dtype} axis {axis}", out, expected)
    g.run()


def test_empty_axes_and_empty_operands() -> None:
    g = Graph()
    empty = np.zeros((0, 3), np.float32)
    reduced(g, "reduce_sum", empty, np.sum, axes=(0,))
    reduced(g, "reduce_prod", empty, np.prod, axes=(0,))
    x = g.input(np.ones((2, 3), np.float32))
    g.check("no axes", g.op("reduce_sum", x, axes=()), np.ones((2, 3), np.float32))
    g.run()


def test_general_reduction() -> None:
    body = Graph(((), np.float32), ((), np.float32))
    closed = body.closed(body.op("max", *body.invars))
    g = Graph()
    values = RNG.standard_normal((3, 4)).astype(np.float32)
    x, init = g.input(values), g.input(np.float32(0.5))
    (out,) = g.ops("reduce", [x, init], [((3,), np.float32)], dimensions=(1,), jaxpr=closed)
    g.check("reduce", out, np.maximum(values.max(1), np.float32(0.5)))
    g.run()


def test_extremes_of_odd_rows_are_kept_apart() -> None:
    """Fused with what uses them, they make IREE's code scalar: a softmax of 1000 classes is 80 times slower."""

    def text(width: int) -> str:
        g = Graph(((50, width), np.float32))
        g.outvars.append(g.op("reduce_max", *g.invars, out=(50,), axes=(1,)))
        return g.text()

    assert "optimization_barrier" in text(1000)
    assert "optimization_barrier" not in text(1024) + text(10)
