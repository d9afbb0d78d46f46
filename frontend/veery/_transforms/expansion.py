"""Primitives that are lowered by a function of arrays: programs have that function in their place.

So the lowering sees all of a program: its loops and branches, its calls of Python, how much it computes.
"""

from __future__ import annotations

from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, map_jaxprs, memoized, subjaxprs
from veery._transforms.calls import jit_p
from veery._transforms.discharge import without_own
from veery._transforms.staging import stage


@memoized
def expanded(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its equations of such primitives, at any depth, as calls of their functions."""
    return closed.map_jaxpr(_expanded) if _has_any(closed.jaxpr) else closed


def _has_any(jaxpr: Jaxpr) -> bool:
    for eqn in jaxpr.eqns:
        if eqn.primitive.lowered_as is not None:
            return True
        for inner in subjaxprs(eqn.params):
            if isinstance(inner, ClosedJaxpr) and expanded(inner) is not inner:
                return True
    return False


def _expanded(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [_call(eqn) for eqn in jaxpr.eqns]
    return jaxpr.replace(eqns=eqns, effects=jaxpr.effects.union(*(eqn.effects for eqn in eqns)))


def _call(eqn: JaxprEqn) -> JaxprEqn:
    function = eqn.primitive.lowered_as
    if function is None:
        return eqn.replace(params={key: map_jaxprs(value, expanded) for key, value in eqn.params.items()})
    inner = expanded(without_own(stage(lambda *xs: function(*xs, **eqn.params), [a.aval for a in eqn.invars])))
    params = {"jaxpr": inner, "name": eqn.primitive.name}
    return eqn.replace(primitive=jit_p, params=params, effects=eqn.effects | inner.effects)
