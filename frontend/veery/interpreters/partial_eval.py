"""Jaxprs from functions, and their simplification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core.absent import attributes as _attributes
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from veery._transforms import dce as _dce, staging as _staging
from veery._transforms.remat import Offloadable as Offloadable, Recompute as Recompute, Saveable as Saveable

DynamicJaxprTrace = _staging.StagingTrace
JaxprTracer = DynamicJaxprTracer = _staging.JitTracer


def trace_to_jaxpr_dynamic(fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any]) -> tuple[Jaxpr, list, list]:
    """The jaxpr of a function of flat arguments, the types of its outputs, and the values that it closes over."""
    closed = _staging.stage(fun, in_avals)
    return closed.jaxpr, closed.out_avals, closed.consts


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its constants as leading arguments."""
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A jaxpr without constants as a closed one."""
    return ClosedJaxpr(jaxpr, [])


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """A jaxpr without the outputs that are not used, what only they need, and inputs that nothing uses.

    Args:
        jaxpr: the jaxpr.
        used_outputs: which outputs are used.
        instantiate: which inputs are kept in any case.

    Returns:
        The smaller jaxpr, and which inputs it has.
    """
    kept = [a for a, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    smaller = _dce.dce_jaxpr(jaxpr.replace(outvars=kept))
    needed = {a for eqn in smaller.eqns for a in eqn.invars if type(a) is not Literal}
    needed.update(a for a in kept if type(a) is not Literal)
    wanted = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else instantiate
    used_inputs = [w or v in needed for v, w in zip(jaxpr.invars, wanted, strict=True)]
    return smaller.replace(invars=[v for v, used in zip(jaxpr.invars, used_inputs) if used]), used_inputs


__getattr__, __dir__ = _attributes(__name__)
