"""What kernels with reductions are tested on, and how near what they compute has to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.compiled import Call, assert_as_numpy, results
from support.interpreted import interpreted

import veery

Fun = Callable[[Any, Any], Any]  # of arrays, and of a row, to results


def array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Whole numbers of a dtype."""
    return np.random.default_rng(7).integers(-3, 9, shape).astype(dtype)


def assert_near(calls: Sequence[Call], most: float) -> None:
    """Results differ from NumPy's by no more than a part of the largest number."""
    for (fun, operands), outs in zip(calls, results(calls), strict=True):
        assert not isinstance(outs, Exception), outs
        with np.errstate(all="ignore"):
            expected = [np.asarray(x) for x in veery.tree.leaves(interpreted(fun, *operands))]
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            assert actual.dtype == wanted.dtype
            finite = np.abs(wanted[np.isfinite(wanted)])
            np.testing.assert_allclose(actual, wanted, rtol=most, atol=most * max(1, finite.max()))


def assert_near_of_floats(fun: Fun, shapes: Sequence[tuple[int, ...]], most: float) -> None:
    """The same, of normal numbers of float32 of each shape."""
    normal = lambda shape: np.random.default_rng(3).normal(size=shape).astype(np.float32)
    assert_near([(fun, (normal(shape), array(shape[-1:], np.float32))) for shape in shapes], most)


def assert_exact(funs: Sequence[Fun], shapes: Sequence[tuple[int, ...]], dtype: Any) -> None:
    """Results of whole numbers are NumPy's."""
    with veery.enable_x64(True):
        assert_as_numpy([(fun, (array(s, dtype), array(s[-1:], dtype))) for fun in funs for s in shapes])
