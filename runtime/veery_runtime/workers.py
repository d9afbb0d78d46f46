"""Threads for what would otherwise block a caller: data-dependent loops and programs that call Python functions."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]


_all: list[Workers] = []


class _Nesting(threading.local):
    inside: bool = False


_nesting = _Nesting()


class nesting:
    """Marks a block as the work of a Python function that a program has called."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer, _nesting.inside = _nesting.inside, True

    def __exit__(self, *_: object) -> None:
        _nesting.inside = self._outer


def nested() -> bool:
    """True within a Python function that a program has called, and in the jobs that it leads to.

    What is called from there must not wait for its turn: the program whose function this is may be what it waits for.
    """
    return _nesting.inside


class Workers:
    """Runs jobs on daemon threads that are kept for reuse.

    Jobs start in the order of submission. A job may wait for earlier ones, also from inside a job, so that a bound on
    the number of threads could deadlock: a thread is added whenever none is idle. The callers bound the jobs in flight.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._reset()
        _all.append(self)

    def _reset(self) -> None:
        self._jobs: deque[tuple[Job, bool]] = deque()
        lock = threading.Lock()
        self._condition = threading.Condition(lock)
        # Two conditions: a notice of new work must wake an idle thread, not somebody who waits for all work to end.
        self._finished = threading.Condition(lock)
        self._idle = 0
        self._unfinished = 0

    def submit(self, job: Job) -> None:
        """Runs `job` soon. It must not raise."""
        with self._condition:
            self._jobs.append((job, _nesting.inside))
            self._unfinished += 1
            if self._idle >= len(self._jobs):
                self._condition.notify()
                return
            thread = threading.Thread(
                target=self._run, args=(self._condition, self._finished), name=self._name, daemon=True
            )
        thread.start()

    def drain(self) -> None:
        """Blocks until no job is left; Ctrl-C interrupts."""
        with self._condition:
            while self._unfinished:
                self._finished.wait(0.1)

    def busy(self) -> bool:
        """True while a job is unfinished."""
        return self._unfinished > 0

    def _run(self, condition: threading.Condition, finished: threading.Condition) -> None:
        while True:
            with condition:
                while not self._jobs:
                    self._idle += 1
                    condition.wait()
                    self._idle -= 1
                job, _nesting.inside = self._jobs.popleft()
            try:
                job()
            finally:
                del job
                with condition:
                    self._unfinished -= 1
                    if not self._unfinished:
                        finished.notify_all()


submissions = Workers("veery-submit")
host_copies = Workers("veery-host-copy")


def drain() -> None:
    """Blocks until no thread of this package has anything left to do."""
    while any(workers.busy() for workers in _all):
        for workers in _all:
            workers.drain()


def _forget_threads() -> None:
    for workers in _all:
        workers._reset()


os.register_at_fork(after_in_child=_forget_threads)
