"""Expressions of very many arrays stay loadable."""

from __future__ import annotations

import numpy as np
import pytest
from support.jaxpr_graphs import Graph

import veery_lowering


def many_arrays(count: int, keep: bool) -> Graph:
    g = Graph()
    total = g.input(np.ones(3, np.float32))
    for i in range(1, count):
        total = g.op("add", total, g.input(np.full(3, i, np.float32)))
        if keep or i == count - 1:
            g.check(f"sum {i}", total, np.full(3, 1 + i * (i + 1) / 2, np.float32))
    return g


@pytest.mark.parametrize("keep", [False, True], ids=["sum", "running sums"])
def test_many_buffers(keep: bool) -> None:
    """A dispatch binds 32 buffers at most; reading and writing both count."""
    many_arrays(80, keep).run()


def test_barriers_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the program compiles and cannot be loaded: when this fails, the pass can go."""
    monkeypatch.setattr("veery_lowering.module.split_wide_fusions", lambda module: None)
    with pytest.raises(Exception, match="binding count"):
        many_arrays(80, False).run(options=veery_lowering.Options(cache=False))


def test_few_arrays_need_none() -> None:
    assert "optimization_barrier" not in many_arrays(6, True).text()
