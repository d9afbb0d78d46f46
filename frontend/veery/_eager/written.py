"""Programs that NumPy evaluates, to other bits than compiled ones, as functions of Python that are written for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery._core.host import Mode, Step, calls_library, dtype_of, step_of
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn
from veery._eager import HostProgram, NotExact, largest
from veery._eager.operations import operation
from veery._eager.solutions import Line, needed, with_solutions
from veery._eager.subnormals import modes
from veery.lax import _on_host
from veery.lax._reference import silently

_FOLDED = 1 << 18  # elements of arrays that are computed once, of constants
_TERMS = 16  # of a product of matrices in a nanosecond

Calls = Mapping[str, Callable[[JaxprEqn], Callable[..., Any] | None]]


class WrittenProgram(HostProgram):
    """A jaxpr as a function that calls NumPy and libraries.

    Args:
        closed: the jaxpr.
        calls: what the compiled program would call for an equation of a primitive, if not its reference.

    Attributes:
        lines: what is done.
        called: the names of the primitives that are calls of libraries.
        constants: the arrays that results must not share memory with.

    Raises:
        NotExact: it is not worth it, or there is an operation that is not on the list.
    """

    def __init__(self, closed: ClosedJaxpr, calls: Calls):
        self._library = calls
        self._told: list[tuple[JaxprEqn, bool, int]] = []  # of each step, as in Line
        self._others = 0  # steps that call no library
        self.lines: Sequence[Line] = ()
        self.called: set[str] = set()
        self.constants: list[np.ndarray] = []
        self._real: dict[int, int] = {}  # complex numbers that were made of real ones, and these
        super().__init__(closed)

    def __call__(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        results: list[np.ndarray] = silently(self._written, *arguments)
        return results

    def _write(self, lines: Sequence[Line], arguments: int) -> Callable[..., list[np.ndarray]]:
        """The steps as a function: in a loop each takes 0.3 us more, and to flush subnormal numbers 0.7."""
        names: dict[str, Any] = {f"v{i}": x for i, x in enumerate(self.values) if x is not None}
        used = {*self.outputs, *(i for line in lines for i in line.operands)}
        listed = lambda places: "".join(f"v{i}, " if i in used else "_, " for i in places)
        body, flushes = [], False
        for i, line in enumerate(lines):
            if line.mode is not Mode.NEUTRAL and flushes is not (line.mode is Mode.FLUSHED):
                flushes = not flushes
                body.append("set(during)" if flushes else "set(before)")
            names[f"f{i}"] = line.function
            made = listed(line.made) if isinstance(line.results, slice) else f"v{line.results}"
            body.append(f"{made} = f{i}({listed(line.operands)})")
        body.append(f"return [{listed(self.outputs)}]")
        if any(line.mode is Mode.FLUSHED for line in lines):
            names["modes"] = modes()
            if names["modes"] is None:
                raise NotExact
            begin = [
                "get, set, before, during = modes.get, modes.set, modes.before, modes.during",
                "get(before)",
                "try:",
            ]
            body = [*begin, *("    " + line for line in body), "finally:", "    set(before)"]
        head = f"def evaluate({', '.join(f'v{i}' for i in range(arguments))}):"
        exec("\n    ".join([head, *body]), names)
        written: Callable[..., list[np.ndarray]] = names["evaluate"]
        return written

    def _flush(self) -> None:
        """What is written sees to it."""

    def _step(self, eqn: JaxprEqn, known: Sequence[np.ndarray | None]) -> Step | None:
        if any([dtype_of(v.aval) is None for v in (*eqn.invars, *eqn.outvars)]):
            return None
        name = eqn.primitive.name
        step = step_of(eqn, known) or step_of(eqn, [None] * len(known))  # x * 1 may flush x
        if step is None and name == "dot_general":
            product = _on_host.product(eqn)
            return product and Step(product, Mode.FLUSHED, 1 + terms_of(eqn) // _TERMS)
        if step is None:
            return operation(eqn)
        if step.mode is Mode.CALLED and name in self._library:
            function = self._library[name](eqn)
            return step if function is None else step._replace(function=function)
        return step

    def _add(self, eqn: JaxprEqn, operands: list[int]) -> list[int]:
        if eqn.primitive.name == "fft" and eqn.params["fft_type"].name in ("FFT", "IFFT"):
            # which take real numbers as they are, in half the time
            operands = [self._real.get(i, i) for i in operands]
        results = super()._add(eqn, operands)
        if eqn.primitive.name == "convert_element_type" and _makes_complex(eqn):
            self._real[results[0]] = operands[0]
        return results

    def _folds(self, eqn: JaxprEqn, step: Step) -> bool:
        return largest(eqn) <= _FOLDED and (step.mode is not Mode.CALLED or not calls_library(eqn.primitive.host))

    def _count(self, eqn: JaxprEqn, step: Step) -> None:
        called, time = self._time(eqn, step)
        if called:
            self.called.add(eqn.primitive.name)
        else:
            self._others += 1
        self._told.append((eqn, called, time))

    def _time(self, eqn: JaxprEqn, step: Step) -> tuple[bool, int]:
        """Whether a step calls a library, and an estimate of the nanoseconds that it takes."""
        return calls_library(eqn.primitive.host), step.weight * largest(eqn)

    def _finish(self, arguments: int) -> None:
        """Leave out what is not needed, and refuse what is not worth it."""
        lines = [Line(*step, mode, *told) for step, mode, told in zip(self.steps, self._modes, self._told, strict=True)]
        self.lines = with_solutions(needed(lines, self.outputs), self.outputs)
        self._check(self.lines)
        used = {*self.outputs, *(i for line in self.lines for i in line.operands)}
        self.constants = [x for i, x in enumerate(self.values) if x is not None and i in used]
        self._written = self._write(self.lines, arguments)

    def _check(self, lines: Sequence[Line]) -> None:
        """Raise NotExact where the program is to be compiled, of the lines that are left."""

    def _check_contraction(self, eqn: JaxprEqn, operands: list[int]) -> None:
        """Nothing: bits may differ."""


def terms_of(eqn: JaxprEqn) -> int:
    """The products whose sum an element of a product of matrices is."""
    (contracting, _), _ = eqn.params["dimension_numbers"]
    return math.prod([eqn.invars[0].aval.shape[i] for i in contracting])


def _makes_complex(eqn: JaxprEqn) -> bool:
    old, new = (dtype_of(v.aval) for v in (eqn.invars[0], eqn.outvars[0]))
    if old is None or new is None or old.kind != "f" or old.itemsize < 4:  # of narrower ones there is no transform
        return False
    return bool(new == np.result_type(old, np.complex64))
