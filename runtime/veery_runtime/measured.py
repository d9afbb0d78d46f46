"""Programs of some work, which run in the caller's thread if that is seen to be quicker than waking others.

How long a program takes, its operations and bytes tell badly: of 5 million `where(x > 0, x * x, -x) + 1` has done in 16
us, of 4 million `gelu` in 39. So the first calls are measured. On worker threads, which wake in 25 to 60 us, the former
takes 24 us if nobody waits for it and 46 if somebody does, `x + x * 2` of 100,000 floats 43 and 58 for 16. On other
machines they wake later: a layer of 64x128 by 128x128 takes 50 us in the caller's thread of one, and 150 on others. So
what is not decided by then is measured there, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from veery_runtime.buffer import Buffer

if TYPE_CHECKING:
    from veery_runtime.executable import Executable

Call = Callable[[Sequence[Buffer]], list[Buffer]]

# Seconds within which others are hardly awake: the Laplacian of a network at 100 points takes 37 to 42 us in the thread
# of its caller, and 105 on others. Where a Python function is called, these are two threads in turn: a lasso by ADMM
# takes 330 us in the caller's thread, and 450 with waking others and waiting for them.
_QUICK, _QUICK_WITH_CALLS = 50e-6, 400e-6
# Calls that are measured at most, of which the least counts: the first ones meet memory that is new. After so many that
# all took four times as long there are no more.
_MEASURED, _SLOW = 8, 3
# Calls on others that are measured, and the part of their time that one in the caller's thread may take: where nobody
# waits for them, others compute while the caller goes on, unless these call Python functions.
_THERE, _MOST, _MOST_WITH_CALLS = 4, 0.6, 1


class MeasuredCall:
    """The call of a program: some in the caller's thread, and then wherever these say.

    The executable's attribute `queue` says where.
    """

    __slots__ = ("_before", "_calls", "_chosen", "_executable", "_here", "_least", "_quick", "_there")

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self._chosen: Call | None = None
        self._here: Call | None = None
        self._before: Any = None  # what the last call on the queue is waited for by
        self._calls = 0
        self._least = float("inf")
        self._there: list[float] = []  # what calls on others took
        self._quick = _QUICK_WITH_CALLS if executable.is_synchronous else _QUICK

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        if self._chosen is not None:
            return self._chosen(buffers)
        executable = self._executable
        if self._calls == 0 or not self._are_there(buffers):
            self._calls = max(self._calls, 1)
            results = executable.call_queued(buffers)
            self._before = results[0]._pending
            return results
        if self._calls > _MEASURED:
            return self._measured_there(buffers)
        here = self._here = self._here or executable.inline_call()
        begin = time.perf_counter()
        results = here(buffers)
        self._least = min(self._least, time.perf_counter() - begin)
        self._calls += 1
        if self._least <= self._quick:
            executable.queue, self._chosen = "inline", here
        elif self._least > 4 * self._quick and self._calls > _SLOW:
            self._chosen = executable.call_queued
        return results

    def _measured_there(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """A call on other threads that is waited for."""
        begin = time.perf_counter()
        results = self._executable.call_queued(buffers)
        try:
            results[0].wait()
        except Exception:  # which its reader hears of
            return results
        self._there.append(time.perf_counter() - begin)
        if len(self._there) == _THERE:
            most = _MOST_WITH_CALLS if self._executable.is_synchronous else _MOST
            if self._least <= most * min(self._there):
                self._executable.queue, self._chosen = "inline", self._here
            else:
                self._chosen = self._executable.call_queued
        return results

    def _are_there(self, buffers: Sequence[Buffer]) -> bool:
        """Whether arguments are there; results of the program itself, which takes not long, are waited for."""
        pending = [buffer for buffer in buffers if buffer._pending is not None]
        if any(buffer._pending is not self._before or buffer._pending.failed() for buffer in pending):
            return False
        for buffer in pending:
            try:
                buffer.wait()
            except Exception:  # which its reader hears of
                return False
        return True
