"""Operations of kernels that decide what runs: loops in loops, branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import spelled
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._forms import Uniform, View


@writes("while")
def _while(body: Body, op: Any) -> None:
    body.loop(op, body.places(op))


@writes("optimization_barrier")
def _optimization_barrier(body: Body, op: Any) -> None:
    for result, x in zip(op.results, op.operands):
        body.set(result, body.memory(x))


@writes("if", "case")
def _branch(body: Body, op: Any) -> None:
    """Chosen by a boolean, true first, or by a number; the last branch where it is none of theirs."""
    types = [checked(x) for x in op.results]
    places = [body.temporary(*each) if math.prod(each[0]) > 1 else None for each in types]
    numbers = [dtype for place, (_, dtype) in zip(places, types) if place is None]
    names = iter(_cases(body, op, 0, places, ", ".join(map(spelled, numbers))))
    for result, place, (_, dtype) in zip(op.results, places, types):
        body.set(result, Uniform(next(names), dtype) if place is None else place)


def _cases(body: Body, op: Any, number: int, places: Sequence[View | None], types: str) -> list[str]:
    """Write the branches from a number on; returns their results that are numbers."""
    out, numbers = body.out, sum(place is None for place in places)
    if number == len(op.regions) - 1:
        return _outcome(body, op.regions[number].blocks[0], places)
    chosen, dtype = body.number(op.operands[0]), hlo.dtype_of(op.operands[0])
    if dtype.kind != "b":
        chosen = out.add(f"arith.cmpi eq, {chosen}, {out.constant(number, dtype, '')} : {spelled(dtype)}")
    result = out.new()
    results, typed = (f"{result}:{numbers} = ", f"-> ({types}) ") if numbers else ("", "")
    out.lines.append(f"{results}scf.if {chosen} {typed}{{")
    with body.nests.apart():
        ends = _outcome(body, op.regions[number].blocks[0], places)
    yielded: Callable[[Any], str] = lambda ends: f"scf.yield {', '.join(ends)}{f' : {types}' if ends else ''}"
    out.lines += [yielded(ends), "} else {"]
    with body.nests.apart():
        ends = _cases(body, op, number + 1, places, types)
    out.lines += [yielded(ends), "}"]
    return [f"{result}#{i}" for i in range(numbers)]


def _outcome(body: Body, block: Any, places: Sequence[View | None]) -> list[str]:
    numbers = []
    for place, x in zip(places, body.block(block, [])):
        if place is None:
            numbers.append(body.number(x))
        else:
            body.nests.fill(place, body.read(x))
    return numbers
