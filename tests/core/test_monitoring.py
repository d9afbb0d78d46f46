"""Events: who hears them, and what the library records itself."""

from __future__ import annotations

import pytest

import veery
import veery.numpy as jnp
from veery import monitoring

# How each kind is recorded, and heard of.
KINDS = [
    (monitoring.record_event, monitoring.register_event_listener, monitoring.unregister_event_listener, ()),
    (
        monitoring.record_event_duration_secs,
        monitoring.register_event_duration_secs_listener,
        monitoring.unregister_event_duration_listener,
        (1.5,),
    ),
    (
        monitoring.record_event_time_span,
        monitoring.register_event_time_span_listener,
        monitoring.unregister_event_time_span_listener,
        (1.0, 2.5),
    ),
    (monitoring.record_scalar, monitoring.register_scalar_listener, monitoring.unregister_scalar_listener, (3,)),
]


@pytest.fixture(autouse=True)
def _no_listeners_left():
    yield
    monitoring.clear_event_listeners()


@pytest.mark.parametrize(("record", "register", "unregister", "values"), KINDS)
def test_listeners_hear_what_is_recorded(record, register, unregister, values):
    heard = []
    listener = lambda *args, **kwargs: heard.append((args, kwargs))
    register(listener)
    register(listener)
    record("/a", *values, step=1)
    assert heard == [(("/a", *values), {"step": 1})] * 2
    for other, *_, others in KINDS:
        if other is not record:
            other("/b", *others)
    unregister(listener)
    record("/c", *values)
    assert [args[0] for args, _ in heard] == ["/a", "/a", "/c"]
    unregister(listener)
    with pytest.raises(AssertionError, match="not registered"):
        unregister(listener)


@pytest.mark.parametrize(("record", "register", "unregister", "values"), KINDS)
def test_errors_of_listeners_reach_who_records(record, register, unregister, values):
    register(lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        record("/a", *values)
    monitoring.clear_event_listeners()
    record("/a", *values)


def test_a_listener_may_unregister_itself():
    heard = []

    def once(event):
        heard.append(event)
        monitoring.unregister_event_listener(once)

    monitoring.register_event_listener(once)
    monitoring.register_event_listener(heard.append)
    monitoring.record_event("/a")
    monitoring.record_event("/b")
    assert heard == ["/a", "/a", "/b"]


def _heard():
    """All that is recorded from now on, as (event, function), and the durations."""
    heard, seconds = [], {}
    monitoring.register_event_listener(lambda event: heard.append((event.rpartition("/")[2], None)))

    def end(event, duration, fun_name):
        heard.append((event.rpartition("/")[2], fun_name))
        seconds[event.rpartition("/")[2]] = duration

    monitoring.register_event_duration_secs_listener(end)
    return heard, seconds


@pytest.mark.compiler
def test_a_first_call_is_traced_lowered_and_compiled(tmp_path):
    veery.config.update("jax_compilation_cache_dir", str(tmp_path))

    def doubled_and_more(x):
        return x * 2 + 0.12345

    x = jnp.arange(7.0)
    spans = []
    monitoring.register_event_time_span_listener(lambda event, *times, fun_name: spans.append((event, *times)))
    heard, seconds = _heard()
    call = veery.jit(doubled_and_more)
    call(x)
    first = [
        ("jaxpr_trace_duration", "doubled_and_more"),
        ("compile_requests_use_cache", None),
        ("jaxpr_to_mlir_module_duration", "jit(doubled_and_more)"),
        ("cache_misses", None),
        ("backend_compile_duration", "jit(doubled_and_more)"),
    ]
    assert heard == first
    assert 0 < seconds["jaxpr_to_mlir_module_duration"] < seconds["backend_compile_duration"]
    times = {event.rpartition("/")[2]: tuple(span) for event, *span in spans}
    outer, inner = times["backend_compile_duration"], times["jaxpr_to_mlir_module_duration"]
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]

    heard.clear()
    call(x)  # known
    assert heard == []

    veery.clear_caches()
    veery.jit(lambda x: doubled_and_more(x))(x)  # on disk
    assert [event for event, _ in heard] == [
        "jaxpr_trace_duration",
        "compile_requests_use_cache",
        "cache_hits",
        "backend_compile_duration",
    ]

    heard.clear()
    lowered = call.lower(x)
    assert [event for event, _ in heard] == ["jaxpr_to_mlir_module_duration"]
    lowered.compile()
    assert [event for event, _ in heard[1:]] == [
        "compile_requests_use_cache",
        "cache_hits",
        "backend_compile_duration",
    ]


@pytest.mark.compiler
def test_without_a_cache_there_are_no_events_of_one():
    veery.config.update("jax_enable_compilation_cache", False)
    heard, _ = _heard()
    veery.jit(lambda x: x * 3 + 0.54321)(jnp.arange(7.0))
    assert [event for event, _ in heard] == [
        "jaxpr_trace_duration",
        "jaxpr_to_mlir_module_duration",
        "backend_compile_duration",
    ]


def test_a_trace_that_fails_is_recorded_too():
    heard, _ = _heard()
    with pytest.raises(ZeroDivisionError):
        veery.jit(lambda x: 1 // 0).trace(1.0)
    assert heard == [("jaxpr_trace_duration", "<lambda>")]
