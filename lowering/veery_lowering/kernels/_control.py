"""Operations of kernels that decide what runs: loops in loops, branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import spelled
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._forms import Uniform, View
from veery_lowering.kernels._lifetimes import BRANCHES, RESHAPE, UPDATES, around, dies_in
from veery_lowering.mlir import ir, terminator


@writes("while")
def _while(body: Body, op: Any) -> None:
    body.loop(op, body.places(op))


@writes("optimization_barrier")
def _optimization_barrier(body: Body, op: Any) -> None:
    for result, x in zip(op.results, op.operands):
        form = body.memory(x)
        if isinstance(form, View) and form.buffer.name in body.in_place and not dies_in(x, op):
            form = body.copied(form, form.shape)  # or what is written into the one were in the other
        body.set(result, form)


@writes("if", "case")
def _branch(body: Body, op: Any) -> None:
    """Chosen by a boolean, true first, or by a number; the last branch where it is none of theirs."""
    types = [checked(x) for x in op.results]
    places = body.results_in(op.results, [_handed_on(body, op, i) for i in range(len(types))])
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
    before, ends = set(body.in_place), body.block(block, [])
    numbers = [body.number(x) for place, x in zip(places, ends) if place is None]
    body.write_back([(place, body.read(x)) for place, x in zip(places, ends) if place is not None])
    body.in_place = before
    return numbers


def _handed_on(body: Body, op: Any, i: int) -> View | None:
    """The memory of an array that branches hand on, written or not, in place i; None if nothing shows that one does."""
    found = (body.own(value, op) for value in _may_be(op, i))
    return next((view for view in found if view is not None), None)


def _may_be(op: Any, i: int) -> Iterator[Any]:
    """The values from outside that branches hand on in place i, written in part or by loops, or as they are."""
    for region in op.regions:
        block = region.blocks[0]
        waiting = [terminator(block).operands[i]]
        for value in waiting:
            if isinstance(value.owner, ir.Block) or around(value.owner.operation, block) is None:
                yield value
                continue
            made = value.owner.operation
            if made.name == "stablehlo.while":
                waiting.append(made.operands[list(made.results).index(value)])
            elif made.name in UPDATES or made.name == RESHAPE:
                waiting.append(made.operands[0])
            elif made.name in BRANCHES:
                waiting += _may_be(made, list(made.results).index(value))
