"""Programs with operations that are done on several devices: divided into what is between these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core import source
from veery._core.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    map_jaxprs,
    memoized,
    subjaxprs,
)
from veery._core.mesh import using
from veery._transforms.calls import jit_p
from veery._transforms.staging import stage


@memoized
def concerns_devices(closed: ClosedJaxpr) -> bool:
    """Whether an operation, at any depth, may be one on several devices."""
    return _concerns_devices(closed.jaxpr)


def _concerns_devices(jaxpr: Jaxpr) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.apart is not None:
            return True
        for inner in subjaxprs(eqn.params):
            if concerns_devices(inner) if isinstance(inner, ClosedJaxpr) else _concerns_devices(inner):
                return True
    return False


def _callee(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The function that a call is of, if it is one with operations on several devices."""
    name = {"jit": "jaxpr", "remat2": "jaxpr"}.get(eqn.primitive.name, eqn.primitive.stands_for)
    found = eqn.params.get(name) if name else None
    return found if isinstance(found, ClosedJaxpr) and concerns_devices(found) else None


def _is_apart(eqn: JaxprEqn) -> bool:
    return eqn.primitive.apart is not None and bool(eqn.primitive.apart(eqn.params))


def _inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with the calls that have operations on several devices in them written out."""
    if not any(_callee(eqn) for eqn in closed.eqns):
        return closed
    with using(settled=True):
        return stage(lambda *args: _evaluate(closed, args, _callee), closed.in_avals, closed.debug_info)


def _evaluate(closed: ClosedJaxpr, args: Sequence[Any], callee: Callable[[JaxprEqn], ClosedJaxpr | None]) -> list[Any]:
    """Apply a jaxpr, and in the place of some of its equations other jaxprs."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    read: Callable[[Any], Any] = lambda a: a.val if type(a) is Literal else env[a]
    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        inner = callee(eqn)
        with source.use(eqn.source_info):
            if inner is not None:
                out = _evaluate(inner, operands, callee)
            else:
                found = eqn.primitive.bind(*operands, **eqn.params)
                out = found if eqn.primitive.multiple_results else [found]
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(a) for a in jaxpr.outvars]


@memoized
def in_parts(closed: ClosedJaxpr) -> ClosedJaxpr | None:
    """The jaxpr as calls of programs, and between them operations on several devices; None where there are none."""
    if not concerns_devices(closed):
        return None
    flat = _inlined(closed)
    if not any(map(_is_apart, flat.eqns)):
        return None
    jaxpr = flat.jaxpr
    eqns: list[JaxprEqn] = []
    group: list[JaxprEqn] = []
    for i, eqn in enumerate(jaxpr.eqns):
        if not _is_apart(eqn):
            group.append(eqn)
            continue
        eqns += [*_call(group, jaxpr.eqns[i:], jaxpr), eqn]
        group = []
    eqns += _call(group, [], jaxpr)
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), flat.consts)


def _call(group: list[JaxprEqn], after: Sequence[JaxprEqn], jaxpr: Jaxpr) -> list[JaxprEqn]:
    """Equations as a call of one program."""
    if not group:
        return []
    made = {v for eqn in group for v in eqn.outvars}
    used = dict.fromkeys(v for eqn in group for v in _variables(eqn.invars) if v not in made)
    wanted = {v for eqn in after for v in _variables(eqn.invars)} | set(_variables(jaxpr.outvars))
    results = [v for eqn in group for v in _variables(eqn.outvars) if v in wanted]
    effects = frozenset().union(*(eqn.effects for eqn in group))
    inner = Jaxpr([], list(used), list(results), group, effects, jaxpr.debug_info)
    params = {"jaxpr": ClosedJaxpr(inner, []), "name": jaxpr.debug_info.name}
    return [JaxprEqn(list(used), results, jit_p, params, effects, group[0].source_info)]


def _variables(atoms: Sequence[Any]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var) and not isinstance(a, DropVar)]


@memoized
def on_one_device(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its operations on several devices as what they compute together."""
    if not concerns_devices(closed):
        return closed

    def composed(eqn: JaxprEqn) -> ClosedJaxpr | None:
        if eqn.primitive.apart is None:
            return None
        avals = (a.aval.update(divided=None) if a.aval.divided is not None else a.aval for a in eqn.invars)
        found = eqn.primitive.composed(tuple(avals), tuple(eqn.params.items()))
        result: ClosedJaxpr = on_one_device(found)
        return result

    inside = closed.map_jaxpr(_with_inner_on_one_device)
    undivided = [aval.update(divided=None) if aval.divided is not None else aval for aval in closed.in_avals]
    with using(settled=True):
        return stage(lambda *args: _evaluate(inside, args, composed), undivided, closed.debug_info)


def _with_inner_on_one_device(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [
        eqn
        if eqn.primitive.apart is not None
        else eqn.replace(params={key: map_jaxprs(value, on_one_device) for key, value in eqn.params.items()})
        for eqn in jaxpr.eqns
    ]
    return jaxpr.replace(eqns=eqns)
