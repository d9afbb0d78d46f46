"""The steps of a compilation, as they begin: told to who listens, from this process or another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Listener = Callable[[str], None]

# The steps before the first of a compiler.
LOWERING = "lowering"
SEARCHING = "looking for the program on disk"


class Step(NamedTuple):
    """A message from one process to another that a step begins."""

    text: str


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def begin(text: str) -> None:
    """Tell that a step begins, which is the end of the one before."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """A context whose steps are told to a function, beside those who listen already."""
    outer = _listener.get()

    def both(text: str) -> None:
        if outer is not None:
            outer(text)
        listener(text)

    token = _listener.set(both)
    try:
        yield
    finally:
        _listener.reset(token)


def timed(function: Callable[[], T]) -> tuple[T, list[tuple[str, float]]]:
    """What a function returns, and its steps with the seconds that they took, in their order; none if none began."""
    begun: list[tuple[str, float]] = []
    with heard_by(lambda text: begun.append((text, time.perf_counter()))):
        result = function()
    ends = [*(start for _, start in begun[1:]), time.perf_counter()]
    return result, [(text, end - start) for (text, start), end in zip(begun, ends)]
