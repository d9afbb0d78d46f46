"""What the tests of one day try of what is too much for each day."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def seed() -> int:
    """What chooses: VEERY_TEST_SEED, which is the date unless it is set (see conftest)."""
    return int(os.environ["VEERY_TEST_SEED"])


def of_the_day(cases: Sequence[T], most: int | None = None) -> Sequence[T]:
    """One of as many parts as VEERY_TEST_SHARE says, another one each day; all cases where it is not set.

    Args:
        cases: what there is to try.
        most: of how many parts, at most.
    """
    parts = int(os.environ.get("VEERY_TEST_SHARE", 1))
    parts = parts if most is None else min(parts, most)
    return cases[seed() % parts :: parts]
