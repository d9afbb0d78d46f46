"""Programs of steps: chosen by a seed, compiled many at once, and compared with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from combinations.steps import CONVERSIONS, DTYPES, ELEMENTWISE, ENDS, MIDDLES, PRODUCTS, Program, Step, program
from support.compiled import results

import veery
from veery import _reference

FIRST = (*MIDDLES, *ELEMENTWISE)
LAST = (*MIDDLES, *CONVERSIONS, *PRODUCTS, *ENDS)
_SHAPES = ((3, 5), (5, 3), (7, 17), (1, 3), (4, 4), (2, 1), (13, 7))


def faults(programs: Sequence[Program]) -> list[str]:
    """What is wrong with those of the programs that are."""
    found = []
    for p, out in zip(programs, results([(_flat(p.fun), p.operands) for p in programs]), strict=True):
        if isinstance(out, Exception):
            found.append(f"{p.name}: {out}")
        else:
            closed = veery.make_jaxpr(_flat(p.fun))(*p.operands)
            with np.errstate(all="ignore"):
                failures = _reference.compare(closed, p.operands, out).failures
            found += [f"{p.name}: {failure}" for failure in failures]
    return found


def _flat(fun: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: veery.tree_util.tree_leaves(fun(*xs))


def triples(rng: np.random.Generator) -> Iterator[tuple[Step, Step, Step]]:
    """Steps that may follow each other, again and again; not all have a dtype that all three take."""
    while True:
        first, second, third = (kinds[rng.integers(len(kinds))] for kinds in (FIRST, (*MIDDLES, *CONVERSIONS), LAST))
        yield first, second, third


def combined(steps: Sequence[Step], rng: np.random.Generator, dtypes: Sequence[str] = DTYPES) -> Program | None:
    """A program of some steps on a matrix of any shape and of a dtype that they take; None if there is none."""
    shape = _SHAPES[rng.integers(len(_SHAPES))]
    for dtype in rng.permutation(np.array(dtypes)):
        made = program(steps, shape, str(dtype), rng)
        if made is not None:
            return made
    return None
