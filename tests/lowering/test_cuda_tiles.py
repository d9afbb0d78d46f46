"""Products for CUDA are multiplied in blocks, whose operands a workgroup shares."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import pytest
from support.ptx import Kernel

import veery
import veery.numpy as jnp
import veery_lowering
from veery_lowering.passes.blocks import block_of


@functools.cache
def code(subscripts: str, a: tuple[int, ...], b: tuple[int, ...], dtype: str = "float32") -> list[str]:
    """The code of each dispatch of a product."""
    product = functools.partial(jnp.einsum, subscripts)
    with veery.enable_x64(True):
        closed = veery.make_jaxpr(product)(np.ones(a, dtype), np.ones(b, dtype))
        program = veery_lowering.compile(closed, target="cuda", options=veery_lowering.Options(cache=False))
    return program.vmfb.decode("latin1").split(".visible .entry")[1:]


def multiplied(subscripts: str, a: Any, b: Any) -> Any:
    """A product, as its kernel computes it."""
    (text,) = code(subscripts, a.shape, b.shape, a.dtype.name)
    *batch, m, n = np.einsum(subscripts, a, b).shape
    block = block_of(math.prod(batch), m, n, a.shape[-1])
    assert block is not None
    out = np.full((*batch, m, n), 9, a.dtype)
    Kernel(text).run((out.size // (block.rows * block.columns),), [a, b, out])
    return out


@pytest.mark.parametrize(
    ("dtype", "subscripts", "a", "b"),
    [
        ("float32", "mk,kn->mn", (64, 64), (64, 64)),
        ("float32", "mk,kn->mn", (704, 32), (32, 768)),  # blocks of 64x64
        ("float32", "mk,kn->mn", (16, 48), (48, 60)),
        ("float64", "mk,kn->mn", (100, 40), (40, 60)),
        ("int32", "mk,kn->mn", (24, 20), (20, 36)),
        ("int64", "mk,kn->mn", (8, 24), (24, 16)),
        ("uint8", "mk,kn->mn", (48, 32), (32, 32)),
        ("float32", "bmk,bkn->bmn", (3, 40, 24), (3, 24, 40)),
        ("float32", "mk,nk->mn", (40, 24), (40, 24)),
        ("float32", "km,kn->mn", (24, 24), (24, 40)),
    ],
)
def test_kernels_multiply(dtype: str, subscripts: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """They touch no memory but that of the operands and the product, and wait for what others write."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, shape).astype(dtype) for shape in (a, b))
    np.testing.assert_array_equal(multiplied(subscripts, x, y), np.einsum(subscripts, x, y))


def test_kernels_that_do_not_wait_are_found() -> None:
    (text,) = code("mk,kn->mn", (64, 64), (64, 64))
    x = np.ones((64, 64), np.float32)
    with pytest.raises(AssertionError, match="without a barrier|not written"):
        Kernel(re.sub(r"bar\.sync\s+0;", "", text)).run((32,), [x, x, np.zeros_like(x)])


def test_kernels_that_write_past_the_end_are_found() -> None:
    (text,) = code("mk,kn->mn", (64, 64), (64, 64))
    x = np.ones((64, 64), np.float32)
    with pytest.raises(AssertionError, match="outside of the buffer"):
        Kernel(text).run((32,), [x, x, np.zeros((63, 64), np.float32)])


@pytest.mark.parametrize(
    ("subscripts", "a", "b"),
    [
        ("mk,kn->mn", (256, 128), (128, 192)),
        ("mk,kn->mn", (100, 40), (40, 60)),
        ("mk,kn->mn", (16, 600), (600, 3000)),
        ("bmk,bkn->bmn", (24, 200, 200), (24, 200, 200)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_operands_go_through_shared_memory(subscripts: str, a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    (dispatch,) = code(subscripts, a, b, dtype)
    assert "ld.shared" in dispatch and "bar.sync" in dispatch
    # Threads with nothing to do compute past the ends: all have what the others have, and jumps end loops alone.
    assert len(re.findall(r"@%p\d+ bra", dispatch)) <= 2 + dispatch.count("ld.global")


def test_what_no_block_divides_is_completed_before() -> None:
    *copies, product, part = code("mk,kn->mn", (131, 257), (257, 190))
    assert len(copies) == 2 and "ld.shared" in product and "ld.shared" not in part


@pytest.mark.parametrize(("subscripts", "b"), [("km,kn->mn", (256, 512)), ("mk,nk->mn", (512, 256))])
def test_what_is_transposed_is_copied_before(subscripts: str, b: tuple[int, int]) -> None:
    *before, product = code(subscripts, (256, 256), b)
    assert len(before) == 1 and "ld.shared" in product


def test_small_products_of_odd_sizes_and_halves_are_left_alone() -> None:
    (odd,) = code("mk,kn->mn", (33, 17), (17, 35))
    halves = code("mk,kn->mn", (128, 128), (128, 128), "float16")
    assert "ld.shared" not in odd and any("mma.sync" in each for each in halves)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float32"])
def test_complex_results_are_not_fused(dtype: str) -> None:
    with veery.enable_x64(True):
        closed = veery.make_jaxpr(lambda x: x + x.sum())(np.ones((7, 9), dtype))
        flow = veery_lowering.lower(closed, target="cuda").intermediate("flow")
    assert (flow.count("flow.dispatch @") == 1) == (dtype == "float32")
