"""Operations on types of the user's, and jaxprs with such types as jaxprs of what these are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from veery._core import provided, source
from veery._core.avals import aval_of
from veery._core.cost import per_result
from veery._core.effects import ref_effect
from veery._core.hitypes import AvalMutableQDD, low_types
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr, memoized
from veery._core.primitive import Primitive, all_primitives
from veery._core.refs import AbstractRef, is_ref, trace_for
from veery._core.trace import current_trace, new_trace, set_current_trace
from veery._transforms.discharge import DischargeTrace
from veery._transforms.staging import StagingTrace, stage, tracer_of


class HiPrimitive(Primitive):
    """The base of operations on types of the user's, each a class of its own.

    A subclass defines `abstract_eval(*avals, **params)` -> (type of the result, effects) and `to_lojax(*args,
    **params)` -> the result, by operations that exist; and to be differentiated `jvp(primals, tangents, **params)` and
    `transpose(ct, *args, **params)`. With `multiple_results = True` results are lists.

    Args:
        name: as printed in jaxprs.
    """

    # The other fields of a primitive; methods of subclasses take the place of some.
    linearize: Any = None
    axis_batch: Any = None
    batch = divide = reference = composition = impl = effects = host = stands_for = with_refs = shown = None
    cost = staticmethod(per_result)
    checks: frozenset[str] = frozenset()
    inert: frozenset[str] = frozenset()
    takes_refs = multiple_results = transposes_zeros = False

    def __init__(self, name: str):
        self.name = name
        all_primitives.add(self)

    def is_high(self, *avals: Any, **params: Any) -> bool:
        return True

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        raise NotImplementedError(f"{self} defines no abstract_eval")

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(f"{self} defines no to_lojax")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise NotImplementedError(f"Differentiation rule for '{self}' not implemented")

    def transpose(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(f"Transpose rule (for reverse-mode differentiation) for '{self}' not implemented")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation: at once, where its operands are known by what they are made of."""
        trace = trace_for(args)
        with set_current_trace(trace):
            if isinstance(trace, StagingTrace):
                return self._record(trace, args, params)
            if trace.lowers:
                return self.to_lojax(*args, **params)
            return trace.process_primitive(self, args, params)

    def _record(self, trace: StagingTrace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        atoms = [trace.atom(x) for x in args]
        known = [
            AvalMutableQDD(a.aval, trace.qdds[a])  # type: ignore[index]
            if a.aval.has_qdd
            else a.aval
            for a in atoms
        ]
        with set_current_trace(trace.parent):  # type: ignore[arg-type]
            found = self.abstract_eval(*known, **params)
        out, effects = found if isinstance(found, tuple) and len(found) == 2 else (found, ())
        trace.is_high = True
        outvars: list[Var] = [trace.new_var(aval) for aval in (out if self.multiple_results else (out,))]
        info = source.current()
        trace.eqns.append(JaxprEqn(atoms, outvars, self, params, frozenset([*effects, ref_effect]), info))
        tracers = [tracer_of(trace, var, info) for var in outvars]
        return tracers if self.multiple_results else tracers[0]


def _low(var: Var, jaxpr: Jaxpr) -> list[Any]:
    """The types of the low values of an input."""
    return list(low_types(var.aval, jaxpr.qdds[var].init_val if var in jaxpr.qdds else None))


def _raised(var: Var, jaxpr: Jaxpr, values: Sequence[Any]) -> Any:
    """The input that is made of low values."""
    if var in jaxpr.qdds:
        return var.aval.new_from_loval(jaxpr.qdds[var].init_val, *values)
    return var.aval.raise_val(*values)


def _low_values(var: Var, jaxpr: Jaxpr, x: Any) -> list[Any]:
    """The low values of an argument."""
    found = var.aval.read_loval(jaxpr.qdds[var].init_val, x) if var in jaxpr.qdds else var.aval.lower_val(x)
    return list(found)


def raise_outputs(closed: ClosedJaxpr, results: Iterator[Any]) -> list[Any]:
    """The outputs of a jaxpr of which these are the low values."""
    return [a.raise_val(*[next(results) for _ in a.lo_ty()]) for a in closed.out_avals]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A jaxpr of low values.

    Attributes:
        jaxpr: takes the low values of each input, and gives those of each output, and then of each mutable input.
        source: the jaxpr that it was made of.
    """

    jaxpr: ClosedJaxpr
    source: ClosedJaxpr

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """The low values of arguments."""
        jaxpr = self.source.jaxpr
        return [low for var, x in zip(jaxpr.invars, args) for low in _low_values(var, jaxpr, x)]

    def outputs(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The outputs of which these are the low values; mutable arguments then hold what follows."""
        rest, jaxpr = iter(results), self.source.jaxpr
        outs = raise_outputs(self.source, rest)
        for var, x in zip(jaxpr.invars, args):
            if var in jaxpr.qdds:
                qdd = jaxpr.qdds[var].cur_val
                var.aval.update_from_loval(qdd, x, *[next(rest) for _ in var.aval.lo_ty_qdd(qdd)])
        return outs


@memoized
def lowered(closed: ClosedJaxpr) -> Lowered:
    """A jaxpr without types of the user's."""
    jaxpr = closed.jaxpr
    types = [_low(var, jaxpr) for var in jaxpr.invars]

    def fun(*lows: Any) -> list[Any]:
        rest = iter(lows)
        with new_trace(DischargeTrace(current_trace(), evaluates=True)):
            args = [_raised(v, jaxpr, [next(rest) for _ in low]) for v, low in zip(jaxpr.invars, types)]
            outs = eval_jaxpr(jaxpr, closed.consts, *args)
            results = [low for atom, x in zip(jaxpr.outvars, outs) for low in atom.aval.lower_val(x)]
            for var, x in zip(jaxpr.invars, args):
                if var in jaxpr.qdds:
                    results += var.aval.read_loval(jaxpr.qdds[var].cur_val, x)
        return results

    return Lowered(stage(fun, [aval for low in types for aval in low], closed.debug_info), closed)


@memoized
def referring(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr that takes the low values of its inputs, and references to those of mutable inputs."""
    jaxpr = closed.jaxpr
    types = [[AbstractRef(a) if var in jaxpr.qdds else a for a in _low(var, jaxpr)] for var in jaxpr.invars]

    def fun(*lows: Any) -> list[Any]:
        rest = iter(lows)
        groups = [[next(rest) for _ in low] for low in types]
        with new_trace(DischargeTrace(current_trace(), evaluates=True)):
            held = [[provided.operations.read(x) if is_ref(x) else x for x in group] for group in groups]
            args = [_raised(var, jaxpr, values) for var, values in zip(jaxpr.invars, held)]
            outs = eval_jaxpr(jaxpr, closed.consts, *args)
            for var, x, group in zip(jaxpr.invars, args, groups):
                if var in jaxpr.qdds:
                    _write_back(var, jaxpr, x, group)
            return [low for atom, x in zip(jaxpr.outvars, outs) for low in atom.aval.lower_val(x)]

    return stage(fun, [aval for low in types for aval in low], closed.debug_info)


def _write_back(var: Var, jaxpr: Jaxpr, x: Any, refs: Sequence[Any]) -> None:
    values = var.aval.read_loval(jaxpr.qdds[var].cur_val, x)
    if [(a.shape, a.dtype) for a in map(aval_of, values)] != [(r.shape, r.dtype) for r in refs]:
        raise TypeError(
            f"a value of type {var.aval} has another structure, shape or dtype at the end of a function of a loop or a "
            "conditional than at its beginning; within jit alone it may change these"
        )
    for ref, value in zip(refs, values):
        provided.operations.write(ref, value)


class Referred:
    """Arguments in the place of those of types of the user's: references to what mutable ones hold."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Var, Jaxpr, list[Any]]] = {}

    def expand(self, args: Sequence[Any], jaxpr: Jaxpr, invars: Sequence[Var]) -> list[Any]:
        """The arguments of `referring`, for those that are given for these inputs."""
        expanded = []
        for var, x in zip(invars, args, strict=True):
            if var not in jaxpr.qdds:
                expanded += _low_values(var, jaxpr, x)
            else:
                if id(x) not in self._known:
                    refs = [provided.operations.new_ref(low) for low in _low_values(var, jaxpr, x)]
                    self._known[id(x)] = (x, var, jaxpr, refs)
                expanded += self._known[id(x)][3]
        return expanded

    def write_back(self) -> None:
        """Let mutable arguments hold what the references do."""
        for x, var, jaxpr, refs in self._known.values():
            var.aval.update_from_loval(jaxpr.qdds[var].cur_val, x, *map(provided.operations.read, refs))


def takes_high(jaxpr: Jaxpr) -> bool:
    """Whether there are types of the user's among the inputs or outputs."""
    return jaxpr.is_high and any(a.aval.is_high for a in (*jaxpr.invars, *jaxpr.outvars))
