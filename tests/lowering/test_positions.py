"""Operations that ask where they are, in dispatches whose loops are joined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
from veery import numpy as jnp

SHAPES = [(1, 40), (40, 1), (7, 3), (33, 129), (200, 300), (5, 6, 70), (3, 1, 40), (2, 3, 5, 31), (0, 20)]


def position(np_: Any, x: Any, axis: int) -> Any:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return np_.arange(x.shape[axis], dtype=np.int32).reshape(shape)


def last(np_: Any, x: Any) -> Any:
    return position(np_, x, -1)


def first(np_: Any, x: Any) -> Any:
    return position(np_, x, 0)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "triangle": lambda np_, x: np_.where(first(np_, x) >= last(np_, x), x, 0),
    "two triangles": lambda np_, x: np_.tril(x) - np_.triu(x, 1) * 2 + np_.eye(x.shape[-1], dtype=x.dtype)[:1],
    "reversed": lambda np_, x: x[::-1] * 2,
    "reversed twice": lambda np_, x: np_.flip(x, (0, -1)) + x,
    "reversed last": lambda np_, x: x[..., ::-1],
    "rows": lambda np_, x: x[(np_.arange(9) * 2 % 5) % max(x.shape[0], 1)],
    "elements": lambda np_, x: np_.take_along_axis(x, (x > 1).astype(np.int32) * (x.shape[-1] - 1), -1),
    "places": lambda np_, x: x + (first(np_, x) * 3 - last(np_, x)).astype(x.dtype),
    "sums": lambda np_, x: np_.where(first(np_, x) % 2 == last(np_, x) % 3, x, 1).sum(-1),
    "sums of columns": lambda np_, x: (x * (first(np_, x) + last(np_, x)).astype(x.dtype)).sum(0),
    "largest": lambda np_, x: np_.flip(x, 0).max(-1) + np_.where(last(np_, x) > 2, x, 4).max(),
    "product": lambda np_, x: np_.tril(x) @ np_.flip(np_.swapaxes(x, -1, -2), -2),
    "joined": lambda np_, x: np_.concatenate([x, x[::-1], np_.triu(x)], -1)[..., 1:-1],
}


# Complex numbers have no order, and bools no difference.
_WITHOUT = {("elements", "complex64"), ("largest", "complex64"), ("two triangles", "bool")}
CASES = [(n, d) for n in PROGRAMS for d in ("float32", "int32", "complex64", "bool") if (n, d) not in _WITHOUT]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_programs_that_use_positions(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [shape for shape in SHAPES if 0 not in shape or name not in ("rows", "elements", "largest")]
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    found = results([(functools.partial(PROGRAMS[name], jnp), (x,)) for x in arrays])
    for x, out in zip(arrays, found, strict=True):
        assert not isinstance(out, Exception), (x.shape, out)
        np.testing.assert_array_equal(out, PROGRAMS[name](np, x), err_msg=str(x.shape))


def test_positions_are_not_divided_out_of_others() -> None:
    x = np.zeros((100, 4129), np.float32)  # kernels write short lines of numbers for themselves
    for name in ("triangle", "reversed", "places"):
        text = veery.jit(functools.partial(PROGRAMS[name], jnp)).lower(x).as_text("flow")
        assert "linalg.index" in text and "divsi" not in text and "remsi" not in text
    text = veery.jit(lambda x: jnp.tanh(x) * 2).lower(x).as_text("flow")
    assert "tensor<412900xf32>" in text  # one loop, where nobody asks
