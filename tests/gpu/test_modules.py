"""Operations of StableHLO modules from elsewhere, compiled for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operations import CASES, X, windows, wrong

NAMES = "powers", "padded windows of the least", "a stable sort", "lookups outside", "overlapping windows", "a loop"


def test_operations(on_gpu: Any) -> None:
    """Among them dilated windows, which are wrong from SPIR-V as they stand."""
    dilated = windows(
        X,
        "0xFF800000",
        "maximum",
        "window_dimensions = array<i64: 2, 2>, window_dilations = array<i64: 2, 1>",
        np.maximum.reduce([X[i : i + 2, j : j + 4] for i in (0, 2) for j in (0, 1)]),
    )
    assert not wrong({name: CASES[name] for name in NAMES} | {"dilated windows": dilated})
