"""Programs as they would be without some of the passes, or with others."""

from __future__ import annotations

import pytest

from veery_lowering.passes import pipeline as passes


def leave_out(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Run no passes of these names for the rest of a test."""
    assert set(names) <= {p.name for p in passes.PASSES}
    monkeypatch.setattr(passes, "PASSES", tuple(p for p in passes.PASSES if p.name not in names))


def run_everywhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Run a pass for all targets for the rest of a test."""
    assert name in {p.name for p in passes.PASSES}
    always = tuple(p._replace(when=lambda _: True) if p.name == name else p for p in passes.PASSES)
    monkeypatch.setattr(passes, "PASSES", always)
