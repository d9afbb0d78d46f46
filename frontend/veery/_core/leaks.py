"""Finding tracers that outlive their trace, while `jax_check_tracer_leaks` is on."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from veery._core.config import config
from veery._core.errors import leaked_tracers_error
from veery._core.trace import Trace, Tracer, noting_traces

F = TypeVar("F", bound=Callable[..., Any])

_exempt: weakref.WeakSet[Trace] = weakref.WeakSet()


def exempt(traces: Iterable[Trace]) -> None:
    """Tell of traces that a rule of the user's needs to know again later: they live on with it, and are not checked."""
    if config.jax_check_tracer_leaks:
        for trace in traces:
            outer: Trace | None = trace
            while outer is not None:
                _exempt.add(outer)
                outer = outer.parent


def checked(fun: F) -> F:
    """Decorates a function that begins traces: with the setting on, no tracer of them may be alive when it has ended.

    By then the function's own frames are gone, and after a collection so is what only cycles hold.
    """

    @functools.wraps(fun)
    def check(*args: Any, **kwargs: Any) -> Any:
        if not config.jax_check_tracer_leaks:
            return fun(*args, **kwargs)
        with noting_traces() as traces:
            result = fun(*args, **kwargs)
        _raise_leaks(traces)
        return result

    return check  # type: ignore[return-value]


def _raise_leaks(traces: Sequence[weakref.ref[Trace]]) -> None:
    if all(trace() is None for trace in traces):
        return
    gc.collect()
    alive = [trace for trace in (ref() for ref in traces) if trace is not None and trace not in _exempt]
    leaked = [x for trace in alive for x in gc.get_referrers(trace) if isinstance(x, Tracer) and x._trace is trace]
    if leaked:
        raise leaked_tracers_error(leaked)
