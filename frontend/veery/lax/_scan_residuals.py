"""Where a linear scan finds the residuals of the scan that it is the derivative of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core.jaxpr import ClosedJaxpr, Literal, eval_jaxpr, memoized
from veery._core.refs import AbstractRef
from veery._transforms import staging
from veery._transforms.dce import dce, dce_jaxpr, side_effects


class ResidualPlan:
    """Where the residuals of a scan's body come from: constants and xs as they are, ys of the primal scan for the rest.

    Residuals that depend on constants alone are the same in each step: they are computed once, before the loop,
    and are not stacked.
    """

    def __init__(
        self, primal: ClosedJaxpr, num_outs: int, sources: Sequence[tuple[str, int]], num_consts: int, num_carry: int
    ):
        self.from_consts: list[int] = []
        self.from_xs: list[int] = []
        self.from_ys: list[int] = []
        self._hoisted_outs: list[int] = []
        self._primal = primal
        self._num_consts = num_consts
        invariant = _invariant_outputs(primal, num_consts)
        groups: list[tuple[str, int]] = []
        extra_outs: list[Any] = []
        for kind, i in sources:
            if kind == "in" and i < num_consts:
                groups.append(("const", _index_in(self.from_consts, i)))
            elif kind == "in" and i >= num_consts + num_carry:
                groups.append(("x", _index_in(self.from_xs, i - num_consts - num_carry)))
            elif kind == "out" and i in invariant:
                groups.append(("hoisted", _index_in(self._hoisted_outs, i)))
            elif kind == "out" and num_carry <= i < num_outs:
                groups.append(("y", _index_in(self.from_ys, i - num_carry)))
            else:
                atom = primal.jaxpr.invars[i] if kind == "in" else primal.jaxpr.outvars[i]
                extra_outs.append(atom)
                groups.append(("y", _index_in(self.from_ys, num_outs - num_carry + len(extra_outs) - 1)))
        self._groups = groups
        outvars = [*primal.jaxpr.outvars[:num_outs], *extra_outs]
        self.primal = dce(ClosedJaxpr(primal.jaxpr.replace(outvars=outvars), primal.consts))

    def hoisted(self, consts: Sequence[Any]) -> list[Any]:
        """The residuals that depend on constants alone."""
        if not self._hoisted_outs:
            return []
        jaxpr = self._primal.jaxpr
        outvars = [jaxpr.outvars[i] for i in self._hoisted_outs]
        alone = dce_jaxpr(jaxpr.replace(outvars=outvars, invars=jaxpr.invars[: self._num_consts]), keep_effects=False)
        return eval_jaxpr(alone, self._primal.consts, *consts)

    def linear_body(self, linear: ClosedJaxpr, num_const_dots: int, num_carry_dots: int) -> ClosedJaxpr:
        """The linear body with inputs in the order of a scan: invariant residuals, tangents of constants, of carry,
        residuals by step, tangents of xs."""
        num_residuals = len(self._groups)
        tangent_avals = linear.in_avals[num_residuals:]
        base = {"const": 0, "hoisted": len(self.from_consts), "x": 0, "y": len(self.from_xs)}
        num_invariant = len(self.from_consts) + len(self._hoisted_outs)
        num_stacked = len(self.from_xs) + len(self.from_ys)
        invariant_avals: list[Any] = [None] * num_invariant
        stacked_avals: list[Any] = [None] * num_stacked
        for (kind, i), aval in zip(self._groups, linear.in_avals):
            (invariant_avals if kind in ("const", "hoisted") else stacked_avals)[base[kind] + i] = aval

        def fun(*args: Any) -> list[Any]:
            a = num_invariant + num_const_dots + num_carry_dots
            invariant, stacked = args[:num_invariant], args[a : a + num_stacked]
            residuals = [
                (invariant if kind in ("const", "hoisted") else stacked)[base[kind] + i] for kind, i in self._groups
            ]
            tangents = [*args[num_invariant:a], *args[a + num_stacked :]]
            return eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *tangents)

        n = num_const_dots + num_carry_dots
        avals = [*invariant_avals, *tangent_avals[:n], *stacked_avals, *tangent_avals[n:]]
        return staging.stage(fun, avals, linear.debug_info)


plan_residuals = memoized(ResidualPlan)


def _index_in(items: list[int], item: int) -> int:
    if item not in items:
        items.append(item)
    return items.index(item)


def _invariant_outputs(closed: ClosedJaxpr, num_consts: int) -> set[int]:
    """The outputs that depend on the leading constants, and on the jaxpr's own, alone."""
    invariant = {*closed.jaxpr.constvars, *closed.jaxpr.invars[:num_consts]}
    for eqn in closed.jaxpr.eqns:
        reads = any(type(a.aval) is AbstractRef for a in eqn.invars)
        if not (reads or side_effects(eqn.effects)) and all(type(a) is Literal or a in invariant for a in eqn.invars):
            invariant.update(eqn.outvars)
    return {i for i, a in enumerate(closed.jaxpr.outvars) if type(a) is Literal or a in invariant}
