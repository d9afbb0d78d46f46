"""Blocks of products divide what is multiplied."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from veery_lowering.passes.blocks import block_of

_SIZES = st.integers(1, 2000)


@given(st.integers(1, 64), _SIZES, _SIZES, _SIZES)
def test_blocks_divide_products_and_threads_divide_blocks(batch: int, m: int, n: int, k: int) -> None:
    block = block_of(batch, m, n, k)
    if block is None:
        assert m % 4 or m < 8 or n % 4 or n < 16 or k % 4 or k < 8 or not divisors(m, n, k)
    else:
        assert (m % block.rows, n % block.columns, k % block.terms) == (0, 0, 0)
        assert (block.rows % block.rows_of_a_thread, block.columns % block.columns_of_a_thread) == (0, 0)
        assert 4 <= block.threads <= 128


def divisors(m: int, n: int, k: int) -> bool:
    found = [any(size % d == 0 for d in range(least, 65, 4)) for size, least in ((m, 8), (n, 16))]
    return all(found) and any(k % d == 0 for d in (8, 16, 20, 24))


@pytest.mark.parametrize(
    ("product", "shape"),
    [((1, 2048, 2048, 2048), (64, 64)), ((1, 600, 600, 600), (40, 60)), ((24, 200, 200, 200), (40, 40))],
)
def test_there_is_work_for_all(product: tuple[int, int, int, int], shape: tuple[int, int]) -> None:
    block = block_of(*product)
    assert block is not None and sorted(block[:2]) == sorted(shape)
    batch, m, n, _ = product
    assert batch * m * n // (block.rows * block.columns) >= 128
