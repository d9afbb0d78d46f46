"""The compiler's text of a program: its phases, the code of its dispatches, and nothing left of how it was made."""

from __future__ import annotations

import os
import tempfile
import time

import pytest

import veery
import veery.numpy as jnp


def lowered():
    return veery.jit(lambda x: jnp.sin(x) * 2).lower(jnp.ones(64))


def test_phases():
    assert "flow.dispatch" in lowered().as_text("flow") and "loc(" not in lowered().as_text("flow")
    assert "vm.func" in lowered().as_text("vm") and "test_inspection.py" in lowered().as_text("flow", debug_info=True)
    with pytest.raises(ValueError, match="there is no dialect or phase 'tlow'"):
        lowered().as_text("tlow")


def test_code_leaves_no_folder(tmp_path, monkeypatch):
    """The compiler's process makes sessions ahead, for flags that were good: not for those that name a folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ".text" in lowered().as_text("asm")
    lowered().as_text("flow")
    time.sleep(0.5)  # in which the process is idle
    assert os.listdir(tmp_path) == []
