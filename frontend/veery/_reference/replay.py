"""Callbacks with side effects, which run once for each execution: an evaluation gets what the program got of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from veery._core.jaxpr import ClosedJaxpr, Jaxpr, subjaxprs
from veery.lax._callback import Callback, io_callback_p

Calls = dict[Callback, list[list[np.ndarray]]]  # by the function: what its calls returned, in their order


@contextmanager
def recorded(closed: ClosedJaxpr) -> Iterator[Calls]:
    """A dictionary that gets what the `io_callback`s of a program return within the context."""
    calls: Calls = {callback: [] for callback in _callbacks(closed.jaxpr)}
    for callback, returned in calls.items():
        callback.returned = returned
    try:
        yield calls
    finally:
        for callback in calls:
            callback.returned = None


def _callbacks(jaxpr: Jaxpr) -> Iterator[Callback]:
    for eqn in jaxpr.eqns:
        if eqn.primitive is io_callback_p:
            yield eqn.params["callback"]
        for inner in subjaxprs(eqn.params):
            yield from _callbacks(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
