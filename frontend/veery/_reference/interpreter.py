"""The interpreter: equations one by one, each on all samples of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from veery._reference import rounding
from veery._reference.formats import Format, format_of, held
from veery._reference.leaves import leaf
from veery._reference.samples import Value, disturbed, disturbed_again, each, shared

Rule = Callable[["Interpreter", JaxprEqn, list[Value], int], list[Value]]
rules: dict[str, Rule] = {}  # by the names of primitives; what is not here is a leaf


class Unverifiable(Exception):
    """A program holds what cannot be evaluated a second time."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of primitives."""

    def register(function: Rule) -> Rule:
        rules.update(dict.fromkeys(names, function))
        return function

    return register


class Interpreter:
    """Evaluates jaxprs on samples.

    Args:
        rng: where the samples' errors come from.
        calls: what the program's `io_callback`s returned (see veery._reference.replay).
        count: of the samples.
    """

    def __init__(self, rng: np.random.Generator, calls: Any = None, count: int = 1):
        self.rng = rng
        self.count = count
        self.calls = {callback: iter(returned) for callback, returned in (calls or {}).items()}
        self._consts: dict[int, tuple[Any, np.ndarray]] = {}

    def run(self, jaxpr: ClosedJaxpr | Jaxpr, args: Sequence[Value], count: int) -> list[Value]:
        """The results of a jaxpr for `count` samples."""
        closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, [])
        jaxpr = closed.jaxpr
        env: dict[Var, Value] = {v: self.constant(c, v.aval, count) for v, c in zip(jaxpr.constvars, closed.consts)}
        env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            operands = self.used(eqn, [self.read(env, a, count) for a in eqn.invars])
            env.update(zip(eqn.outvars, self.apply(eqn, operands, count), strict=True))
        return [self.read(env, a, count) for a in jaxpr.outvars]

    def constant(self, x: Any, aval: Any, count: int) -> Value:
        """A constant, or an argument, of a type; subnormal numbers may be flushed."""
        if id(x) not in self._consts:
            self._consts[id(x)] = (x, held(x, aval.dtype))  # x is kept, and so its id unique
        value = (self._consts[id(x)][1],) * count
        form = format_of(aval.dtype)
        return value if form is None else disturbed(value, 0.0, form, self.rng)

    def read(self, env: dict[Var, Value], atom: Any, count: int) -> Value:
        """The value of an atom in an environment."""
        if type(atom) is Literal:
            return (held(atom.val, atom.aval.dtype),) * count
        return env[atom]

    def used(self, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
        """Operands as an equation computes with them.

        Those of formats narrower than float32 get errors anew for each equation that uses them: a compiled program
        rounds to such a format what it stores, and may keep all digits where it computes on with them at once. What
        only moves numbers, or gives them to a jaxpr within, hands them on as they are.
        """
        if eqn.primitive.name in rounding.EXACT or any(True for _ in subjaxprs(eqn.params)):
            return operands
        found: dict[int, Value] = {}  # an operand twice is one use
        for atom, value in zip(eqn.invars, operands):
            form = format_of(atom.aval.dtype)
            narrow = form is not None and form.eps > rounding.SINGLE
            if id(value) not in found:
                found[id(value)] = disturbed_again(value, form, self.rng) if form and narrow else value
        return [found[id(value)] for value in operands]

    def apply(self, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
        """The results of an equation."""
        found = rules.get(eqn.primitive.name)
        if found is not None:
            return found(self, eqn, operands, count)
        with np.errstate(all="ignore"):
            outs = each(leaf(eqn.primitive.name, eqn), operands, count)
        return self.rounded(eqn, operands, outs)

    def rounded(self, eqn: JaxprEqn, operands: list[Value], outs: list[Value]) -> list[Value]:
        """Results with the rounding errors of an equation."""
        results = []
        for out, var in zip(outs, eqn.outvars, strict=True):
            form = format_of(var.aval.dtype)
            if form is None or eqn.primitive.name in rounding.EXACT:
                results.append(out)
            else:
                terms = rounding.terms(eqn, operands)
                amplitude = rounding.amplitude(eqn, operands, out, form, terms)
                zeros = eqn.primitive.name in rounding.MIXED
                results.append(disturbed(out, amplitude, form, self.rng, terms, zeros))
        return results

    def disturb(self, value: Value, amplitude: Any, form: Format) -> Value:
        """Samples with random errors of an amplitude (see samples.disturbed)."""
        return disturbed(value, amplitude, form, self.rng)


def take(values: Sequence[Value], chosen: Sequence[int]) -> list[Value]:
    """Some of the samples of values."""
    return [tuple(v[i] for i in chosen) for v in values]


def merge(groups: Sequence[tuple[Sequence[int], list[Value]]], count: int) -> list[Value]:
    """The values whose samples are in groups."""
    if len(groups) == 1:
        return groups[0][1]
    results: list[list[Any]] = [[None] * count for _ in groups[0][1]]
    for chosen, values in groups:
        for result, value in zip(results, values):
            for i, x in zip(chosen, value):
                result[i] = x
    return [shared(result) for result in results]


def alike(value: Value) -> list[list[int]]:
    """The samples of a scalar in groups of equal ones, the first sample in the first group."""
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(value):
        groups.setdefault(x.item(), []).append(i)
    return list(groups.values())
