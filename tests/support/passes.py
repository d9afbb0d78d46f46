"""Programs as they would be without some of the passes."""

from __future__ import annotations

import pytest

from veery_lowering.passes import pipeline as passes


def leave_out(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Run no passes of these names for the rest of a test."""
    assert set(names) <= {p.name for p in passes.PASSES}
    monkeypatch.setattr(passes, "PASSES", tuple(p for p in passes.PASSES if p.name not in names))
