"""Threads for what would otherwise block a caller: data-dependent loops and Python functions called by programs."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]


_all: list[Workers] = []


class Workers:
    """Runs jobs on daemon threads that are kept for reuse.

    Jobs start in the order of submission. A job may wait for earlier ones, also from inside a job, so that a bound on
    the number of threads could deadlock: a thread is added whenever none is idle. The callers bound the jobs in flight.
    """

    def __init__(self, name: str, limit: int | None = None) -> None:
        self._name = name
        self._limit = limit
        self._reset()
        _all.append(self)

    def _reset(self) -> None:
        self._jobs: deque[Job] = deque()
        lock = threading.Lock()
        self._condition = threading.Condition(lock)
        self._finished = threading.Condition(lock)  # apart, lest a notice of new work wakes somebody who drains
        self._idle = 0
        self._unfinished = 0
        self._threads: set[int] = set()

    def submit(self, job: Job) -> None:
        """Runs `job` soon. It must not raise."""
        with self._condition:
            self._jobs.append(job)
            self._unfinished += 1
            if self._idle >= len(self._jobs):
                self._condition.notify()
                return
            if self._limit is not None and len(self._threads) >= self._limit:
                return
            thread = threading.Thread(
                target=self._run, args=(self._condition, self._finished), name=self._name, daemon=True
            )
        thread.start()

    def here(self) -> bool:
        """True when called from inside a job."""
        return threading.get_ident() in self._threads

    def drain(self) -> None:
        """Blocks until no job is left; Ctrl-C interrupts."""
        with self._condition:
            while self._unfinished:
                self._finished.wait(0.1)

    def busy(self) -> bool:
        """True while a job is unfinished."""
        return self._unfinished > 0

    def _run(self, condition: threading.Condition, finished: threading.Condition) -> None:
        with condition:
            self._threads.add(threading.get_ident())
        while True:
            with condition:
                while not self._jobs:
                    self._idle += 1
                    condition.wait()
                    self._idle -= 1
                job = self._jobs.popleft()
            try:
                job()
            finally:
                del job
                with condition:
                    self._unfinished -= 1
                    if not self._unfinished:
                        finished.notify_all()


submissions = Workers("veery-submit")
host_calls = Workers("veery-host-call")
# Effects happen in program order, so their functions share one thread.
ordered_host_calls = Workers("veery-ordered-host-call", limit=1)

def here() -> bool:
    """True on a thread that works for a call in flight, so that it must not wait for its turn behind that call."""
    return submissions.here() or host_calls.here() or ordered_host_calls.here()


def drain() -> None:
    """Blocks until no thread of this package has anything left to do."""
    while any(workers.busy() for workers in _all):
        for workers in _all:
            workers.drain()


def _forget_threads() -> None:
    for workers in _all:
        workers._reset()


os.register_at_fork(after_in_child=_forget_threads)
