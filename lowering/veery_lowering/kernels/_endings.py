"""Loops that go on while any element does, whose elements could as well end each on its own.

So are loops over batches, as `vmap` makes them, and series that are summed until all have converged. An element for
which the condition is false keeps its values, so it makes no difference to it how often the loop goes round after that.
"""

from __future__ import annotations

import math
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._reading import static_shape
from veery_lowering.mlir import maker, terminator

_WHOLE = ("stablehlo.reshape", "stablehlo.broadcast_in_dim")


def own_ending(loop: Any) -> Any | None:
    """The operation that asks whether any element goes on, if each may end when it does not; else None."""
    condition, body = (region.blocks[0] for region in loop.regions)
    (goes_on,) = terminator(condition).operands
    asks = [x.owner for x in map(_converted, _terms(goes_on)) if maker(x) == "stablehlo.reduce"]
    if len(asks) != 1 or not _is_any(asks[0]):
        return None
    keeping = _Keeping(condition, body, flag_of(asks[0]))
    needed = {i for i, x in enumerate(loop.results) if any(True for _ in x.uses)} | keeping.read()
    return asks[0] if all(map(keeping.keeps, needed)) else None


def flag_of(ask: Any) -> Any:
    """What is true of the elements that such an operation finds."""
    return _converted(ask.operands[0])


def _converted(value: Any) -> Any:
    """The value that another is a conversion of, between truth values and integers."""
    if maker(value) != "stablehlo.convert":
        return value
    (operand,) = value.owner.operands
    return operand if all(hlo.dtype_of(x).kind in "bui" for x in (value, operand)) else value


def _terms(value: Any) -> list[Any]:
    """What a condition is the conjunction of."""
    return [x for y in value.owner.operands for x in _terms(y)] if maker(value) == "stablehlo.and" else [value]


def _is_any(op: Any) -> bool:
    """Whether an operation asks whether an element of an array is true, and the array is all that it reads."""
    if len(op.operands) != 2 or hlo.shape_of(op.results[0]) or hlo.dtype_of(flag_of(op)).kind != "b":
        return False
    start = hlo.splat_of(op.operands[1])
    if start is None or start:
        return False
    operations = list(op.regions[0].blocks[0].operations)
    return [each.name for each in operations] == ["stablehlo.or", "stablehlo.return"]


class _Keeping:
    """Which values a loop leaves as they are for elements for which a flag, in its condition, is false."""

    def __init__(self, condition: Any, body: Any, flag: Any) -> None:
        self.before, self.inside = list(condition.arguments), list(body.arguments)
        self.flag, self.ends = _whole(flag), list(terminator(body).operands)

    def read(self) -> set[int]:
        """The numbers of the carried values of which the flag is computed."""
        found, rest, seen = set(), [self.flag], set()
        while rest:
            value = rest.pop()
            if value in self.before:
                found.add(self.before.index(value))
            elif value not in seen and maker(value) and value.owner.operation.block == self.before[0].owner:
                seen.add(value)
                rest += value.owner.operands
        return found

    def keeps(self, number: int) -> bool:
        """Whether a carried value stays the same."""
        end, old = self.ends[number], self.inside[number]
        if end == old:
            return True
        if maker(end) == "stablehlo.select":
            flag, _, otherwise = end.owner.operands
            return bool(otherwise == old and self._is_flag(flag, self.flag))
        return bool(self.flag == self.before[number] and maker(end) == "stablehlo.and" and old in end.owner.operands)

    def _is_flag(self, inside: Any, before: Any) -> bool:
        """Whether a value in the body is computed as one in the condition is."""
        inside, before = _whole(inside), _whole(before)
        if inside in self.inside or before in self.before:
            both = inside in self.inside and before in self.before
            return both and self.inside.index(inside) == self.before.index(before)
        if inside == before:
            return True
        if not maker(inside) or maker(inside) != maker(before):
            return False
        one, other = inside.owner, before.owner
        if one.regions or str(one.attributes) != str(other.attributes) or inside.type != before.type:
            return False
        return all(self._is_flag(x, y) for x, y in zip(one.operands, other.operands, strict=True))


def _whole(value: Any) -> Any:
    """The value of which another is all elements in the same order."""
    while maker(value) in _WHOLE and math.prod(static_shape(value)) == math.prod(static_shape(value.owner.operands[0])):
        value = value.owner.operands[0]
    return value
