"""Programs without arrays of float0, the tangents of integers: they carry nothing, and no device holds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.jaxpr import ClosedJaxpr, Literal, memoized


def _is_float0(aval: Any) -> bool:
    return getattr(aval, "dtype", None) == dtypes.float0


@memoized
def holds_float0(closed: ClosedJaxpr) -> bool:
    """Whether an input or output of the jaxpr is of float0."""
    return any(map(_is_float0, (*closed.in_avals, *closed.out_avals)))


@memoized
def without_float0(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr without these inputs and outputs; its equations read constants for such inputs."""
    if not holds_float0(closed):
        return closed
    jaxpr = closed.jaxpr
    constants = {v: Literal(np.zeros(v.aval.shape, dtypes.float0), v.aval) for v in jaxpr.invars if _is_float0(v.aval)}
    read: Callable[[Any], Any] = lambda a: a if type(a) is Literal else constants.get(a, a)
    eqns = [eqn.replace(invars=[read(a) for a in eqn.invars]) for eqn in jaxpr.eqns]
    invars = [v for v in jaxpr.invars if v not in constants]
    outvars = [a for a in jaxpr.outvars if not _is_float0(a.aval)]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, invars=invars, outvars=outvars), closed.consts)


def inputs_without_float0(closed: ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
    """Of values that go with the inputs of the jaxpr, those that are left."""
    return [x for x, aval in zip(values, closed.in_avals, strict=True) if not _is_float0(aval)]


def outputs_with_float0(closed: ClosedJaxpr, outs: Sequence[Any]) -> list[Any]:
    """All outputs of the jaxpr, from those of the jaxpr without float0."""
    rest = iter(outs)
    return [np.zeros(a.shape, dtypes.float0) if _is_float0(a) else next(rest) for a in closed.out_avals]
