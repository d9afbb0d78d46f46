"""Products in as many parts as large ones have, for tests of small ones."""

from __future__ import annotations

import pytest

from veery_lowering.kernels import _panels


def take_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide small products into as many panels, blocks and workgroups as large ones."""
    for name, value in {"_PANEL": 1 << 10, "_GROUP": 1 << 12, "_BLOCK": 16, "_COPIED": 20, "_LEAST_SHARE": 500}.items():
        monkeypatch.setattr(_panels, name, value)
