"""Conversions that meet products: signs are kept, bools count, and nothing that is not a number is lost."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import veery
from veery import lax, numpy as jnp
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.factors import convert_factors

_RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [3, 130, 512])  # the last one has its operands tiled
def test_masks_and_bytes_in_products_of_every_size(size: int) -> None:
    masks, bytes_ = _RNG.random((size, size)) < 0.5, _RNG.integers(0, 256, (size, size)).astype(np.uint8)
    w = _RNG.integers(-9, 9, (size, size)).astype(np.float32)  # sums of whole numbers are exact
    products = veery.jit(lambda m, u, w: (m.astype(jnp.float32) @ w, w @ u.astype(jnp.float32), u.T * 1.0 @ w[0]))
    expected = (masks.astype(float) @ w, w @ bytes_.astype(float), bytes_.T.astype(float) @ w[0])
    for out, right in zip(products(masks, bytes_, w), expected, strict=True):
        np.testing.assert_array_equal(out, right)


def test_a_mask_keeps_what_is_not_a_number() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    masked = veery.jit(lambda m, x: (m.astype(jnp.float32) * x, x * m[:1]))
    for out in masked(np.zeros(4, bool), x):
        np.testing.assert_array_equal(out, [0, np.nan, np.nan, np.nan])


def test_integers_become_bfloat16() -> None:
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        x = np.array([[0, 1, 100], [127, 3, 77]], dtype)
        twice = veery.jit(lambda x: (x.astype(jnp.bfloat16) * 2, x.astype(jnp.float32).T.astype(jnp.bfloat16).T * 2))
        for out in twice(x):
            np.testing.assert_array_equal(out.astype("float32"), 2.0 * x)
    out = veery.jit(lambda x: jnp.arange(3, dtype=jnp.bfloat16) * x)(jnp.ones(3, jnp.bfloat16))
    np.testing.assert_array_equal(out.astype("float32"), [0, 1, 2])


def test_products_that_sum_nothing() -> None:
    product = veery.jit(lambda a, b: a @ b)
    for dtype in (np.float32, np.int32, np.bool_):
        out = product(np.zeros((3, 0), dtype), np.zeros((0, 2), dtype))
        np.testing.assert_array_equal(out, np.zeros((3, 2), dtype))


def test_bytes_are_converted_in_one_dispatch_before_the_product() -> None:
    """The steps of a conversion are one loop; signed numbers and half precision are still converted in the product."""

    def dispatches(x: np.ndarray) -> int:
        w = np.ones((64, 32), np.float32)
        text = veery.jit(lambda x, w: x.astype(jnp.float32) @ w).lower(x, w).as_text("flow")
        return len(re.findall(r"flow\.dispatch @", text))

    assert dispatches(np.ones((16, 64), np.uint8)) == dispatches(np.ones((16, 64), bool)) == 2
    assert dispatches(np.ones((16, 64), np.int8)) == dispatches(np.ones((16, 64), np.float16)) == 1


_MODULE = """func.func @main(%u: tensor<4xui8>, %m: tensor<4xi1>, %s: tensor<4xf32>)
    -> (tensor<i32>, tensor<i1>, tensor<ui64>, tensor<f32>) {{
  {convert}
  %a = stablehlo.dot_general %u, %u, contracting_dims = [0] x [0] : (tensor<4xui8>, tensor<4xui8>) -> tensor<i32>
  %b = stablehlo.dot_general %m, %m, contracting_dims = [0] x [0] : (tensor<4xi1>, tensor<4xi1>) -> tensor<i1>
  %w = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xui64>
  %c = stablehlo.dot_general %w, %w, contracting_dims = [0] x [0] : (tensor<4xui64>, tensor<4xui64>) -> tensor<ui64>
  %d = stablehlo.dot_general %f, %s, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %a, %b, %c, %d : tensor<i32>, tensor<i1>, tensor<ui64>, tensor<f32>
}}"""
_STEPS = {
    "at once": "%f = stablehlo.convert %u : (tensor<4xui8>) -> tensor<4xf32>",
    "by way of int16": """%h = stablehlo.convert %u : (tensor<4xui8>) -> tensor<4xi16>
        %f = stablehlo.convert %h : (tensor<4xi16>) -> tensor<4xf32>""",
}


@pytest.mark.parametrize("steps", _STEPS)
def test_modules_from_elsewhere(steps: str, x64: Any) -> None:
    u, m, s = np.array([200, 255, 0, 1], np.uint8), np.array([True, True, False, False]), np.float32([1, 2, 3, 2.0**63])
    products = veery.stablehlo.load(_MODULE.format(convert=_STEPS[steps]))(u, m, s)
    wide = s.astype(np.uint64)
    assert [x.item() for x in products] == [105026, True, (wide * wide).sum(dtype=np.uint64), 2.0**63 + 710]


_FACTORS = [(5,), (7, 1), (7, 5), (3, 1, 1), (3, 1, 5), (3, 7, 1), (1,), ()]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sums_of_products_with_what_is_broadcast(dtype: str) -> None:
    """All factors and axes in one program; rows and columns of more than one vector in another."""

    def sums(np_: Any, a: Any, *others: Any) -> list[Any]:
        turned = [np_.broadcast_to(b, a.shape).transpose(1, 0, 2) * a.transpose(1, 0, 2) for b in others]
        products = [*(a * b for b in others), *turned]
        return [x.sum(axes) for x in products for axes in (None, (0, 1), (0, 2), (1, 2), 0, 1, 2)]

    for shape, factors in (((3, 7, 5), _FACTORS), ((2, 33, 40), [(40,), (33, 1), (2, 1, 40)])):
        arrays = [_RNG.integers(-9, 9, s).astype(dtype) for s in (shape, *factors)]  # sums of whole numbers are exact
        for actual, right in zip(veery.jit(lambda *xs: sums(jnp, *xs))(*arrays), sums(np, *arrays), strict=True):
            np.testing.assert_array_equal(actual, right)


_REDUCTION = """func.func @main(%a: tensor<7x5xf32>, %v: tensor<5xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %v, dims = [1] : (tensor<5xf32>) -> tensor<7x5xf32>
  %p = stablehlo.multiply %a, %b : tensor<7x5xf32>
  %r = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<7x5xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}"""


def test_a_sum_of_products_from_elsewhere() -> None:
    a, v = _RNG.integers(-9, 9, (7, 5)).astype(np.float32), np.arange(5, dtype=np.float32)
    assert veery.stablehlo.load(_REDUCTION)(a, v) == (a * v).sum()


def test_a_wider_sum_of_bytes() -> None:
    u = _RNG.integers(0, 256, (5, 5)).astype(np.uint8)
    product = veery.jit(lambda a, b: lax.dot(a, b, preferred_element_type=np.int32))
    np.testing.assert_array_equal(product(u, u), u.astype(int) @ u)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
def test_factors_of_large_products_are_converted_before(dtype: Any) -> None:
    x, y = (_RNG.standard_normal(shape).astype(dtype) for shape in ((130, 70), (70, 133)))
    wide = [z.astype(np.float64) for z in (x, y)]
    twice = (2 * x.astype(np.float32)).astype(dtype).astype(np.float64)
    product = veery.jit(lambda x, y: (x @ y, lax.dot(x * 2, y, preferred_element_type=np.float32), x[:5] @ y))
    rounded, summed, few = product(x, y)
    np.testing.assert_allclose(np.asarray(summed), twice @ wide[1], atol=1e-4)
    np.testing.assert_allclose(np.asarray(rounded).astype(np.float64), wide[0] @ wide[1], rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(np.asarray(few).astype(np.float64), wide[0][:5] @ wide[1], rtol=1e-2, atol=1e-2)
    mixed = veery.jit(lambda x, y: x.astype(np.float32) @ y)(x, y.astype(np.float32))
    np.testing.assert_allclose(np.asarray(mixed), wide[0] @ wide[1], atol=1e-4)
    x[3, 5], y[7, 9] = np.inf, np.nan
    expected = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(np.asarray(product(x, y)[0])), np.isfinite(expected))


def converted(fun: Any, *args: Any) -> list[str]:
    """The types that products read, where factors are converted before."""
    found: list[str] = []

    def look(module: Any) -> None:
        convert_factors(module)
        found.extend(str(x.type) for op in operations(module) if op.name.endswith("dot_general") for x in op.operands)

    inlined(veery.jit(fun).lower(*args)._lowered.module, look)
    return found


def test_which_factors_are_converted_before() -> None:
    x, y = np.ones((128, 64), ml_dtypes.bfloat16), np.ones((64, 128), np.float32)
    assert converted(lambda x: x @ x.T, x) == ["tensor<128x64xf32>", "tensor<64x128xf32>"]
    assert converted(lambda x: x[1:] @ x.T, x) == ["tensor<127x64xbf16>", "tensor<64x128xbf16>"]
    assert converted(lambda x: x[:, 1:] @ x[:, 1:].T, x) == ["tensor<128x63xbf16>", "tensor<63x128xbf16>"]
    assert converted(lambda x, y: x.astype(np.float32) @ y, x, y) == ["tensor<128x64xf32>", "tensor<64x128xf32>"]
    assert converted(lambda y: y.T @ y[:, :128], y) == ["tensor<128x64xf32>", "tensor<64x128xf32>"]
