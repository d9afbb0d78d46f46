"""Part what is elementwise and long.

Problem: IREE 3.13 fuses what is elementwise two operations at a time, and copies what it has for each, so that n of
them take the time of n * n. Example: 60 sines in a row, of 85 operations each, took 21 s to become dispatches. Fix:
barriers where few values cross, so that no part is longer than what kernels of ours hold. Test:
tests/lowering/test_chains.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import ELEMENTWISE, MOST_IN_A_ROW, MOST_TOGETHER, is_added
from veery_lowering.mlir import base_name, ir, operations

# What an operation on numbers counts for: IREE's time grows with the fourth power of how many there are.
_NUMBER = 6


def part_chains(module: Any) -> None:
    """Put barriers into elementwise expressions of very many operations, in place."""
    for block in [block for op in operations(module) for region in op.regions for block in region.blocks]:
        chained = [op.operation for op in block.operations if base_name(op.name) in ELEMENTWISE]
        if len(chained) > MOST_TOGETHER // _NUMBER:
            for chain in _connected(chained):
                weights = [1 if op.results[0].type.rank else _NUMBER for op in chain]
                if sum(weights) > MOST_TOGETHER:
                    _part(chain, weights)


def _connected(chained: Sequence[Any]) -> list[list[Any]]:
    """Operations by whether they read each other's results, each in the order that they had."""
    places = {op.results[0]: place for place, op in enumerate(chained)}
    first = list(range(len(chained)))  # the way to the first one of those that are connected

    def found(place: int) -> int:
        while first[place] != place:
            first[place] = place = first[first[place]]
        return place

    for place, op in enumerate(chained):
        for x in op.operands:
            if x in places:
                a, b = found(place), found(places[x])
                first[max(a, b)] = min(a, b)
    groups: dict[int, list[Any]] = {}
    for place, op in enumerate(chained):
        groups.setdefault(found(place), []).append(op)
    return list(groups.values())


def _part(chain: Sequence[Any], weights: Sequence[int]) -> None:
    """Put barriers into a chain, between parts that are as long as may be."""
    places = {op: place for place, op in enumerate(chain)}
    read = [[places[x.owner] for x in op.operands if x.owner in places] for op in chain]
    last = list(range(len(chain)))  # where a value is read last
    for place, operands in enumerate(read):
        for x in operands:
            last[x] = place
    added = [is_added(op.results[0]) for op in chain]
    start = 0
    while (end := _end(read, weights, start)) < len(chain):
        # how many values of the part are read behind each place; products count more to which something is added
        crossing = [0] * (end - start + 1)
        for place in range(start, end):
            for cut in range(place + 1, min(last[place], end) + 1):
                crossing[cut - start] += MOST_TOGETHER if added[place] else 1
        half = (start + end + 1) // 2
        cut = min(range(end, half - 1, -1), key=lambda place: crossing[place - start])
        crosses = [chain[place].results[0] for place in range(start, cut) if last[place] >= cut]
        _bar(crosses, chain[cut], lambda op, cut=cut: places.get(op, -1) >= cut)  # type: ignore[misc]
        start = cut


def _end(read: Sequence[Sequence[int]], weights: Sequence[int], start: int) -> int:
    """Where a part ends at the latest that begins at a place."""
    depths: dict[int, int] = {}
    total = 0
    for place in range(start, len(read)):
        depths[place] = 1 + max((depths[x] for x in read[place] if x >= start), default=0)
        total += weights[place]
        if depths[place] > MOST_IN_A_ROW or total > MOST_TOGETHER:
            return place
    return len(read)


def _bar(values: Sequence[Any], before: Any, follows: Callable[[Any], bool]) -> None:
    """Put a barrier before an operation, from behind which those that follow read some values."""
    with ir.InsertionPoint(before), before.location:
        barred = hlo.optimization_barrier(list(values))
    for x, behind in zip(values, barred):
        for user, number in [(use.owner, use.operand_number) for use in x.uses]:
            if follows(user):
                user.operands[number] = behind
