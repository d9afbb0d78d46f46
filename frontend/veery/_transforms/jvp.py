"""Forward-mode differentiation: each operation is applied to primals and tangents at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core import leaks, provided, source, widths
from veery._core.ad import Zero, instantiate_zeros
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, memoized
from veery._core.primitive import Primitive
from veery._core.refs import Ref, is_ref, refuse_own
from veery._core.trace import Trace, Tracer, current_trace, new_trace, set_current_trace
from veery._transforms.dce import dce
from veery._transforms.staging import stage


class JVPTracer(Tracer):
    """A primal with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any):
        self._trace = trace
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> Any:
        return aval_of(self.primal)

    def concrete_value(self) -> Any | None:
        return self.primal.concrete_value() if isinstance(self.primal, Tracer) else self.primal

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


class JVPTrace(Trace):
    """Applies jvp rules, in its parent."""

    __slots__ = ()

    def pair(self, x: Any) -> tuple[Any, Any]:
        """Primal and tangent of a value; the tangent of a constant is a symbolic Zero."""
        if isinstance(x, JVPTracer) and x._trace is self:
            return x.primal, x.tangent
        return x, Zero.from_primal_value(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        """A tracer, or the primal itself where the tangent is zero."""
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals, tangents = unzip([self.pair(x) for x in args])
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            if all(type(t) is Zero for t in tangents):
                return primitive.bind(*primals, **params)
            with widths.keeping(primals):
                out, tangent = primitive.apply_jvp(primals, tangents, params)
        if primitive.multiple_results:
            return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        refuse_own(args, self, call.name)
        primals, tangents = unzip([self.pair(x) for x in args])
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            if all(type(t) is Zero for t in tangents):
                result: list[Any] = call.bind(*primals)
                return result
            out, tangent = call.apply_jvp(primals, tangents)
        return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]

    def apply_custom_vjp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        refuse_own(args, self, call.name)
        primals, tangents = unzip([self.pair(x) for x in args])
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            if all(type(t) is Zero for t in tangents):
                result: list[Any] = call.bind(*primals)
                return result
            out, tangent = call.apply_jvp(primals, tangents)
        return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]


def unzip(pairs: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two tuples, as rules of the user's expect them, from a list of pairs."""
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


@leaks.checked
def jvp(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Outputs and output tangents of a flat function; tangents may be symbolic Zeros on both sides.

    A reference has a reference as its tangent, and both are written back.
    """
    trace = JVPTrace(current_trace())
    inputs = [_held(trace, p, t) if is_ref(t) else trace.wrap(p, t) for p, t in zip(primals, tangents, strict=True)]
    with new_trace(trace), source.transformation("jvp"):
        outs = fun(*inputs)
        out_primals, out_tangents = unzip([trace.pair(x) for x in outs])
    for primal, tangent, x in zip(primals, tangents, inputs):
        if is_ref(tangent):
            for ref, value in zip((primal, tangent), trace.pair(x._value)):
                provided.operations.write(ref, instantiate_zeros(value))
    return list(out_primals), list(out_tangents)


def _held(trace: JVPTrace, primal: Any, tangent: Any) -> Ref:
    """The reference of a trace that holds what references hold: a value and its tangent."""
    value = trace.wrap(provided.operations.read(primal), provided.operations.read(tangent))
    return Ref(primal.aval, trace, value)


@memoized
def jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: tuple[bool, ...], instantiate: bool | tuple[bool, ...] = False
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The jvp of a jaxpr as a jaxpr.

    Args:
        closed: the jaxpr.
        nonzeros: which inputs have a tangent.
        instantiate: which output tangents are made arrays even if they are zero.

    Returns:
        A jaxpr from inputs and nonzero tangents to outputs and nonzero output tangents; and which those are.
    """
    n_in, n_out = len(closed.in_avals), len(closed.out_avals)
    wanted = (instantiate,) * n_out if isinstance(instantiate, bool) else instantiate
    nonzeros_out: tuple[bool, ...] = ()

    def fun(*args: Any) -> list[Any]:
        nonlocal nonzeros_out
        nonzero_tangents = iter(args[n_in:])
        tangents = [
            next(nonzero_tangents) if nz else Zero(aval.to_tangent_aval())
            for nz, aval in zip(nonzeros, closed.in_avals, strict=True)
        ]
        evaluate = lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs)
        outs, out_tangents = jvp(evaluate, args[:n_in], tangents)
        out_tangents = [instantiate_zeros(t) if w else t for t, w in zip(out_tangents, wanted)]
        nonzeros_out = tuple(type(t) is not Zero for t in out_tangents)
        return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

    tangent_avals = [a.to_tangent_aval() for a, nz in zip(closed.in_avals, nonzeros) if nz]
    return dce(stage(fun, [*closed.in_avals, *tangent_avals], closed.debug_info)), nonzeros_out
