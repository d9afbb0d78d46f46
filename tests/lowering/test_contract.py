"""dot_general over dtypes and dimension numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from support.jaxpr_graphs import Graph

RNG = np.random.default_rng(0)


def product(g: Graph, a: np.ndarray, b: np.ndarray, dims: tuple, expected: np.ndarray, tolerance: float = 0) -> None:
    out = g.op(
        "dot_general", g.input(a), g.input(b), out=expected.shape, of=expected.dtype, dimension_numbers=dims,
        precision=None, preferred_element_type=None,
    )  # fmt: skip
    g.check(f"{a.dtype} {b.dtype} {dims}", out, expected, tolerance)


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
    g = Graph()
    a = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    b = RNG.standard_normal((5, 2, 6, 3)).astype(np.float32)
    product(g, a, b, (((3,), (0,)), ((0, 1), (1, 3))), np.einsum("abcd,daeb->abce", a, b), 1e-5)
    product(g, a, b, (((0, 3), (1, 0)), ((), ())), np.einsum("abcd,daef->bcef", a, b), 1e-5)
    product(g, a[0, 0], b[0, 0], (((), ()), ((), ())), np.einsum("ab,cd->abcd", a[0, 0], b[0, 0]), 1e-5)
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
