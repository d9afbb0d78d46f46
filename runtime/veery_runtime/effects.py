"""The order of effects: what Python functions do to the world happens in the order in which programs were called.

Programs with effects are synchronous: each has ended when the submission of its call has.
"""

from __future__ import annotations

import threading

from veery_runtime import workers
from veery_runtime.completion import Deferred

_lock = threading.Lock()
_last: Deferred | None = None


def enqueue(call: Deferred) -> Deferred | None:
    """Makes `call` the last one with effects; returns the one whose submission it must await."""
    global _last
    with _lock:
        previous, _last = _last, call
    return previous


def submitted() -> bool:
    """True unless a call with effects is still under way in a worker thread."""
    last = _last
    return last is None or last.submitted.is_set()


def happened() -> None:
    """Blocks until the effects of all calls so far have happened; not within a function that a program calls."""
    if workers.nested():
        return
    last = _last
    if last is not None:
        last.wait_submitted()


def forget() -> None:
    """In the child after a fork: calls of the parent are not waited for."""
    global _lock, _last
    _lock, _last = threading.Lock(), None
