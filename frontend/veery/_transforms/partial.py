"""Partial evaluation: what depends on known values alone is computed, the rest becomes a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core import leaks
from veery._core.avals import AbstractValue
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr
from veery._core.primitive import Primitive
from veery._core.trace import Trace, current_trace, set_current_trace
from veery._transforms.calls import jit_p
from veery._transforms.staging import JitTracer, StagingTrace, staging


class PartialTrace(Trace):
    """Sends what depends on unknown values to a staging trace, and the rest to the trace around it."""

    __slots__ = ("unknown",)

    def __init__(self, parent: Trace, unknown: StagingTrace):
        super().__init__(parent)
        self.unknown = unknown

    def is_unknown(self, x: Any) -> bool:
        return isinstance(x, JitTracer) and x._trace is self.unknown

    def _trace_of(self, args: Sequence[Any]) -> Trace:
        return self.unknown if any(map(self.is_unknown, args)) else self.parent  # type: ignore[return-value]

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        trace = self._trace_of(args)
        if primitive is jit_p and trace is self.unknown and not all(map(self.is_unknown, args)):
            closed = params["jaxpr"]  # of which some results may be known
            return eval_jaxpr(closed.jaxpr, closed.consts, *args)
        with set_current_trace(trace):
            return trace.process_primitive(primitive, args, params)

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        trace = self._trace_of(args)
        with set_current_trace(trace):
            return trace.apply_custom_jvp(call, args)

    def apply_custom_vjp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        trace = self._trace_of(args)
        with set_current_trace(trace):
            return trace.apply_custom_vjp(call, args)


@leaks.checked
def evaluate_partially(
    fun: Callable[..., Sequence[Any]], args: Sequence[Any], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[Any], list[bool]]:
    """Evaluate a function of flat arguments of which some are unknown.

    Args:
        fun: takes as many arrays, returns a flat sequence of arrays.
        args: values, or avals of those that are not known.
        instantiate: which outputs count as unknown in any case.

    Returns:
        The jaxpr from unknown arguments to unknown outputs; for each output its value, or its aval if it is unknown;
        and which outputs are unknown.
    """
    around = current_trace()
    with staging() as unknown:
        trace = PartialTrace(around, unknown)
        inputs = [unknown.new_arg(x) if isinstance(x, AbstractValue) else x for x in args]
        with set_current_trace(trace):
            outs = list(fun(*inputs))
        wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
        is_unknown = [trace.is_unknown(x) or w for x, w in zip(outs, wanted, strict=True)]
        closed = unknown.close([x for x, u in zip(outs, is_unknown) if u])
    avals = iter(closed.out_avals)
    return closed, [next(avals) if u else x for x, u in zip(outs, is_unknown)], is_unknown
