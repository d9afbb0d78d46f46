"""dot_general over dtypes and dimension numbers."""

from __future__ import annotations

from itertools import product as pairs
from typing import Any

import ml_dtypes
import numpy as np
from support.jaxpr_graphs import Graph

import veery
from veery import lax

RNG = np.random.default_rng(0)


PLAIN = (((1,), (0,)), ((), ()))


def product(
    g: Graph,
    a: np.ndarray,
    b: np.ndarray,
    dims: tuple,
    expected: np.ndarray,
    tolerance: float = 0,
    preferred: Any = None,
) -> None:
    out = g.op(
        "dot_general", g.input(a), g.input(b), out=expected.shape, of=expected.dtype, dimension_numbers=dims,
        precision=None, preferred_element_type=preferred,
    )  # fmt: skip
    g.check(f"{a.dtype} {b.dtype} {dims}", out, expected, tolerance)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    params = {"dimension_numbers": dims, "precision": None, "preferred_element_type": expected.dtype}
    reference = lax.dot_general_p.reference(a, b, **params)
    assert reference.dtype == expected.dtype
    np.testing.assert_allclose(reference.astype(wide), expected.astype(wide), rtol=tolerance)


def test_dtypes() -> None:
    g = Graph()
    plain = (((1,), (0,)), ((), ()))
    for dtype in (np.int8, np.uint8, np.int32, np.uint64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64,
                  np.complex64, np.complex128):  # fmt: skip
        a, b = (RNG.integers(0, 4, shape).astype(dtype) for shape in ((3, 4), (4, 2)))
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        product(g, a, b, plain, (a.astype(wide) @ b.astype(wide)).astype(dtype))
    narrow = RNG.integers(-9, 9, (3, 4)).astype(np.int8)
    product(g, narrow, narrow.T.copy(), plain, narrow.astype(np.int32) @ narrow.T.astype(np.int32))
    g.run()


DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def values(dtype: str, *shape: int) -> np.ndarray:
    """Of integers whole powers of two, of unsigned ones the largest too; of floats eighths: products are exact."""
    if dtype == "bool":
        return RNG.random(shape) < 0.6
    if dtype[0] in "iu":
        bits = np.iinfo(dtype).bits
        return np.array(1, dtype) << RNG.integers(0, min(4, bits) if dtype[0] == "i" else bits, shape).astype(dtype)
    x = RNG.integers(-16, 17, shape) / 8
    return (x + 1j * RNG.integers(-16, 17, shape) / 8 if dtype[0] == "c" else x).astype(np.dtype(dtype))


def test_operands_of_two_dtypes(x64: Any) -> None:
    """Of bool and float32 both were converted to integers; of a real and a complex matrix IREE makes nothing."""
    g = Graph()
    for left, right in pairs(DTYPES, DTYPES):
        a, b = values(left, 3, 4), values(right, 4, 2)
        out = veery.eval_shape(lambda a, b: lax.dot_general(a, b, PLAIN), a, b).dtype
        wide = np.complex128 if out.kind == "c" else np.float64 if out.kind in "fV" else out
        tolerance = 1e-2 if out.itemsize == 2 else 1e-6 if out.kind in "fc" else 0
        with np.errstate(over="ignore"):
            wanted = (a.astype(wide) @ b.astype(wide)).astype(out)
        product(g, a, b, PLAIN, wanted, tolerance)
    g.run()


def test_what_is_asked_for_is_converted_from_the_sum() -> None:
    g = Graph()
    for dtype, preferred in (
        ("bool", "complex64"), ("float32", "complex64"), ("complex64", "float32"), ("complex64", "float64"),
        ("complex128", "float64"), ("int8", "complex64"), ("float32", "int32"), ("bfloat16", "int8"),
        ("int8", "float32"), ("bool", "float32"), ("bool", "int32"),
    ):  # fmt: skip
        a, b = values(dtype, 3, 4), values(dtype, 4, 2)
        exact = a.astype(np.complex128) @ b.astype(np.complex128)
        wanted = exact if preferred[0] == "c" else exact.real
        product(g, a, b, PLAIN, wanted.astype(preferred), 1e-6, preferred)
    g.run()


def test_derivatives_of_real_parts() -> None:
    a, b = (values("complex64", *shape) for shape in ((3, 4), (4, 2)))
    asked = lambda a, b: lax.dot(a, b, preferred_element_type="float32").sum()
    for i in (0, 1):
        derivative = veery.grad(lambda a, b: lax.dot(a, b).real.sum(), i)(a, b)
        np.testing.assert_array_equal(veery.grad(asked, i)(a, b), derivative)


def test_bools_are_not_added_modulo_two() -> None:
    g = Graph()
    a = np.array([[True, True], [True, False]])
    product(g, a, a, (((1,), (0,)), ((), ())), np.array([[True, True], [True, True]]))
    g.run()


def test_matrices_of_8_bit_integers_are_exact() -> None:
    """As floats, and in parts where a sum of float32 would round: the extremes are 3000 times 128 times 128."""
    g = Graph()
    plain, depth = (((1,), (0,)), ((), ())), 3000
    for dtype in (np.int8, np.uint8, np.bool_):
        low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        a, b = (RNG.integers(low, high + 1, shape).astype(dtype) for shape in ((50, depth), (depth, 49)))
        a[3], b[:, 5] = (1, 1) if dtype == np.bool_ else (low or high, low or high)
        exact = a.astype(np.int64) @ b.astype(np.int64)
        product(g, a, b, plain, exact.astype(np.int32))
        product(g, a.T.copy(), b, (((0,), (0,)), ((), ())), exact != 0 if dtype == np.bool_ else exact.astype(dtype))
    several = RNG.integers(-128, 128, (2, 60, 7, 9)).astype(np.int8)
    wanted = np.einsum("bikl,bjkl->bij", *[several.astype(np.int32)] * 2)
    product(g, several, several, (((2, 3), (2, 3)), ((0,), (0,))), wanted)
    g.run()


def test_half_precision_sums_in_single() -> None:
    """Terms of one size: a running sum in bfloat16 would stop growing at 256."""
    g = Graph()
    ones = np.ones((1, 4096), ml_dtypes.bfloat16)
    product(g, ones, ones.T.copy(), (((1,), (0,)), ((), ())), np.array([[4096]], ones.dtype))
    g.run()


def test_dimension_numbers() -> None:
    """Of whole numbers, whose sums are exact, also where terms cancel."""
    g = Graph()
    a = RNG.integers(-9, 9, (2, 3, 4, 5)).astype(np.float32)
    b = RNG.integers(-9, 9, (5, 2, 6, 3)).astype(np.float32)
    product(g, a, b, (((3,), (0,)), ((0, 1), (1, 3))), np.einsum("abcd,daeb->abce", a, b))
    product(g, a, b, (((0, 3), (1, 0)), ((), ())), np.einsum("abcd,daef->bcef", a, b))
    product(g, a[0, 0], b[0, 0], (((), ()), ((), ())), np.einsum("ab,cd->abcd", a[0, 0], b[0, 0]))
    empty = np.zeros((3, 0), np.float32)
    product(g, empty, empty.T.copy(), (((1,), (0,)), ((), ())), np.zeros((3, 3), np.float32))
    g.run()


def test_a_transposed_product_is_the_product_of_swapped_operands() -> None:
    """For any batch dimensions; other permutations stay transposes."""
    g = Graph()
    a = RNG.standard_normal((2, 5, 3, 4)).astype(np.float32)
    b = RNG.standard_normal((5, 2, 6)).astype(np.float32)
    expected = np.einsum("abcd,bae->abcde", a, b)
    for axes, permutation in (((((1,), (0,)), ((0,), (1,))), (0, 3, 1, 2)), ((((1, 0), (0, 1)), ((), ())), (2, 0, 1))):
        contracted = expected.sum(1) if permutation[0] == 0 else expected.sum((0, 1))
        for order in (permutation, tuple(reversed(permutation))):
            x = g.op("dot_general", g.input(a), g.input(b), out=contracted.shape, of=np.float32,
                     dimension_numbers=axes, precision=None, preferred_element_type=None)  # fmt: skip
            out = contracted.transpose(order)
            g.check(f"{axes} {order}", g.op("transpose", x, out=out.shape, of=np.float32, permutation=order), out, 1e-5)
    assert g.text().count("stablehlo.transpose") == 2
    g.run()
