"""The first equation of a wrong program that differs, and the smallest part of the program that shows it.

A fault may be there only where operations are compiled together. So the program is first compiled with every
intermediate value as a result. If it is wrong there too, the first wrong value names its equation. If not, prefixes of
the program, each with the results that the rest of it needs, are bisected for the shortest that is wrong. Its beginning
is cut off likewise, with the reference's values for what it computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from veery._reference.comparison import Failure, compare
from veery._reference.control_flow import CALLEES
from veery._reference.formats import rounded
from veery._reference.interpreter import Interpreter
from veery._reference.samples import Value
from veery._transforms.dce import dce_jaxpr
from veery._transforms.staging import close_over

Run = Callable[[ClosedJaxpr, Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Culprit:
    """A part of a program that is wrong.

    Attributes:
        equation: the last of the part, whose result is wrong; None if only the whole program is wrong.
        failure: what is wrong with it.
        program: the part, as a program.
        args: its arguments.
        how: a sentence on where the fault is seen.
    """

    equation: JaxprEqn | None
    failure: Failure
    program: ClosedJaxpr
    args: list[Any]
    how: str


def find(closed: ClosedJaxpr, args: Sequence[Any], failure: Failure, run: Run, seed: int) -> Culprit:
    """Look for the equation at fault.

    Args:
        closed: the program.
        args: its arguments.
        failure: what is wrong with its outputs.
        run: compiles and runs a program.
        seed: of the reference's random errors.
    """
    flat = inlined(closed)
    flat, consts = close_over(flat.map_jaxpr(lambda jaxpr: dce_jaxpr(jaxpr, keep_effects=False)))
    found = _Search(flat, [*consts, *args], run, seed).culprit()
    return found or Culprit(None, failure, closed, list(args), "It shows in the whole program alone.")


class _Search:
    def __init__(self, closed: ClosedJaxpr, args: Sequence[Any], run: Run, seed: int):
        self.jaxpr, self.args, self.run, self.seed = closed.jaxpr, args, run, seed
        self.eqns = self.jaxpr.eqns
        self.values: dict[Var, Any] = dict(zip(self.jaxpr.invars, args))

    def culprit(self) -> Culprit | None:
        separately = self._with_all_values()
        if separately is not None:
            index, failure = separately
            eqn = self.eqns[index]
            alone = self._window(index, index + 1)
            found = self._check(alone)
            if found is not None:
                return Culprit(eqn, found, *alone, "It shows in a program of this equation alone.")
            return Culprit(eqn, failure, *self._window(0, index + 1), "It shows when it is compiled with those before.")
        end = self._bisect(0, len(self.eqns), lambda k: self._fails(0, k))
        if end is None:
            return None
        start = self._bisect(1, end, lambda k: self._fails(end - k, end))
        size = start if start is not None else end
        program, args = self._window(end - size, end)
        shown = self._fails(end - size, end)
        if shown is None:
            return None
        first, last = self.eqns[end - size], self.eqns[end - 1]
        how = f"It shows only when {size} equations are compiled together, the first of them {place(first)}."
        return Culprit(last, shown, program, args, how)

    def _with_all_values(self) -> tuple[int, Failure] | None:
        """The first equation that is wrong in the program that returns all intermediate values."""
        results = [v for eqn in self.eqns for v in eqn.outvars if not isinstance(v, DropVar)]
        program = ClosedJaxpr(self.jaxpr.replace(outvars=list(results)), [])
        outs = self.run(program, self.args)
        found = {f.output: f for f in compare(program, self.args, outs, self.seed).failures}
        position = 0
        for index, eqn in enumerate(self.eqns):
            for v in eqn.outvars:
                if not isinstance(v, DropVar):
                    if position in found:
                        return index, found[position]
                    position += 1
        return None

    def _bisect(self, low: int, high: int, fails: Callable[[int], Failure | None]) -> int | None:
        """The smallest number between for which a test fails, if it does for the highest."""
        if not fails(high):
            return None
        while low < high:
            middle = (low + high) // 2
            if middle and fails(middle):
                high = middle
            else:
                low = middle + 1
        return high

    def _fails(self, start: int, end: int) -> Failure | None:
        return self._check(self._window(start, end))

    def _check(self, window: tuple[ClosedJaxpr, list[Any]]) -> Failure | None:
        program, args = window
        if not program.jaxpr.outvars:
            return None
        failures = compare(program, args, self.run(program, args), self.seed).failures
        return failures[0] if failures else None

    def _window(self, start: int, end: int) -> tuple[ClosedJaxpr, list[Any]]:
        """Some of the equations as a program, with the reference's values for what those before them computed."""
        eqns = self.eqns[start:end]
        made = {v for eqn in eqns for v in eqn.outvars}
        needed = {a for eqn in self.eqns[end:] for a in eqn.invars if type(a) is not Literal}
        needed.update(a for a in self.jaxpr.outvars if type(a) is not Literal)
        outvars: list[Atom] = [v for eqn in eqns for v in eqn.outvars if v in needed]
        used = dict.fromkeys(a for eqn in eqns for a in eqn.invars if type(a) is not Literal)
        invars: list[Var] = [v for v in used if v not in made]  # type: ignore[misc]
        if start and any(v not in self.values for v in invars):
            self._evaluate()
        program = ClosedJaxpr(Jaxpr([], invars, outvars, eqns, debug_info=self.jaxpr.debug_info), [])
        return program, [self.values[v] for v in invars]

    def _evaluate(self) -> None:
        """Keep the reference's value of each variable, in its own dtype."""
        interp = Interpreter(np.random.default_rng(self.seed))
        env: dict[Var, Value] = {v: interp.constant(x, v.aval, 1) for v, x in zip(self.jaxpr.invars, self.args)}
        for eqn in self.eqns:
            operands = [interp.read(env, a, 1) for a in eqn.invars]
            env.update(zip(eqn.outvars, interp.apply(eqn, operands, 1)))
        for v, value in env.items():
            self.values.setdefault(v, rounded(value[0], v.aval.dtype))


def place(eqn: JaxprEqn) -> str:
    """An equation as people look for it: "mul at model.py:12 (loss)"."""
    info = eqn.source_info
    return f"{eqn.primitive.name} at {info}" if info is not None and info.line else eqn.primitive.name


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with the equations of the functions that it calls in the place of the calls."""
    eqns: list[JaxprEqn] = []
    jaxpr = closed.jaxpr
    constvars, consts = list(jaxpr.constvars), list(closed.consts)

    def add(inner: Jaxpr, env: dict[Var, Atom]) -> list[Atom]:
        def read(a: Atom) -> Atom:
            return env.get(a, a) if isinstance(a, Var) else a

        for eqn in inner.eqns:
            operands = [read(a) for a in eqn.invars]
            callee: Any = eqn.params[CALLEES[eqn.primitive.name]] if eqn.primitive.name in CALLEES else None
            if callee is not None:
                callee = callee if isinstance(callee, ClosedJaxpr) else ClosedJaxpr(callee, [])
                fresh = [Var(v.aval) for v in callee.jaxpr.constvars]
                constvars.extend(fresh)
                consts.extend(callee.consts)
                names: dict[Var, Atom] = dict(zip((*callee.jaxpr.constvars, *callee.jaxpr.invars), (*fresh, *operands)))
                env.update(zip(eqn.outvars, add(callee.jaxpr, names)))
            else:
                outvars = [v if isinstance(v, DropVar) else Var(v.aval) for v in eqn.outvars]
                env.update(zip(eqn.outvars, outvars))
                eqns.append(eqn.replace(invars=operands, outvars=outvars))
        return [read(a) for a in inner.outvars]

    outvars = add(jaxpr, {})
    return ClosedJaxpr(jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outvars), consts)
