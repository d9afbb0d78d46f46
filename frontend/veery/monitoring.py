"""Listening to what happens in this process: traces, compilations, the cache on disk, and events of libraries.

veery records, under JAX's names:

- durations, with `fun_name`: `/jax/core/compile/jaxpr_trace_duration`, `/jax/core/compile/backend_compile_duration`
  and, within the latter, `/jax/core/compile/jaxpr_to_mlir_module_duration`. Each is a time span too, and a scalar, the
  time at which it began.
- events: `/jax/compilation_cache/compile_requests_use_cache`, then `.../cache_hits` or `.../cache_misses`.

A program that is found on disk by its jaxpr is not lowered, so that there is no duration of that.
"""

from veery._core.monitoring import (
    clear_event_listeners as clear_event_listeners,
    record_event as record_event,
    record_event_duration_secs as record_event_duration_secs,
    record_event_time_span as record_event_time_span,
    record_scalar as record_scalar,
    register_event_duration_secs_listener as register_event_duration_secs_listener,
    register_event_listener as register_event_listener,
    register_event_time_span_listener as register_event_time_span_listener,
    register_scalar_listener as register_scalar_listener,
    unregister_event_duration_listener as unregister_event_duration_listener,
    unregister_event_listener as unregister_event_listener,
    unregister_event_time_span_listener as unregister_event_time_span_listener,
    unregister_scalar_listener as unregister_scalar_listener,
)
