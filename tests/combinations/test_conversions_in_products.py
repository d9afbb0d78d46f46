"""Every conversion into every place of a product, in one program.

VEERY_TEST_SHARE=3 tries a third of the places, another third each day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from combinations.checking import faults
from combinations.steps import CONVERSIONS, DTYPES, PRODUCTS, Step, program
from support.days import of_the_day

pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real")


@pytest.mark.parametrize("product", of_the_day(PRODUCTS), ids=lambda step: step.name)
def test_conversions(product: Step, x64: Any) -> None:
    rng = np.random.default_rng(0)
    programs = [program((conversion, product), (3, 5), d, rng) for d in DTYPES for conversion in CONVERSIONS]
    assert len(programs) == len(DTYPES) ** 2 and None not in programs
    assert not faults([p for p in programs if p is not None])
