"""Jaxprs made smaller: candidates with fewer outputs, equations and calls, each a valid program of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from veery._reference import evaluate
from veery._reference.formats import physical

_CALLS = ("jit", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat", "remat2")


@dataclass(frozen=True)
class Graph:
    """A closed jaxpr without constants, and its arguments."""

    jaxpr: Jaxpr
    args: tuple[Any, ...]

    @property
    def closed(self) -> ClosedJaxpr:
        return ClosedJaxpr(self.jaxpr, [])

    @property
    def size(self) -> tuple[int, int, int]:
        """What a reduction makes smaller: equations, results, elements of arguments."""
        return len(self.jaxpr.eqns), len(self.jaxpr.outvars), sum(int(np.size(x)) for x in self.args)


def graph_of(closed: ClosedJaxpr, args: Sequence[Any]) -> Graph:
    """A closed jaxpr whose constants became arguments."""
    jaxpr = closed.jaxpr
    consts = [np.asarray(c.to_numpy() if hasattr(c, "to_numpy") else c) for c in closed.consts]
    return used(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), (*consts, *args))


def used(jaxpr: Jaxpr, args: Sequence[Any]) -> Graph:
    """Only what the results need: the equations and arguments."""
    needed = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(v in needed for v in eqn.outvars):
            eqns.insert(0, eqn)
            needed |= {v for v in eqn.invars if not isinstance(v, Literal)}
    kept = [i for i, v in enumerate(jaxpr.invars) if v in needed]
    invars = [jaxpr.invars[i] for i in kept]
    debug_info = type(jaxpr.debug_info)()
    return Graph(jaxpr.replace(eqns=eqns, invars=invars, debug_info=debug_info), tuple(args[i] for i in kept))


def candidates(graph: Graph) -> Iterator[Graph]:
    """Smaller programs, those that save most first."""
    yield from _fewer_outputs(graph)
    yield from _earlier_outputs(graph)
    yield from _without_first(graph)
    yield from _inlined(graph)


def _fewer_outputs(graph: Graph) -> Iterator[Graph]:
    outs = graph.jaxpr.outvars
    if len(outs) > 1:
        for out in outs:
            yield used(graph.jaxpr.replace(outvars=[out]), graph.args)


def _earlier_outputs(graph: Graph) -> Iterator[Graph]:
    """Results of the first equations alone; the shortest halves first, then one equation less."""
    n = len(graph.jaxpr.eqns)
    ends = sorted({n // 4, n // 2, 3 * n // 4, *range(max(n - 4, 0), n)} - {n})
    for end in ends:
        if end < 1:
            continue
        last = [v for v in graph.jaxpr.eqns[end - 1].outvars if not isinstance(v, DropVar)]
        if last and last != graph.jaxpr.outvars:
            yield used(graph.jaxpr.replace(outvars=last), graph.args)


def _without_first(graph: Graph) -> Iterator[Graph]:
    """Some equations left out: what they give becomes arguments."""
    eqns = graph.jaxpr.eqns
    n = len(eqns)
    if n < 2:
        return
    values = _values(graph)
    size = n // 2
    while size:
        for start in range(0, n - 1, size):
            made = [v for e in eqns[start : start + size] for v in e.outvars if not isinstance(v, DropVar)]
            if any(v not in values for v in made):
                continue
            rest = [*eqns[:start], *eqns[start + size :]]
            if not rest:
                continue
            jaxpr = graph.jaxpr.replace(eqns=rest, invars=[*graph.jaxpr.invars, *made])
            outs = [v for v in jaxpr.outvars if v not in made or isinstance(v, Literal)]
            if outs:
                yield used(jaxpr.replace(outvars=outs), (*graph.args, *(values[v] for v in made)))
        size //= 2


def _values(graph: Graph) -> dict[Var, np.ndarray]:
    """The value of every variable, as the reference has it, in the variable's type."""
    made = [v for e in graph.jaxpr.eqns for v in e.outvars if not isinstance(v, DropVar)]
    made = [v for v in made if isinstance(getattr(v.aval, "dtype", None), np.dtype)]
    everything = ClosedJaxpr(graph.jaxpr.replace(outvars=made), [])
    with np.errstate(all="ignore"):
        found = evaluate(everything, *graph.args)
        return {v: np.asarray(x).astype(physical(v.aval.dtype)) for v, x in zip(made, found)}


def _inlined(graph: Graph) -> Iterator[Graph]:
    """The body of a called function in the place of the call."""
    for i, eqn in enumerate(graph.jaxpr.eqns):
        closed = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr", eqn.params.get("fun_jaxpr")))
        if eqn.primitive.name not in _CALLS or closed is None:
            continue
        inner, consts = (closed.jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else (closed, [])
        if any(np.ndim(c) for c in consts):
            continue
        atoms: dict[Var, Any] = {v: Literal(c, v.aval) for v, c in zip(inner.constvars, consts)}
        atoms |= dict(zip(inner.invars, eqn.invars))
        eqns = []
        for sub in inner.eqns:
            outvars = [v if isinstance(v, DropVar) else Var(v.aval) for v in sub.outvars]
            eqns.append(sub.replace(invars=[_renamed(v, atoms) for v in sub.invars], outvars=outvars))
            atoms |= dict(zip(sub.outvars, outvars))
        outs = dict(zip(eqn.outvars, (_renamed(v, atoms) for v in inner.outvars)))
        rest = [e.replace(invars=[_renamed(v, outs) for v in e.invars]) for e in graph.jaxpr.eqns[i + 1 :]]
        outvars = [_renamed(v, outs) for v in graph.jaxpr.outvars]
        yield used(graph.jaxpr.replace(eqns=[*graph.jaxpr.eqns[:i], *eqns, *rest], outvars=outvars), graph.args)


def _renamed(atom: Any, names: dict[Var, Any]) -> Any:
    return atom if isinstance(atom, Literal) else names.get(atom, atom)
