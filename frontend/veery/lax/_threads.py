"""Threads that share the parts of a call of a library, during which other Python threads run.

They wait without taking the processor, and are waited for so: beside one other process on two cores a product of
600x600 takes 38 ms by OpenBLAS's own threads, by these 3.2. To hand a part to one takes 40 us, most of which it needs
to wake up; by `concurrent.futures` a product of 256x256 took 230 us instead of 215, and 330 in one thread.
"""

from __future__ import annotations

import functools
import os
import threading
from _thread import allocate_lock
from collections.abc import Callable
from queue import SimpleQueue

from veery._core.host import processors


def in_turn(function: Callable[[int], object], count: int, threads: int) -> None:
    """Call a function with each number below a count, by so many threads, of which this is one.

    Raises:
        Exception: what one of the calls raised, after all threads are done; they take no other numbers then.
    """
    numbers = iter(range(count))

    def take() -> None:
        try:
            for i in numbers:
                function(i)
        except BaseException:
            for _ in numbers:
                pass
            raise

    others = [_Job(take) for _ in range(min(count, threads) - 1)]
    for other in others:
        _threads().give(other)
    try:
        take()
    finally:
        for other in others:
            other.wait()
    for other in others:
        if other.error is not None:
            raise other.error


class _Job:
    """A call that another thread makes unless it comes too late."""

    __slots__ = ("_call", "_claim", "_end", "error")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._claim, self._end = allocate_lock(), allocate_lock()
        self._end.acquire()
        self.error: BaseException | None = None

    def run(self) -> None:
        if self._claim.acquire(False):
            try:
                self._call()
            except BaseException as error:
                self.error = error
            finally:
                self._end.release()

    def wait(self) -> None:
        """Return when the call is made, or will not be."""
        if not self._claim.acquire(False):
            self._end.acquire()


class _Threads:
    """As many as there are other processors, begun when they are needed."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._begun = 0

    def give(self, job: _Job) -> None:
        if self._begun < max(1, processors() - 1):
            self._begun += 1
            threading.Thread(target=self._work, name=f"veery-part-{self._begun}", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get().run()


@functools.cache
def _threads() -> _Threads:
    return _Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)
