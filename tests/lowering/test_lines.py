"""Numbers along an axis, which kernels write for themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_as_numpy

import veery
from veery import lax, numpy as jnp
from veery_lowering.targets.target import Target

pytestmark = pytest.mark.usefixtures("as_preferred")

SIZES = [2, 63, 65, 100, 1027, 2049, 4096, 4097]
DTYPES = ["int32", "uint32", "int64", "float32", "float64", "int8", "float16"]


def numbers(x: Any, axis: int, dtype: Any) -> Any:
    return lax.broadcasted_iota(dtype, x.shape, axis)


def calls_of(dtype: str, n: int) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Programs with so many numbers along one axis, and five along the other, exact in any dtype."""
    x = np.random.default_rng(n).integers(0, 3, (5, n)).astype(dtype)
    few = lambda x, axis: numbers(x, axis, x.dtype) % 7 if np.dtype(dtype).kind in "iu" else numbers(x, axis, x.dtype)
    return [
        (lambda x: x + few(x, 1), (x,)),
        (lambda x: x.T + few(x.T, 0) * 2, (x,)),
        (lambda x: (x * 2 + few(x, 0)).max(1), (x,)),
        (lambda x: jnp.minimum(x, few(x, 1)).max(0) - few(x, 0)[:, :1], (x,)),
        (lambda x: (x.argmax(1), (x * 2).argmin(1), x.T.argmax(0)), (x,)),
        (lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.maximum(y, few(y, 1)) - few(y, 0), x), (x,)),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers(dtype: str) -> None:
    with veery.enable_x64(True):
        assert_as_numpy([call for n in SIZES for call in calls_of(dtype, n)])


@pytest.mark.parametrize("register", [16, 64])
def test_vectors_of_any_width(register: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "register", property(lambda _: register))
    assert_as_numpy([call for n in (65, 100, 1027) for call in calls_of("int32", n)])


def test_several_lines_in_one_kernel() -> None:
    """Of two sizes and dtypes, one of them along two axes."""
    x = np.random.default_rng(0).integers(-3, 3, (300, 300, 100)).astype(np.int32)
    fun = lambda x: (x + numbers(x, 0, x.dtype) * 3 - numbers(x, 1, x.dtype)).max(-1) - x[..., 0]
    other = lambda x: (x * numbers(x, 2, np.float32) + numbers(x, 1, np.int32)).astype(np.int32).min(-1)
    assert_as_numpy([(fun, (x,)), (other, (x,))])
