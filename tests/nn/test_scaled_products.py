"""Products of arrays rounded in blocks, beside the same rounding by NumPy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

import veery
import veery.numpy as jnp

pytestmark = pytest.mark.compiler

RNG = np.random.default_rng(0)
SCALES = (0.5, 0.25, 1.0)  # of lhs, rhs and the cotangent with nvfp4


def configs(mode):
    scale = lambda x: None if mode == "mxfp8" else jnp.array([x], jnp.float32)
    return [veery.nn.get_scaled_dot_general_config(mode, scale(x)) for x in SCALES]


def rounded(x, mode, common):
    """What is left of a float32 array when its last dimension is kept in blocks."""
    block, narrow = (32, ml_dtypes.float8_e4m3fn) if mode == "mxfp8" else (16, ml_dtypes.float4_e2m1fn)
    largest = np.float32(ml_dtypes.finfo(narrow).max)
    common = np.float32(1 if mode == "mxfp8" else common)
    blocks = x.reshape(*x.shape[:-1], -1, block) / common
    scale = np.abs(blocks).max(-1, keepdims=True) / largest
    if mode == "mxfp8":
        scale = np.float32(2) ** np.ceil(np.log2(np.maximum(scale, np.float32(1e-30))))
    else:
        scale = np.clip(scale, 0, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        scale = np.where(scale == 0, 1, scale)
    kept = np.clip(blocks / scale, -largest, largest).astype(narrow).astype(np.float32)
    return (kept * scale * common).reshape(x.shape)


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_operands_are_rounded_in_blocks(mode):
    a = RNG.standard_normal((2, 3, 64, 32)).astype(np.float32) * np.float32(10) ** RNG.integers(-4, 4, (2, 3, 64, 1))
    a = a.astype(np.float32)
    a[0, :, 0] = 0  # blocks without a scale
    b = RNG.standard_normal((2, 32, 3, 32)).astype(np.float32)
    numbers = (((3, 1), (1, 2)), ((0,), (0,)))
    dot = veery.jit(lambda a, b: veery.nn.scaled_dot_general(a, b, numbers, configs=configs(mode)))
    out, vjp = veery.vjp(dot, a, b)

    x = np.moveaxis(a, 2, 1).reshape(2, 64, 96)  # contracted in the order of a
    y = b.transpose(0, 3, 2, 1).reshape(2, 32, 96)
    left, right = rounded(x, mode, 0.5), rounded(y, mode, 0.25)
    np.testing.assert_allclose(out, np.einsum("bmk,bnk->bmn", left, right), rtol=1e-4, atol=1e-4)

    ct = RNG.standard_normal(out.shape).astype(np.float32)
    along = lambda z: z if mode == "nvfp4" else np.swapaxes(rounded(np.swapaxes(z, 1, 2), mode, 1), 1, 2)
    back = ct if mode == "nvfp4" else rounded(ct, mode, 1)
    want_a = np.moveaxis(np.einsum("bmn,bnk->bmk", back, along(y)).reshape(2, 64, 3, 32), 1, 2)
    want_a = want_a * (np.abs(a) <= 0.5 * 6 * 448) if mode == "nvfp4" else want_a
    want_b = np.einsum("bmn,bmk->bnk", along(ct), along(x)).reshape(2, 32, 3, 32).transpose(0, 3, 2, 1)
    got_a, got_b = vjp(ct)
    np.testing.assert_allclose(got_a, want_a, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(got_b, want_b, rtol=1e-3, atol=1e-1)


def test_batched_products_are_those_of_the_elements():
    dot = lambda a, b: veery.nn.scaled_dot_general(a, b, (((1,), (1,)), ((), ())), jnp.bfloat16, configs("mxfp8"))
    a, b = (jnp.asarray(RNG.standard_normal((2, n, 32)), jnp.bfloat16) for n in (3, 4))
    out = veery.vmap(dot, (0, None))(a, b[0])
    assert out.dtype == jnp.bfloat16
    np.testing.assert_array_equal(out, jnp.stack([dot(x, b[0]) for x in a]))


def test_what_cannot_be_rounded_is_refused():
    numbers = (((1,), (1,)), ((), ()))
    x = jnp.ones((2, 48))
    assert veery.nn.scaled_dot_general(x, x, numbers).shape == (2, 2)  # without configs: no rounding
    with pytest.raises(ValueError, match="48 elements together, which is no multiple of 32"):
        veery.nn.scaled_dot_general(x, x, numbers, configs=configs("mxfp8"))
    with pytest.raises(TypeError, match="Only support preferred_element_type in"):
        veery.nn.scaled_dot_general(x, x, numbers, np.float64, configs("nvfp4"))


def test_scaled_matmul_multiplies_what_blocks_stand_for():
    a, b = (jnp.asarray(RNG.integers(-3, 4, (2, n, 8))).astype("float8_e4m3fn") for n in (3, 5))
    s, t = (2.0 ** RNG.integers(-2, 3, (2, n, 2)).astype(np.float32) for n in (3, 5))
    wide = [np.asarray(x, np.float32) * np.repeat(scale, 4, -1) for x, scale in ((a, s), (b, t))]
    np.testing.assert_array_equal(veery.nn.scaled_matmul(a, b, s, t), np.einsum("bmk,bnk->bmn", *wide))
