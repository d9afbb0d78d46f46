"""Steps of programs that libraries evaluate, and those that solve systems, as one call with their factorisations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from veery._core.host import Mode
from veery._core.jaxpr import JaxprEqn
from veery.lax import _linalg_reference


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


def with_solutions(lines: Sequence[Line], outputs: Sequence[int]) -> list[Line]:
    """The lines, in which solutions by factors that nothing else needs are one call with these."""
    makers = {place: line for line in lines for place in line.made}
    uses = Counter((*outputs, *(place for line in lines for place in line.operands)))
    return needed([_with_factors(line, makers, uses) or line for line in lines], outputs)


def _with_factors(line: Line, makers: Mapping[int, Line], uses: Mapping[int, int]) -> Line | None:
    """A solution together with its factorisation."""
    if line.eqn.primitive.name != "lu_solve" or line.eqn.params["transposed"]:
        return None
    *factors, right = line.operands
    maker = makers.get(factors[0])
    if maker is None or maker.eqn.primitive.name != "lu" or any(uses[place] != 1 for place in factors):
        return None
    return replace(line, function=_linalg_reference.solution, operands=(maker.operands[0], right))
