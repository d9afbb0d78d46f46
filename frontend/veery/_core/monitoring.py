"""Events of this process, and who listens to them (see `veery.monitoring`)."""

from __future__ import annotations

import time
from collections.abc import Callable

from veery._core import recording

# What veery records itself, under JAX's names.
TRACING = "/jax/core/compile/jaxpr_trace_duration"
LOWERING = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILING = "/jax/core/compile/backend_compile_duration"
CACHE_REQUEST = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"

Listener = Callable[..., None]

_events: list[Listener] = []
_durations: list[Listener] = []
_time_spans: list[Listener] = []
_scalars: list[Listener] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the listeners of events that something happened.

    Args:
        event: its name, by custom a path: "/my_library/steps/restored".
        **kwargs: what else there is to know of it.

    Raises:
        Exception: what a listener raised.
    """
    for listener in tuple(_events):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the listeners of durations how many seconds something took; see `record_event`."""
    for listener in tuple(_durations):
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Tell the listeners of time spans when something began and ended, in seconds since 1970; see `record_event`."""
    for listener in tuple(_time_spans):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tell the listeners of scalars a number; see `record_event`."""
    for listener in tuple(_scalars):
        listener(event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Have `callback(event, **kwargs)` called at each event, in the thread where it happens.

    >>> from veery import monitoring
    >>> seen = []
    >>> listener = lambda event, **kwargs: seen.append((event, kwargs))
    >>> monitoring.register_event_listener(listener)
    >>> monitoring.record_event("/example/restored", step=3)
    >>> monitoring.unregister_event_listener(listener)
    >>> seen
    [('/example/restored', {'step': 3})]
    """
    _events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Have `callback(event, seconds, **kwargs)` called for each duration.

    >>> import veery, veery.numpy as jnp
    >>> from veery import monitoring
    >>> seen = []
    >>> listener = lambda event, seconds, **kwargs: seen.append((event, kwargs))
    >>> monitoring.register_event_duration_secs_listener(listener)
    >>> _ = veery.jit(lambda x: x * 2).trace(jnp.ones(3))
    >>> monitoring.unregister_event_duration_listener(listener)
    >>> seen
    [('/jax/core/compile/jaxpr_trace_duration', {'fun_name': '<lambda>'})]
    """
    _durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Have `callback(event, start, end, **kwargs)` called for each time span."""
    _time_spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Have `callback(event, value, **kwargs)` called for each scalar."""
    _scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Call a listener of events no longer.

    Raises:
        AssertionError: it is not registered.
    """
    _remove(_events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Call a listener of durations no longer; see `unregister_event_listener`."""
    _remove(_durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Call a listener of time spans no longer; see `unregister_event_listener`."""
    _remove(_time_spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Call a listener of scalars no longer; see `unregister_event_listener`."""
    _remove(_scalars, callback)


def _remove(listeners: list[Listener], callback: Listener) -> None:
    if callback not in listeners:
        raise AssertionError(f"{callback!r} is not registered as a listener; register it first")
    listeners.remove(callback)


def clear_event_listeners() -> None:
    """Forget all listeners, of whatever kind."""
    for listeners in (_events, _durations, _time_spans, _scalars):
        listeners.clear()


class timed:
    """A context that is recorded: its beginning as a scalar, its duration and its time span at the end.

    A profile shows it too.
    """

    def __init__(self, event: str, **kwargs: str | int):
        self._event = event
        self._kwargs = kwargs
        self._span = recording.Span(event.rpartition("/")[2].removesuffix("_duration"), "compilation", **kwargs)
        self._begin = 0.0

    def __enter__(self) -> timed:
        self._begin = time.time()
        record_scalar(self._event, self._begin, **self._kwargs)
        self._span.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._span.__exit__(*exception)
        end = time.time()
        record_event_duration_secs(self._event, end - self._begin, **self._kwargs)
        record_event_time_span(self._event, self._begin, end, **self._kwargs)
