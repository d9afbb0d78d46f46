"""Operations that move elements, over the dtypes that IREE treats specially."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.jaxpr_graphs import Graph, Literal

import veery
from veery import lax, numpy as jnp

DTYPES = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
    ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.float8_e4m3fn,
)  # fmt: skip


def sample(dtype: type) -> np.ndarray:
    values = np.arange(6).reshape(2, 3)
    return (values + 1j * values[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else values.astype(dtype)


def test_moves_of_all_dtypes() -> None:
    """Among them: reverse of unsigned, pad and constants of complex128, which IREE does not compile as they are."""
    g = Graph()
    for dtype in DTYPES:
        name, values = np.dtype(dtype).name, sample(dtype)
        x = g.input(values)
        fill = Literal(values[1, 1], dtype)
        g.check(f"rev {name}", g.op("rev", x, dimensions=(0, 1)), values[::-1, ::-1])
        config = ((1, 0, 0), (-1, 2, 1))
        padded = np.full((3, 6), values[1, 1], dtype)
        padded[1:, 1] = values[:, 1]
        padded[1:, 3] = values[:, 2]
        g.check(f"pad {name}", g.op("pad", x, fill, out=(3, 6), padding_config=config), padded)
        wide = g.op("broadcast_in_dim", fill, out=(2, 2), shape=(2, 2), broadcast_dimensions=())
        g.check(f"splat {name}", wide, np.full((2, 2), values[1, 1], dtype))
        g.check(f"transpose {name}", g.op("transpose", x, out=(3, 2), permutation=(1, 0)), values.T)
        joined = g.op("concatenate", x, x, out=(2, 6), dimension=1)
        g.check(f"concatenate {name}", joined, np.concatenate([values, values], 1))
        first, second = g.ops("split", [x], [((2, 1), dtype), ((2, 2), dtype)], sizes=(1, 2), axis=1)
        g.check(f"split {name}", first, values[:, :1])
        g.check(f"split {name}", second, values[:, 1:])
        g.check(f"const {name}", g.const(values), values)
    g.run()


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.float32, ml_dtypes.bfloat16, np.complex64, np.complex128])
def test_iota_is_exact(dtype: type) -> None:
    g = Graph()
    x = g.op("iota", out=(2, 5), of=dtype, dtype=np.dtype(dtype), shape=(2, 5), dimension=1)
    g.check("iota", x, np.broadcast_to(np.arange(5).astype(dtype), (2, 5)))
    g.run()


def test_sub_byte_integers_enter_as_bytes() -> None:
    g = Graph()
    values = np.array([-8, -1, 0, 7], ml_dtypes.int4)
    x = g.input(values)
    g.check("add", g.op("add", x, x), (values.astype(np.int8) * 2).astype(ml_dtypes.int4))
    g.check("const", g.const(values), values)
    text = g.text()
    assert "tensor<4xi8>" in text and "xi4>" not in text


def test_dtype_without_elements_is_refused() -> None:
    g = Graph(((3,), ml_dtypes.float6_e2m3fn))
    with pytest.raises(TypeError, match="float6_e2m3fn"):
        g.text()


def test_squeeze_and_empty_arrays() -> None:
    g = Graph()
    x, empty = g.input(np.ones((1, 3, 1), np.float32)), g.input(np.zeros((0, 3), np.float32))
    g.check("squeeze", g.op("squeeze", x, out=(3,), dimensions=(0, 2)), np.ones(3, np.float32))
    g.check("rev", g.op("rev", empty, dimensions=(1,)), np.zeros((0, 3), np.float32))
    padded = g.op("pad", empty, Literal(2, np.float32), out=(1, 3), padding_config=((1, 0, 0), (0, 0, 0)))
    g.check("pad", padded, np.full((1, 3), 2, np.float32))
    g.run()


def test_paddings_of_one_element() -> None:
    """Interior padding puts nothing between; IREE took one of two such values for the other."""
    pad = lambda x: lax.pad(x, jnp.float32(0), [(0, 0, 1)])
    assert veery.jit(lambda x: pad(x * 2) + pad(x * x))(np.float32([3])).tolist() == [15]
    slope = veery.jit(veery.grad(lambda x: (jnp.log(x)[::2] * x[::2]).sum() + (x * x)[::2].sum()))
    np.testing.assert_allclose(slope(np.float32([3])), [np.log(3) + 1 + 6], rtol=1e-6)
