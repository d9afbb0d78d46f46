"""Programs of steps, compiled many at once and compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from combinations.steps import Program
from support.compiled import results

import veery
from veery import _reference


def faults(programs: Sequence[Program]) -> list[str]:
    """What is wrong with each of the programs that are not right."""
    found = []
    outs = results([(flat(p), p.operands) for p in programs])
    for p, out in zip(programs, outs, strict=True):
        if isinstance(out, Exception):
            found.append(f"{p.name}: {str(out)[:600]}")
            continue
        comparison = _reference.compare(veery.make_jaxpr(flat(p))(*p.operands), p.operands, out)
        found += [f"{p.name}: {failure}" for failure in comparison.failures]
    return found


def flat(p: Program):
    """The function, with a tuple of results."""
    return lambda *xs: tuple(veery.tree_util.tree_leaves(p.fun(*xs)))
