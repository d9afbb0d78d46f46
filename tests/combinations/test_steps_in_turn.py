"""Pairs and triples of steps in one program: a different part of them each day, chosen by the seed in pytest's header.

VEERY_TEST_PAIRS and VEERY_TEST_TRIPLES say how many; VEERY_TEST_SEED chooses them again.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from combinations.checking import combined, faults, seed
from combinations.steps import CONVERSIONS, ELEMENTWISE, ENDS, MIDDLES, PRODUCTS

_FIRST = (*MIDDLES, *ELEMENTWISE)
_LAST = (*MIDDLES, *CONVERSIONS, *PRODUCTS, *ENDS)
_AT_ONCE = 80
_PAIRS = int(os.environ.get("VEERY_TEST_PAIRS", 320))
_TRIPLES = int(os.environ.get("VEERY_TEST_TRIPLES", 80))

pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real")


@pytest.mark.parametrize("part", range(-(-_PAIRS // _AT_ONCE)))
def test_pairs(part: int, x64: Any) -> None:
    """Each first step comes as often as others; with what, goes round from day to day."""
    rng = np.random.default_rng((seed(), part))
    rounds = ((i + seed() + turn) % len(_LAST) for turn in itertools.count() for i in range(len(_FIRST)))
    steps = zip(itertools.cycle(_FIRST), (_LAST[j] for j in rounds))
    programs = [combined(pair, rng) for pair in itertools.islice(steps, part * _AT_ONCE, (part + 1) * _AT_ONCE)]
    assert sum(p is not None for p in programs) > _AT_ONCE // 2
    assert not faults([p for p in programs if p is not None])


@pytest.mark.parametrize("part", range(-(-_TRIPLES // _AT_ONCE)))
def test_triples(part: int, x64: Any) -> None:
    rng = np.random.default_rng((seed(), part, 3))
    chosen: list[Any] = []
    while len(chosen) < _AT_ONCE:
        first, second, third = (kinds[rng.integers(len(kinds))] for kinds in (_FIRST, (*MIDDLES, *CONVERSIONS), _LAST))
        made = combined((first, second, third), rng)
        chosen += [made] if made is not None else []
    assert not faults(chosen)
