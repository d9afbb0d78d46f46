"""Meshes, shardings and `shard_map` beside JAX 0.10.2, as recorded in recorded.json."""

from __future__ import annotations

from pathlib import Path

import pytest
from sharding.cases import CASES, PROGRAMS
from support.days import of_the_day
from support.recorded import check, read

import veery

RECORDED = read(Path(__file__).with_name("recorded.json"))
pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name])


@pytest.mark.parametrize("name", of_the_day(list(PROGRAMS), 2))
def test_programs_give_what_they_give_in_jax(name):
    check(veery, PROGRAMS[name], RECORDED[name], rtol=1e-5, atol=1e-5)
