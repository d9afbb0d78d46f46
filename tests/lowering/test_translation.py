"""Operations of StableHLO modules from elsewhere, as its specification has them."""

from __future__ import annotations

from support.operations import CASES, wrong


def test_operations() -> None:
    assert not wrong(CASES)
