"""Compiled results of many small functions from a few compilations, and how near they come to a reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from support.interpreted import interpreted

import veery

_AT_ONCE = 20  # functions in a program: 80 pairs of steps and 650 rows take 53 s as six programs, as those of 20 38
Call = tuple[Callable[..., Any], tuple[np.ndarray, ...]]


def results(calls: Sequence[Call]) -> list[Any]:
    """The result (an array, or a tree of them) of each function on its operands, many compiled as one program.

    Where that does not compile, the halves of the list are compiled, so that one bad function is told from the rest:
    its result is the exception.
    """
    if not calls:
        return []
    if len(calls) > _AT_ONCE:
        return [out for i in range(0, len(calls), _AT_ONCE) for out in results(calls[i : i + _AT_ONCE])]
    sizes = [len(operands) for _, operands in calls]
    starts = np.cumsum([0, *sizes])

    def all_of_them(*xs: Any) -> list[Any]:
        return [fun(*xs[start : start + size]) for (fun, _), start, size in zip(calls, starts, sizes)]

    try:
        outs = veery.jit(all_of_them)(*(x for _, operands in calls for x in operands))
    except Exception as error:
        if len(calls) == 1:
            return [error]
        half = len(calls) // 2
        return results(calls[:half]) + results(calls[half:])
    return [veery.tree_util.tree_map(np.asarray, out) for out in outs]


def assert_as_numpy(calls: Sequence[Call]) -> None:
    """Compiled functions give the same numbers as their jaxprs evaluated in NumPy."""
    for (fun, operands), outs in zip(calls, results(calls), strict=True):
        assert not isinstance(outs, Exception), outs
        expected = veery.tree.leaves(interpreted(fun, *operands))
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            assert_close(actual, np.asarray(wanted), 0)


def assert_close(actual: np.ndarray, expected: np.ndarray, ulps: float, operands: Sequence[np.ndarray] = ()) -> None:
    """Equal integers; floats within `ulps` units in the last place, NaN and infinities in the same places.

    Complex numbers are measured by their modulus. Devices may flush subnormal numbers to zero, so that next to them no
    digit need be right.
    """
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu":
        wrong = actual != expected
    else:
        part = expected.real.dtype if expected.dtype.kind == "c" else expected.dtype
        info = ml_dtypes.finfo(part)
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        a, b = actual.astype(wide), expected.astype(wide)
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= ulps * float(info.eps) * np.abs(b) + 16 * float(info.smallest_normal)
            wrong = ~(near & np.isfinite(a) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if wrong.any():
        first = [np.argwhere(wrong)[i] for i in range(min(5, wrong.sum()))]
        lines = [f"  {_at(operands, i)} gave {actual[tuple(i)]}, expected {expected[tuple(i)]}" for i in first]
        raise AssertionError(f"{wrong.sum()} of {wrong.size} elements are wrong:\n" + "\n".join(lines))


def _at(operands: Sequence[np.ndarray], index: np.ndarray) -> str:
    return ", ".join(str(x[tuple(index)]) if x.ndim == len(index) else "..." for x in operands)
