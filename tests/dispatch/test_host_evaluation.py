"""Eager programs that NumPy evaluates: the same bits as compiled, and compiled where they must be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from primitives import table_elementwise, table_structural
from support.compiled import results

import veery
from veery._eager import HostProgram, host_program

DTYPES = ("bool", "int32", "uint8", "float32", "float64", "complex64")

Call = tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]


def program_of(fun: Callable[..., Any], operands: tuple[np.ndarray, ...]) -> HostProgram | None:
    return host_program(veery.make_jaxpr(fun)(*operands))


def equal_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether elements have the same bits, or are NaN both: which of two NaNs goes on is nobody's promise."""
    if a.dtype.kind == "c":
        return equal_bits(a.real, b.real) & equal_bits(a.imag, b.imag)
    bits = f"u{a.dtype.itemsize}"
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return same if a.dtype.kind in "biu" else same | (a != a) & (b != b)


def special(dtype: np.dtype) -> np.ndarray:
    """Zeros, limits, subnormal numbers, infinities and NaN, and some plain numbers."""
    if dtype.kind not in "fV":
        return np.array([0, 1], dtype)
    info = ml_dtypes.finfo(dtype)
    tiny, small, large = float(info.smallest_subnormal), float(info.smallest_normal), float(info.max)
    positive = [0.0, tiny, small / 2, small, 0.3, 0.5, 1.0, 1.5, 2.5, 3.0, 1e3, large / 2, large, np.inf, np.nan]
    return np.array([*positive, *(-x for x in positive)]).astype(dtype)


def elementwise_calls(name: str) -> list[Call]:
    dtype = table_elementwise.dtype_of(name)
    calls: list[Call] = []
    for row in table_elementwise.ROWS:
        if name not in (row.dtypes if row.compiled is None else row.compiled):
            continue
        for params in row.params:
            fun = functools.partial(row.primitive.bind, **params)
            calls.append((f"{row.name}{params or ''}", fun, table_elementwise.samples(row, dtype)))
            if dtype.kind == "f" and row.operands is None:
                pairs = np.meshgrid(*[special(dtype)] * len(row.domains))
                calls.append((f"special {row.name}{params or ''}", fun, tuple(x.ravel() for x in pairs)))
    return calls


def structural_calls(name: str) -> list[Call]:
    return [
        (f"{row.primitive}{i}", row.fun, row.cast(name))
        for i, row in enumerate(table_structural.ROWS)
        if name in row.dtypes
    ]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", DTYPES)
def test_the_bits_are_those_of_the_compiled_program(name: str) -> None:
    calls = [call for call in elementwise_calls(name) + structural_calls(name) if program_of(*call[1:])]
    assert len(calls) > 20
    wrong = []
    for (title, fun, operands), compiled in zip(calls, results([call[1:] for call in calls]), strict=True):
        if isinstance(compiled, Exception):
            raise compiled
        (out,) = program_of(fun, operands)(list(operands))
        out = np.asarray(out)
        if (out.dtype, out.shape) != (compiled.dtype, compiled.shape):
            wrong.append(f"{title}: {out.dtype}{out.shape}, compiled {compiled.dtype}{compiled.shape}")
            continue
        for i in np.argwhere(~equal_bits(out, compiled))[:3]:
            at = [x[tuple(i)] if x.shape == out.shape else ... for x in operands]
            wrong.append(f"{title} of {at}: {out[tuple(i)]}, compiled {compiled[tuple(i)]}")
    assert not wrong, "\n".join(wrong)
