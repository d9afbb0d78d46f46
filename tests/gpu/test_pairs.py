"""Pairs of steps compiled for a GPU: conversions into products, and a part of all pairs, another each day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from combinations.checking import combined, faults
from combinations.steps import CONVERSIONS, ENDS, MIDDLES, PRODUCTS, program
from support.days import of_the_day, seed
from support.features import has

DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "float16", "float32")
_AMONG = [step for step in CONVERSIONS if step.name.removeprefix("to ") in DTYPES]
_LAST = (*MIDDLES, *ENDS)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def dtypes(on_gpu: Any, x64: Any) -> list[str]:
    """Those of the table that the device has; indices are of 64 bits, in which the reference is written."""
    if not has(on_gpu, "int64"):
        pytest.skip(f"{on_gpu.device_kind} has no 64-bit integers")
    return [name for name in DTYPES if name != "float16" or has(on_gpu, "fp16")]


@pytest.mark.parametrize("part", of_the_day(range(3), 3))
def test_conversions_in_products(part: int, dtypes: list[str]) -> None:
    """Each place of a product takes every conversion once in seven days, or where time is short in 21."""
    rng = np.random.default_rng(part)
    programs = []
    for i, product in enumerate(PRODUCTS[part::3]):
        for j, dtype in enumerate(dtypes):
            for k, conversion in enumerate(_AMONG):
                if (i + j + k + seed()) % 7 == 0:
                    programs.append(program((conversion, product), (3, 5), dtype, rng))
    assert not faults([p for p in programs if p is not None])


@pytest.mark.parametrize("part", of_the_day(range(4), 2))
def test_pairs(part: int, dtypes: list[str]) -> None:
    rng = np.random.default_rng((seed(), part))
    pairs = [(first, _LAST[(i * 7 + seed()) % len(_LAST)]) for i, first in enumerate(MIDDLES)]
    programs = [combined(pair, rng, dtypes) for pair in pairs[part::4]]
    assert not faults([p for p in programs if p is not None])
