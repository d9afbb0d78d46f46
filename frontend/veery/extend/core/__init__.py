"""Jaxprs and primitives, for libraries that interpret or make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager as _contextmanager
from typing import Any

from veery._core.absent import attributes as _attributes
from veery._core.avals import maybe_aval_of as _maybe_aval_of
from veery._core.errors import ConcretizationTypeError
from veery._core.trace import (
    Tracer,
    axis_env as _axis_env,
    current_trace as _current_trace,
    eval_trace as _eval_trace,
    set_current_trace as set_current_trace,
)
from veery._transforms.batching import BatchTrace, batched_aval, unbatched_aval
from veery._transforms.staging import StagingTrace
from veery.core import (
    AbstractToken as AbstractToken,
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    Effect as Effect,
    Effects as Effects,
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    JaxprTypeError as JaxprTypeError,
    Literal as Literal,
    Primitive as Primitive,
    ShapedArray,
    Var as Var,
    check_jaxpr as check_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
    jaxprs_in_params as jaxprs_in_params,
    no_effects as no_effects,
)
from veery.extend.core import primitives as primitives


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of a jaxpr's equations."""
    for eqn in jaxpr.eqns:
        for inner in jaxprs_in_params(eqn.params):
            yield inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner


def new_jaxpr_eqn(
    invars: Sequence[Any],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Any = no_effects,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation."""
    return JaxprEqn(list(invars), list(outvars), primitive, params, frozenset(effects), source_info)


def gensym(suffix: str = "") -> Any:
    """A function from avals to new variables."""
    return Var


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The aval of one element of a batch."""
    return unbatched_aval(aval, axis)


def unmapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The aval of a batch of such elements."""
    return batched_aval(aval, axis, size)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of the tangents of an array of this dtype."""
    return ShapedArray((), primal_dtype).to_tangent_aval().dtype  # type: ignore[attr-defined]


def valid_jaxtype(x: Any) -> bool:
    """Whether a value can be an array of a jaxpr."""
    return _maybe_aval_of(x) is not None


def find_top_trace(_: Any) -> Any:
    """The trace that receives operations."""
    return _current_trace()


@_contextmanager
def take_current_trace() -> Iterator[Any]:
    """The trace that receives operations; within the context they are evaluated."""
    trace = _current_trace()
    with set_current_trace(_eval_trace):
        yield trace


class TraceTag:
    """What the traces of one transformation have in common, for those that other libraries define."""

    def __hash__(self) -> int:
        return hash(TraceTag)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TraceTag)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """A value that must not be traced, given to a function such as `int`.

    Args:
        force: the function, or None for none.
        val: the value.
        context: what it is, for messages.

    Raises:
        ConcretizationTypeError: it is being traced.
    """
    if isinstance(val, Tracer):
        known = val.concrete_value()
        if known is None:
            raise ConcretizationTypeError(val, context)
        val = known
    return val if force is None else force(val)


class OpaqueTraceState:
    """What is being traced at some time; equal states see the same tracers."""

    def __init__(self) -> None:
        self._trace, self._axes = _current_trace(), _axis_env()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace and self._axes == other._axes

    def __hash__(self) -> int:
        return hash((id(self._trace), self._axes))


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """The present state of tracing, to be compared with a later one."""
    return OpaqueTraceState()


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:  # noqa: N802
    """The names of the axes in scope."""
    return [name for name, _ in _axis_env()]


def nonempty_axis_env_DO_NOT_USE() -> bool:  # noqa: N802
    """Whether a named axis is in scope."""
    return bool(_axis_env())


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:  # noqa: N802
    """Whether a function is being traced to a jaxpr."""
    return _is_under(StagingTrace)


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:  # noqa: N802
    """Whether a function is being vectorised."""
    return _is_under(BatchTrace)


def _is_under(kind: type) -> bool:
    trace: Any = _current_trace()
    while trace is not None:
        if isinstance(trace, kind):
            return True
        trace = trace.parent
    return False


__getattr__, __dir__ = _attributes(__name__)
