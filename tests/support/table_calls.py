"""The operations of the tables of primitives with their operands, as calls to be compiled or evaluated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from primitives import table_elementwise, table_structural

Call = tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]  # what it is called, a function, its operands


def special(dtype: np.dtype) -> np.ndarray:
    """Zeros, limits, subnormal numbers, infinities and NaN, and some plain numbers; of complex ones finite parts."""
    if dtype.kind == "c":
        parts = special(np.zeros(0, dtype).real.dtype)
        parts = parts[np.isfinite(parts)]
        return np.array([complex(x, y) for x in parts for y in parts], dtype)
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
            if dtype.kind in "fc" and row.operands is None:
                pairs = np.meshgrid(*[special(dtype)] * len(row.domains))
                calls.append((f"special {row.name}{params or ''}", fun, tuple(x.ravel() for x in pairs)))
    return calls


def structural_calls(name: str) -> list[Call]:
    """All rows in float32, in other dtypes one of each primitive."""
    rows = [row for row in table_structural.ROWS if name in row.dtypes]
    chosen = rows if name == "float32" else {row.primitive: row for row in rows}.values()
    return [(f"{row.primitive}{i}", row.fun, row.cast(name)) for i, row in enumerate(chosen)]
