"""Linearisation: run a function once, and keep the linear map of its tangents as a jaxpr.

Operations on primals go to the parent trace as they come; those that touch a tangent are recorded. The values of
primals that the recorded operations use are the residuals. The linear jaxpr is what reverse mode transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from veery._core import leaks, provided, source, widths
from veery._core.ad import Zero, instantiate_zeros
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, Literal, eval_jaxpr, memoized
from veery._core.primitive import Primitive
from veery._core.refs import refuse_own
from veery._core.trace import Trace, Tracer, current_trace, new_trace, set_current_trace
from veery._transforms.dce import dce
from veery._transforms.jvp import unzip
from veery._transforms.staging import JitTracer, StagingTrace, close_over, staging


class GradTracer(Tracer):
    """A primal whose tangent is a variable of the linear jaxpr."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: LinearizeTrace, primal: Any, tangent: JitTracer):
        self._trace = trace
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> Any:
        return aval_of(self.primal)

    def concrete_value(self) -> Any | None:
        return self.primal.concrete_value() if isinstance(self.primal, Tracer) else self.primal

    def __repr__(self) -> str:
        return f"GradTracer(primal={self.primal}, typeof(tangent)={self.tangent.aval.str_short()})"


class PartialTrace(Trace):
    """Records operations on tangents in the linear jaxpr and passes on those on primals."""

    __slots__ = ("linear",)

    def __init__(self, parent: Trace, linear: StagingTrace):
        super().__init__(parent)
        self.linear = linear

    def is_linear(self, x: Any) -> bool:
        """Whether a value depends on the tangents."""
        return isinstance(x, JitTracer) and x._trace is self.linear

    def owns(self, x: Any) -> bool:
        return self.is_linear(x)

    def target(self, args: Sequence[Any]) -> Trace:
        """Where an operation on these values goes."""
        return self.linear if any(map(self.is_linear, args)) else self.parent  # type: ignore[return-value]

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        flags = tuple(map(self.is_linear, args))
        if primitive.linearize is not None and any(flags) and not all(flags):
            return self._divide(primitive, args, flags, params)
        with set_current_trace(self.target(args)):
            return primitive.bind(*args, **params)

    def _divide(self, primitive: Any, args: Sequence[Any], flags: tuple[bool, ...], params: dict[str, Any]) -> Any:
        """An operation that maps primals and tangents at once (a loop, a call), divided into one on each.

        It is linear in the tangents, and so its own derivative at any point: at zero.
        """
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            point = [instantiate_zeros(Zero(x.aval)) if linear else x for x, linear in zip(args, flags)]
            outs, nonzeros_out, residuals, linear_map = primitive.linearize(flags, *point, **params)
        with set_current_trace(self.linear):
            found = iter(linear_map(residuals, *(x for x, linear in zip(args, flags) if linear)))
        divided = [next(found) if nz else x for x, nz in zip(outs, nonzeros_out, strict=True)]
        return divided if primitive.multiple_results else divided[0]

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        with set_current_trace(self.target(args)):
            result: list[Any] = call.bind(*args)
            return result

    apply_custom_vjp = apply_custom_jvp


class LinearizeTrace(Trace):
    """Applies operations to primals in its parent and records what happens to tangents."""

    __slots__ = ("linear",)

    def __init__(self, parent: Trace, linear: StagingTrace):
        super().__init__(parent)
        self.linear = linear

    def pair(self, x: Any) -> tuple[Any, Any]:
        if isinstance(x, GradTracer) and x._trace is self:
            return x.primal, x.tangent
        return x, Zero.from_primal_value(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        if type(tangent) is Zero:
            return primal
        if not (isinstance(tangent, JitTracer) and tangent._trace is self.linear):
            tangent = self._record_constant(tangent)
        return GradTracer(self, primal, tangent)

    def _record_constant(self, tangent: Any) -> JitTracer:
        """A tangent that a rule made without using any tangent (zeros, say) as a variable of the linear jaxpr."""
        with set_current_trace(self.linear):
            result: JitTracer = provided.operations.copy(tangent)
            return result

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals, tangents = unzip([self.pair(x) for x in args])
        parent: Any = self.parent
        if all(type(t) is Zero for t in tangents):
            with set_current_trace(parent):
                return primitive.bind(*primals, **params)
        if primitive.linearize is not None:
            return self._by_linearize_rule(primitive, primals, tangents, params)
        with set_current_trace(PartialTrace(parent, self.linear)), widths.keeping(primals):
            out, tangent = primitive.apply_jvp(primals, tangents, params)
        if primitive.multiple_results:
            return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def _by_linearize_rule(
        self, primitive: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: dict[str, Any]
    ) -> Any:
        nonzeros = tuple(type(t) is not Zero for t in tangents)
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            outs, nonzeros_out, residuals, linear = primitive.linearize(nonzeros, *primals, **params)
        with set_current_trace(self.linear):
            out_tangents = iter(linear(residuals, *(t for t in tangents if type(t) is not Zero)))
        pairs = [
            (p, next(out_tangents) if nz else Zero.from_primal_value(p))
            for p, nz in zip(outs, nonzeros_out, strict=True)
        ]
        wrapped = [self.wrap(p, t) for p, t in pairs]
        return wrapped if primitive.multiple_results else wrapped[0]

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        refuse_own(args, self, call.name)
        primals, tangents = unzip([self.pair(x) for x in args])
        if all(type(t) is Zero for t in tangents):
            with set_current_trace(self.parent):  # type: ignore[arg-type]
                result: list[Any] = call.bind(*primals)
                return result
        with set_current_trace(PartialTrace(self.parent, self.linear)):  # type: ignore[arg-type]
            out, tangent = call.apply_jvp(primals, tangents)
        return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]

    apply_custom_vjp = apply_custom_jvp


class Linearized(NamedTuple):
    """A function at a point: its outputs and the linear map of its tangents."""

    outs: list[Any]
    jaxpr: ClosedJaxpr  # from nonzero input tangents to nonzero output tangents; its consts are the residuals
    nonzeros_out: tuple[bool, ...]


@leaks.checked
def linearize(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], nonzeros: Sequence[bool] | None = None
) -> Linearized:
    """Linearise a flat function at `primals`.

    Args:
        fun: flat function.
        primals: the point.
        nonzeros: which inputs have tangents (default: all of inexact dtype).
    """
    linear = StagingTrace(None)
    trace = LinearizeTrace(current_trace(), linear)
    if nonzeros is None:
        nonzeros = [type(p) is not Zero for p in primals]
    with new_trace(trace), source.transformation("jvp"):
        args = [
            GradTracer(trace, p, linear.new_arg(aval_of(p).to_tangent_aval())) if nz else p
            for p, nz in zip(primals, nonzeros, strict=True)
        ]
        outs, tangents = unzip([trace.pair(x) for x in fun(*args)])
    nonzeros_out = tuple(type(t) is not Zero for t in tangents)
    jaxpr = dce(linear.close([t for t in tangents if type(t) is not Zero]))
    linear.alive = False
    return Linearized(list(outs), jaxpr, nonzeros_out)


class LinearizedJaxpr(NamedTuple):
    """A jaxpr split for reverse mode.

    `primal` computes outputs and residuals, `linear` maps residuals and nonzero tangents to nonzero output tangents.
    Residuals that are inputs or outputs already are not returned a second time: `sources` says for each residual of
    `linear` where it is, ("in", i) or ("out", i).
    """

    primal: ClosedJaxpr
    linear: ClosedJaxpr
    nonzeros_out: tuple[bool, ...]
    sources: tuple[tuple[str, int], ...]

    def residuals(self, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The residuals, given arguments and all results of `primal`."""
        return [args[i] if kind == "in" else outs[i] for kind, i in self.sources]


@memoized
@leaks.checked
def linearize_jaxpr(
    closed: ClosedJaxpr, nonzeros: tuple[bool, ...], instantiate: bool | tuple[bool, ...] = False
) -> LinearizedJaxpr:
    """Linearise a jaxpr without consts, given which inputs have tangents.

    Args:
        closed: the jaxpr.
        nonzeros: which inputs have a tangent.
        instantiate: which output tangents are made arrays even if they are zero.
    """
    wanted = (instantiate,) * len(closed.out_avals) if isinstance(instantiate, bool) else instantiate
    with staging(closed.debug_info) as main:
        args = [main.new_arg(aval) for aval in closed.in_avals]
        linear = StagingTrace(None)
        trace = LinearizeTrace(main, linear)
        with new_trace(trace), source.transformation("jvp"):
            ins = [
                GradTracer(trace, x, linear.new_arg(x.aval.to_tangent_aval())) if nz else x
                for x, nz in zip(args, nonzeros, strict=True)
            ]
            outs, tangents = unzip([trace.pair(x) for x in eval_jaxpr(closed.jaxpr, closed.consts, *ins)])
        with set_current_trace(linear):
            tangents = tuple(instantiate_zeros(t) if w else t for t, w in zip(tangents, wanted))
        linear_jaxpr, residuals = close_over(dce(linear.close([t for t in tangents if type(t) is not Zero])))
        extra, sources = _place_residuals(main, args, outs, residuals)
        primal = dce(main.close([*outs, *extra]))
    nonzeros_out = tuple(type(t) is not Zero for t in tangents)
    return LinearizedJaxpr(primal, linear_jaxpr, nonzeros_out, sources)


def _place_residuals(
    main: StagingTrace, args: Sequence[Any], outs: Sequence[Any], residuals: Sequence[Any]
) -> tuple[list[Any], tuple[tuple[str, int], ...]]:
    """Which residuals must be returned besides the outputs, and where each is to be found."""
    where: dict[Any, tuple[str, int]] = {}
    for i, out in enumerate(outs):
        atom = main.atom(out)
        if not isinstance(atom, Literal):
            where.setdefault(atom, ("out", i))
    for i, arg in enumerate(args):
        where[arg._var] = ("in", i)
    extra: list[Any] = []
    sources = []
    for residual in residuals:
        atom = main.atom(residual)
        key = id(atom) if isinstance(atom, Literal) else atom
        if key not in where:
            where[key] = ("out", len(outs) + len(extra))
            extra.append(residual)
        sources.append(where[key])
    return extra, tuple(sources)
