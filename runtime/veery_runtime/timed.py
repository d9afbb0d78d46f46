"""Loops that a value ends, in the caller's thread while they are short.

Such a loop may be a long one, which must not hold up its caller, so that it goes to other threads: these take 25 to 60
us to wake, where a Newton iteration takes 2. How long it is, earlier calls tell: one that was done when the next one
came, soon after it, was short. From then on calls are made in the caller's thread, until one takes long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from veery_runtime.buffer import Buffer

if TYPE_CHECKING:
    from veery_runtime.executable import Executable

Call = Callable[[Sequence[Buffer]], list[Buffer]]

# Seconds of a call that is not long: 40 times what it takes to wake a thread, so that little is lost by waiting for it.
_SHORT = 1e-3
# Short calls before the first one in the caller's thread, and how many times more after each long one there. After so
# many that were short in turn, which a busy machine may interrupt, all begins anew.
_FIRST, _TIMES, _FORGIVEN = 2, 16, 1000


class TimedCall:
    """The call of a program: in the caller's thread while calls there are short, else by its queue.

    The executable's attribute `queue` says which it is.
    """

    __slots__ = ("_before", "_executable", "_here", "_in_turn", "_needed", "_queue")

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self._queue = executable.queue
        self._here: Call | None = None
        self._before: tuple[float, Any] | None = None  # of the call before, when it began and what it is waited for by
        self._needed = _FIRST
        self._in_turn = 0  # calls that were short, or before they are made here seemed so

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        begin = time.perf_counter()
        executable, here = self._executable, self._here
        if here is not None and executable.queue == "inline":
            results = here(buffers)
            self._in_turn += 1
            if time.perf_counter() - begin > _SHORT:
                self._needed = self._needed * _TIMES if self._in_turn < _FORGIVEN else _FIRST
                self._move(self._queue)
            return results
        before, self._before = self._before, None
        if before is not None and begin - before[0] <= _SHORT and (before[1] is None or before[1].done()):
            self._in_turn += 1
            if self._in_turn >= self._needed:
                self._here = here or executable.inline_call()
                self._move("inline")
                return self(buffers)
        results = executable.call_queued(buffers)
        self._before = begin, results[0]._pending
        return results

    def _move(self, queue: str) -> None:
        self._executable.queue = queue
        self._in_turn = 0
