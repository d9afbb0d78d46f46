"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from veery._core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, NamedAxisEffect, Var, map_jaxprs, memoized


def side_effects(effects: Iterable[Any]) -> bool:
    """Whether there is an effect beyond the mention of a named axis."""
    return any(not isinstance(effect, NamedAxisEffect) for effect in effects)


def dce_jaxpr(jaxpr: Jaxpr, keep_effects: bool = True) -> Jaxpr:
    """The jaxpr without equations whose results are not used and that have no side effects. Inputs stay."""
    needed: set[Var] = {a for a in jaxpr.outvars if type(a) is not Literal}  # type: ignore[misc]
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        if (keep_effects and side_effects(eqn.effects)) or any(v in needed for v in eqn.outvars):
            if not all(v in needed for v in eqn.outvars):
                eqn = eqn.replace(outvars=[v if v in needed else DropVar(v.aval) for v in eqn.outvars])
            eqns.append(eqn)
            needed.update(a for a in eqn.invars if type(a) is not Literal)  # type: ignore[misc]
    return jaxpr.replace(eqns=eqns[::-1])


@memoized
def dce(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The closed jaxpr without dead code, at any depth, and without constants that nothing uses."""
    jaxpr = dce_jaxpr(closed.jaxpr)
    jaxpr = jaxpr.replace(eqns=[_without_dead_code(eqn) for eqn in jaxpr.eqns])
    used = {a for eqn in jaxpr.eqns for a in eqn.invars if type(a) is not Literal}
    used.update(a for a in jaxpr.outvars if type(a) is not Literal)
    kept = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v in used]
    return ClosedJaxpr(jaxpr.replace(constvars=[v for v, _ in kept]), [c for _, c in kept])


def _without_dead_code(eqn: JaxprEqn) -> JaxprEqn:
    """An equation whose jaxprs have no dead code: a call of the host in a loop is made though nothing uses it."""
    params = {key: map_jaxprs(value, dce) for key, value in eqn.params.items()}
    return eqn if all(params[key] is value for key, value in eqn.params.items()) else eqn.replace(params=params)
