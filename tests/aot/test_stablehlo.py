"""StableHLO out and in again: text, bytecode, versioned bytecode; the functions of a module under jit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import veery
import veery.numpy as jnp


@pytest.mark.parametrize("form", ["as_text", "as_bytecode"])
def test_what_goes_out_comes_in(form):
    x = jnp.arange(3.0)
    lowered = veery.jit(lambda x: (jnp.tanh(x), x > 1)).lower(x)
    module = veery.stablehlo.load(getattr(lowered, form)())
    for got, want in zip(module(x), (np.tanh(np.arange(3.0)), np.arange(3.0) > 1)):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    doubled = veery.jit(lambda x: module(x)[0] + module(x)[0])(x)
    np.testing.assert_allclose(doubled, 2 * np.tanh(np.arange(3.0)), rtol=1e-6)


def test_modules_of_others():
    text = """
    module @theirs {
      func.func private @twice(%arg0: tensor<2xui32>) -> tensor<2xui32> {
        %0 = stablehlo.add %arg0, %arg0 : tensor<2xui32>
        return %0 : tensor<2xui32>
      }
      func.func public @main(%x: tensor<2xui32> {mhlo.sharding = "{replicated}"}) -> (tensor<2xui32> {jax.info = "r"}) {
        %0 = stablehlo.custom_call @Sharding(%x) : (tensor<2xui32>) -> tensor<2xui32>
        %1 = call @twice(%0) : (tensor<2xui32>) -> tensor<2xui32>
        return %1 : tensor<2xui32>
      }
    }"""
    theirs = veery.stablehlo.load(text)
    x = np.array([1, 3_000_000_000], np.uint32)
    np.testing.assert_array_equal(theirs(x), x + x)
    with pytest.raises(TypeError, match=r"argument 0 of the StableHLO module theirs must be u32\[2\], got u32\[3\]"):
        theirs(np.ones(3, np.uint32))
    with pytest.raises(NotImplementedError, match="cannot be mapped by vmap"):
        veery.vmap(theirs)(np.ones((4, 2), np.uint32))


BAD = {
    "module {": "can be read",
    "module {}": "one public function.*none",
    "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }": r"static.*tensor<\?xf32>",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_modules(text):
    with pytest.raises(ValueError, match=BAD[text]):
        veery.stablehlo.load(text)


def test_a_versioned_module_that_jax_exported():
    """softmax(tanh(x @ p["w"] + p["b"])), as `jax.export.export(...).mlir_module_serialized` gives it."""
    path = Path(__file__).parent / "data/jax_0_10_layer.mlirbc"
    layer = veery.stablehlo.load(path)
    rng = np.random.default_rng(0)
    b, w, x = (rng.standard_normal(a.shape).astype(a.dtype) for a in layer.in_avals)
    h = np.exp(np.tanh(x @ w + b))
    np.testing.assert_allclose(layer(b, w, x), h / h.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(veery.jit(lambda x: 2 * layer(b, w, x))(x), 2 * layer(b, w, x), rtol=1e-6)


def test_a_bad_versioned_module():
    """A sum of arrays of two sizes, which a portable artifact may have, and StableHLO may not."""
    two, three = (f"!vhlo.tensor_v1<{n}x!vhlo.f32_v1>" for n in (2, 3))
    text = f"""vhlo.func_v1 @main(%a: {two}, %b: {three}) -> ({two}) {{
      %sum = "vhlo.add_v1"(%a, %b) : ({two}, {three}) -> {two}
      "vhlo.return_v1"(%sum) : ({two}) -> ()
    }} {{arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"">}}"""
    with pytest.raises(ValueError, match="not a portable artifact that can be read: .*add"):
        veery.stablehlo.load(text)


@pytest.mark.parametrize(
    ("place", "byte", "said"), [(596, 240, "can be read: the compiler crashed"), (861, 150, "a name in it is not text")]
)
def test_damaged_bytecode_ends_no_process(place: int, byte: int, said: str):
    """Of one of these IREE's reader asks for more memory than there is."""
    code = bytearray((Path(__file__).parent / "data/jax_0_10_layer.mlirbc").read_bytes())
    code[place] = byte
    with pytest.raises(ValueError, match=f"not a StableHLO module that .*{said}"):
        veery.stablehlo.load(bytes(code))


def test_signs_in_versioned_modules():
    """Bytes and bools in products, as `jax.export` gives them; the last product sums nothing."""
    products = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_signs.mlirbc")
    u = np.array([200, 3, 255, 0, 7], np.uint8)
    m = np.array([True, False, True, False, True])
    w = np.arange(25, dtype=np.float32).reshape(5, 5)
    w[0, 1] = np.nan
    byte, masked, counted, squares, any_, nothing = products(u, m, w, np.zeros((0, 5), np.float32))
    np.testing.assert_array_equal(byte, u.astype(np.float32) @ w)
    np.testing.assert_array_equal(masked, m.astype(np.float32) * w[0])
    np.testing.assert_array_equal(counted, m.astype(np.float32) @ w)
    assert (squares, any_) == (105083, True)
    np.testing.assert_array_equal(nothing, np.zeros((5, 5)))


def test_a_sum_of_products_in_a_versioned_module():
    """(a * v).sum() of a matrix and a row, which IREE refuses as it stands."""
    total = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_sum_of_products.mlirbc")
    a, v = np.arange(35, dtype=np.float32).reshape(7, 5), np.arange(5, dtype=np.float32)
    assert total(a, v) == (a * v).sum()


def test_a_depthwise_convolution_in_a_versioned_module():
    """Of half precision, summed in single: IREE gives the kernel the wrong type."""
    convolution = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_depthwise.mlirbc")
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(a.shape).astype(a.dtype) for a in convolution.in_avals)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32), (2, 2), axis=(1, 2))
    np.testing.assert_allclose(convolution(x, w), np.einsum("nhwcij,ijc->nhwc", windows, w[:, :, 0]), rtol=1e-5)


def test_strided_windows_of_one_element_in_a_versioned_module():
    """IREE does not compute what they step over, though it is a result too."""
    strided = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_strided_window.mlirbc")
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    windows, doubled = strided(x)
    np.testing.assert_array_equal(doubled, 2 * x)
    np.testing.assert_array_equal(windows, 2 * x[:, ::2])


def test_steps_through_widened_values_in_a_versioned_module():
    """What is computed in the dispatch that takes every second element: IREE forgot the steps."""
    steps = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_steps.mlirbc")
    x, m = np.arange(7, dtype=np.float16), np.array([True, False, True, True, False, True, False])
    thirds, chosen, total, backwards = steps(x, m)
    np.testing.assert_array_equal(thirds, [0, 6, 12, 18])
    np.testing.assert_array_equal(chosen, [8, 8, 4])
    assert total == 7
    np.testing.assert_array_equal(backwards, [6, 4, 2, 0])


def test_unsigned_integers_in_a_versioned_module():
    """Reverses and windows, which IREE compiles of signed ones only: `cumsum`, `cumprod`, `cummax`, windows' minima."""
    folds = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_unsigned.mlirbc")
    x, y = np.array([200, 3, 255, 0, 7, 9, 130, 1, 2], np.uint8), np.array([70, 60_000, 3, 65_535], np.uint16)
    backwards, sums, products, largest, least, wide = folds(x, y)
    np.testing.assert_array_equal(backwards, x[::-1])
    np.testing.assert_array_equal(sums, np.cumsum(x, dtype=np.uint8))
    np.testing.assert_array_equal(products, np.cumprod(x, dtype=np.uint8))
    np.testing.assert_array_equal(largest, np.maximum.accumulate(x))
    np.testing.assert_array_equal(least, np.minimum(x[1:], x[:-1]))
    np.testing.assert_array_equal(wide, np.maximum.accumulate(y[::-1])[::-1])


def test_paddings_of_paddings_in_a_versioned_module():
    """IREE made one of two, and forgot the zeros between elements."""
    paddings = veery.stablehlo.load(Path(__file__).parent / "data/jax_0_10_paddings.mlirbc")
    outer, inner = paddings(np.array([1, 2, 3, 4], np.float32))
    np.testing.assert_array_equal(outer, [0, 1, 0, 2, 0, 3, 0, 4, 0, 0])
    np.testing.assert_array_equal(inner, [0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0])
