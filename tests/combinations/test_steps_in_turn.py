"""All pairs of steps, and some triples, many in one program.

Their shapes and dtypes, and which triples there are, follow from the seed in pytest's header (VEERY_TEST_SEED).
VEERY_TEST_PAIRS=320 tries so many pairs, others each day. `make fuzz TARGET=triples` goes on with triples.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from combinations.checking import FIRST, LAST, combined, faults, triples
from support.days import seed

_AT_ONCE = 80
_PAIRS = int(os.environ.get("VEERY_TEST_PAIRS", len(FIRST) * len(LAST)))

pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real")


@pytest.mark.parametrize("part", range(-(-_PAIRS // _AT_ONCE)))
def test_pairs(part: int, x64: Any) -> None:
    """Each first step comes as often as others; with what, goes round from day to day."""
    rng = np.random.default_rng((seed(), part))
    rounds = ((i + seed() + turn) % len(LAST) for turn in range(len(LAST)) for i in range(len(FIRST)))
    steps = zip(itertools.cycle(FIRST), (LAST[j] for j in rounds))
    programs = [combined(pair, rng) for pair in itertools.islice(steps, part * _AT_ONCE, (part + 1) * _AT_ONCE)]
    assert sum(p is not None for p in programs) > len(programs) // 2
    assert not faults([p for p in programs if p is not None])


def test_triples(x64: Any) -> None:
    rng = np.random.default_rng((seed(), 0, 3))
    chosen = filter(None, (combined(steps, rng) for steps in triples(rng)))
    assert not faults(list(itertools.islice(chosen, _AT_ONCE)))
