"""Traces and tracers: where the operations of a program go while it runs.

The current trace of a thread receives every operation. Each transformation's trace holds its parent, to which it
sends the operations that it makes of those it receives; the last parent evaluates. There are no levels and no
global stack: a tracer belongs to its trace by identity, and anything else is a constant to that trace.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from veery._core.avals import aval_rules
from veery._core.errors import leaked_tracer_error as leaked_tracer_error

if TYPE_CHECKING:
    from veery._core.primitive import Primitive


class Trace:
    """The base of all traces."""

    __slots__ = ("parent", "alive", "__weakref__")
    parent: Trace | None
    records = False  # whether operations on references are recorded, as equations
    lowers = False  # whether operations on types of the user's become what they are made of
    evaluates = False  # whether no transformation is to come: what operations with references in them are is settled

    def __init__(self, parent: Trace | None = None):
        self.parent = parent
        self.alive = True

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation."""
        raise NotImplementedError(f"{type(self).__name__} does not process primitives")

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        """Apply a function with a custom jvp rule (see veery._transforms.custom_rules)."""
        return list(call.processed_by(self, args))

    def apply_custom_vjp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        """Apply a function with a custom vjp rule (see veery._transforms.custom_rules)."""
        return list(call.processed_by(self, args))

    # What a trace made outside veery has in the place of the two above.

    def process_custom_jvp_call(
        self, primitive: Primitive, fun: Any, jvp: Any, tracers: Sequence[Any], *, symbolic_zeros: bool
    ) -> Sequence[Any]:
        """Apply a function with a custom jvp rule; both have `call_wrapped`."""
        raise NotImplementedError(f"{type(self).__name__} does not process functions with custom jvp rules")

    def process_custom_vjp_call(
        self, primitive: Primitive, fun: Any, fwd: Any, bwd: Any, tracers: Sequence[Any], *, out_trees: Any,
        symbolic_zeros: bool,
    ) -> Sequence[Any]:  # fmt: skip
        """Apply a function with a custom vjp rule; all three have `call_wrapped`."""
        raise NotImplementedError(f"{type(self).__name__} does not process functions with custom vjp rules")

    @property
    def main(self) -> Any:
        """What tells it from others."""
        return self

    def full_raise(self, x: Any) -> Any:
        """The value, for libraries that lifted values into their traces by it; a trace takes values as they are."""
        return x

    def owns(self, x: Any) -> bool:
        """Whether a value is a tracer of this trace."""
        return isinstance(x, Tracer) and x._trace is self

    def __repr__(self) -> str:
        return type(self).__name__


class Tracer:
    """A value of which only the aval is known. `_trace` is the trace it belongs to."""

    __slots__ = ("_aval", "_trace", "__weakref__")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]
    is_array = True  # and no value of another type, such as a reference

    _aval: Any
    _trace: Trace

    def __init__(self, trace: Trace, aval: Any):
        self._trace = trace
        self._aval = aval

    @property
    def aval(self) -> Any:
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        result: tuple[int, ...] = self.aval.shape
        return result

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        result: int = self.aval.ndim
        return result

    @property
    def size(self) -> int:
        result: int = self.aval.size
        return result

    @property
    def weak_type(self) -> bool:
        result: bool = self.aval.weak_type
        return result

    def concrete_value(self) -> Any | None:
        """The value where it is known after all (a jvp tracer outside jit), else None."""
        return None

    def shared_value(self) -> Any | None:
        """The value, where it is the same on all devices and Python may branch on it, else None."""
        return None

    def _contents(self) -> str:
        """What the repr shows within `with<...>`."""
        return repr(self._trace)

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>with<{self._contents()}>"


class EvalTrace(Trace):
    """Evaluates operations at once."""

    __slots__ = ()
    lowers = True
    evaluates = True

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for arg in args:
            if isinstance(arg, Tracer):
                raise leaked_tracer_error(arg, f"the operation {primitive}")
        return primitive.run(*args, **params)

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        result: list[Any] = call.fun(*args)
        return result

    def apply_custom_vjp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        result: list[Any] = call.fun(*args)
        return result


class CompileTimeTrace(Trace):
    """Evaluates at once what depends on no tracer; the rest goes to the trace around it."""

    __slots__ = ("around",)

    def __init__(self, parent: Trace, around: Trace):
        super().__init__(parent)
        self.around = around

    def _trace_of(self, args: Sequence[Any]) -> Trace:
        return self.around if any(isinstance(x, Tracer) for x in args) else self.parent  # type: ignore[return-value]

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        trace = self._trace_of(args)
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


def check_alive(tracer: Tracer, where: str) -> None:
    """Raise UnexpectedTracerError for a tracer whose transformation has ended."""
    if not tracer._trace.alive:
        raise leaked_tracer_error(tracer, where)


eval_trace = EvalTrace(None)


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.trace: Trace = eval_trace
        self.axis_env: tuple[tuple[Any, int], ...] = ()
        self.begun: list[weakref.ref[Trace]] | None = None  # traces that are looked after, see veery._core.leaks


thread_state = _ThreadState()


def current_trace() -> Trace:
    """The trace that receives this thread's operations."""
    return thread_state.trace


@contextmanager
def set_current_trace(trace: Trace) -> Iterator[Trace]:
    """Send this thread's operations to `trace` within the context."""
    previous, thread_state.trace = thread_state.trace, trace
    try:
        yield trace
    finally:
        thread_state.trace = previous


@contextmanager
def new_trace(trace: Trace) -> Iterator[Trace]:
    """Like set_current_trace, for a trace whose tracers must not be used after the context."""
    if thread_state.begun is not None:
        thread_state.begun.append(weakref.ref(trace))
    previous, thread_state.trace = thread_state.trace, trace
    try:
        yield trace
    finally:
        thread_state.trace = previous
        trace.alive = False


@contextmanager
def noting_traces() -> Iterator[list[weakref.ref[Trace]]]:
    """References to the traces that begin in this thread within the context."""
    outer, thread_state.begun = thread_state.begun, []
    try:
        yield thread_state.begun
    finally:
        thread_state.begun = outer


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Evaluate operations at once, whatever is being traced; see `veery.ensure_compile_time_eval`."""
    trace: Trace | None = thread_state.trace
    while trace is not None and not isinstance(trace, EvalTrace):
        trace = trace.parent
    around = thread_state.trace
    with set_current_trace(around if trace is around else CompileTimeTrace(trace or eval_trace, around)):
        yield


def trace_state_clean() -> bool:
    """Whether no transformation is under way in this thread."""
    return thread_state.trace is eval_trace


def axis_env() -> tuple[tuple[Any, int], ...]:
    """The named axes in scope: (name, size) pairs, innermost last. Hashable: part of jit's cache key."""
    return thread_state.axis_env


@contextmanager
def extend_axis_env(name: Any, size: int) -> Iterator[None]:
    """Bring the named axis into scope (None: nothing to do)."""
    previous = thread_state.axis_env
    if name is not None:
        thread_state.axis_env = (*previous, (name, size))
    try:
        yield
    finally:
        thread_state.axis_env = previous


def axis_size(name: Any) -> int:
    """The size of the named axis.

    Raises:
        NameError: no such axis is in scope.
    """
    size: int
    for bound, size in reversed(thread_state.axis_env):
        if bound == name:
            return size
    raise NameError(
        f"Found an unbound axis name: {name}. Axes are named by jax.shard_map, "
        "vmap(..., axis_name=...) and pmap(..., axis_name=...)."
    )


aval_rules[Tracer] = lambda tracer: tracer.aval
