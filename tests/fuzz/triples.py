"""Three steps of tests/combinations, one after the other: many such functions in one program."""

from __future__ import annotations

import time

import numpy as np
from combinations.checking import combined, faults, triples
from combinations.steps import DTYPES

import veery as jax
from fuzz.checks import Fallbacks, Outcome, note
from fuzz.targets import Target

_AT_ONCE = 15
_NARROW = ("bool", "int8", "uint8", "int32", "uint32", "float16", "float32")  # what Vulkan devices compute with


def check_triples(seed: int, number: int, target: Target) -> Outcome:
    """Make a program of some triples, run it on a target, and compare what each gives with the reference."""
    start = time.perf_counter()
    rng = np.random.default_rng((seed, number))
    outcome = Outcome(seed, number, "ok", f"{_AT_ONCE} triples")
    with Fallbacks() as said, target.device(), jax.enable_x64(True):
        made = (combined(steps, rng, DTYPES if target.wide else _NARROW) for steps in triples(rng))
        programs = [program for _, program in zip(range(_AT_ONCE), filter(None, made))]
        found = faults(programs)
    if found:
        outcome.kind, outcome.detail = "wrong", "\n".join(found)
    note(said, outcome)
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome
