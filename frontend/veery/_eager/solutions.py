"""Steps that solve systems whose matrices were factored, as one call of LAPACK's.

`solve` permutes the right sides and solves with one factor and then the other: for 50 equations that takes 9 us, and
one call of LAPACK 4. So does its transpose, in the other order.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veery._core.host import Mode
from veery._core.jaxpr import JaxprEqn
from veery.lax import _linalg_reference, _on_host


@dataclass
class Line:
    """A step of a program: a function of values at some places, and the places of its results.

    Attributes:
        mode: as of veery._core.host.Step.
        eqn: the equation that it evaluates.
        called: whether it calls a library.
        time: an estimate in nanoseconds.
    """

    function: Callable[..., Any]
    operands: tuple[int, ...]
    results: int | slice
    mode: Mode
    eqn: JaxprEqn
    called: bool
    time: int

    @property
    def made(self) -> range:
        """The places of the results."""
        results = self.results
        return range(results.start, results.stop) if isinstance(results, slice) else range(results, results + 1)


def needed(lines: Sequence[Line], outputs: Sequence[int]) -> list[Line]:
    """The lines without which the values at some places cannot be computed."""
    places, kept = set(outputs), []
    for line in reversed(lines):
        if not places.isdisjoint(line.made):
            places.update(line.operands)
            kept.append(line)
    return kept[::-1]


_PARAMS = {"left_side": True, "conjugate_a": False}
_LOWER = {**_PARAMS, "lower": True, "unit_diagonal": True}
_UPPER = {**_PARAMS, "lower": False, "unit_diagonal": False}
_FORWARD = [{**_LOWER, "transpose_a": False}, {**_UPPER, "transpose_a": False}]
_BACKWARD = [{**_UPPER, "transpose_a": True}, {**_LOWER, "transpose_a": True}]


_solution = functools.partial(_linalg_reference.lu_solution, transposed=False)
_transposed_solution = functools.partial(_linalg_reference.lu_solution, transposed=True)


def with_solutions(lines: Sequence[Line], outputs: Sequence[int], values: Sequence[np.ndarray | None]) -> list[Line]:
    """The lines with solutions by LAPACK in the place of their parts, given the values that are known."""
    program = _Program(lines, outputs, values)
    lines = needed([program.solution(line) or line for line in lines], outputs)
    program = _Program(lines, outputs, values)
    return needed([program.without_factors(line) or line for line in lines], outputs)


class _Program:
    """Who makes the values of a program, and who uses them."""

    def __init__(self, lines: Sequence[Line], outputs: Sequence[int], values: Sequence[np.ndarray | None]):
        self.values = values
        self.makers = {place: line for line in lines for place in line.made}
        self.uses: defaultdict[int, int] = defaultdict(int)
        for place in (*outputs, *(i for line in lines for i in line.operands)):
            self.uses[place] += 1

    def solution(self, last: Line) -> Line | None:
        """The solution whose last part a line is."""
        second = self._solves(last, _FORWARD[1])
        if second is not None:
            first = self._before(last.operands[1], lambda line: self._solves(line, _FORWARD[0]))
            rows = first and self._before(first.operands[1], _takes_rows)
            factors = first and self._factors(last, first)
            if rows and factors and self._origin(rows.operands[1]) == factors.made[2]:
                return self._solved(last, factors, rows.operands[0], transposed=False)
        elif _takes_rows(last):
            first = self._before(last.operands[0], lambda line: self._solves(line, _BACKWARD[1]))
            second = first and self._before(first.operands[1], lambda line: self._solves(line, _BACKWARD[0]))
            factors = first and second and self._factors(first, second)
            if second and factors and self._inverts(last.operands[1], factors.made[2]):
                return self._solved(last, factors, second.operands[1], transposed=True)
        return None

    def _solved(self, last: Line, factors: Line, right: int, transposed: bool) -> Line:
        function = _transposed_solution if transposed else _solution
        return replace(last, function=function, operands=(*factors.made, right), mode=Mode.CALLED, called=True)

    def without_factors(self, line: Line) -> Line | None:
        """A solution together with its factorisation, where nothing else needs that."""
        if line.function is not _solution:
            return None
        *factors, right = line.operands
        maker = self.makers[factors[0]]
        if any(self.uses[place] != 1 for place in factors):
            return None
        return replace(line, function=_linalg_reference.solution, operands=(maker.operands[0], right))

    def _before(self, place: int, find: Callable[[Line], Line | None]) -> Line | None:
        """The line of some kind that makes a value for one use."""
        line = self.makers.get(place)
        return find(line) if line is not None and self.uses[place] == 1 else None

    def _solves(self, line: Line, params: dict[str, bool]) -> Line | None:
        return line if line.eqn.primitive.name == "triangular_solve" and line.eqn.params == params else None

    def _factors(self, one: Line, other: Line) -> Line | None:
        """What makes the factors with which two lines solve."""
        place = one.operands[0]
        line = self.makers.get(place)
        if line is None or line.eqn.primitive.name != "lu" or place != line.made[0] or other.operands[0] != place:
            return None
        return line

    def _origin(self, place: int) -> int:
        """The value that has only got dimensions of size 1."""
        line = self.makers.get(place)
        while line is not None and line.eqn.primitive.name in ("broadcast_in_dim", "reshape"):
            if line.eqn.invars[0].aval.size != line.eqn.outvars[0].aval.size:
                break
            place = line.operands[0]
            line = self.makers.get(place)
        return place

    def _inverts(self, place: int, permutation: int) -> bool:
        """Whether a value is the inverse of a permutation: the order of its elements along the last axis."""
        place = self._origin(place)
        line = self.makers.get(place)
        if line is None or line.eqn.primitive.name != "sort" or line.operands[0] != permutation:
            return False
        eqn = line.eqn
        if eqn.params["dimension"] != eqn.invars[0].aval.ndim - 1 or eqn.params["num_keys"] != 1:
            return False
        return len(eqn.invars) == 2 and place == line.made[1] and self._counts(line.operands[1])

    def _counts(self, place: int) -> bool:
        """Whether a value is known: 0, 1, 2, ... along the last axis."""
        value = self.values[place]
        return value is not None and bool((value == np.arange(value.shape[-1])).all())


def _takes_rows(line: Line) -> Line | None:
    return line if getattr(line.function, "func", None) is _on_host.rows else None
