"""When the work behind a buffer is done: the states that a result passes through before it is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from veery_runtime import iree
from veery_runtime.errors import ForkedProcessError, tells_of_loss, translate
from veery_runtime.patience import patience

# Native waits do not notice signals; a wait in slices lets Ctrl-C through within a tenth of a second.
SLICE_NANOSECONDS = 100_000_000
SLICE_SECONDS = 0.1

# Counts forks: work begun under another number was lost with the parent's threads.
generation = 0


def count_fork() -> None:
    """Called in the child after a fork."""
    global generation
    generation += 1


def _check_fork(begun: int, name: str) -> None:
    if begun != generation:
        raise ForkedProcessError(
            f"{name}: this work was in flight when the process forked and cannot finish in the child; "
            "wait for it (block_until_ready) before os.fork(), or start the child with the 'spawn' method"
        )


class Completion:
    """One call in flight on a device queue: a semaphore that reaches 1 when all results are there.

    lose: what to call with an error that says that the device was lost, where devices can be.
    """

    __slots__ = ("name", "semaphore", "fence", "lose", "begun", "reported")

    def __init__(
        self,
        name: str,
        semaphore: iree.HalSemaphore,
        fence: iree.HalFence,
        lose: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.name = name
        self.lose = lose
        self.semaphore = semaphore
        self.fence = fence
        self.begun = generation
        self.reported = False

    def done(self) -> bool:
        """True when finished, successfully or not; never blocks."""
        try:
            return bool(self.semaphore.query() >= 1)
        except RuntimeError:
            return True

    def failed(self) -> bool:
        """True when the work is known to have failed."""
        try:
            self.semaphore.query()
        except RuntimeError:
            return True
        return False

    def wait(self) -> None:
        """Blocks until finished; raises what the work failed with."""
        wait = self.semaphore.wait
        try:
            if self.semaphore.query() < 1:
                with patience():
                    while not wait(1, timeout=SLICE_NANOSECONDS):
                        _check_fork(self.begun, self.name)
            return
        except ForkedProcessError:
            raise
        except Exception as error:
            cause = translate(self.name, error)
        if self.lose is not None and tells_of_loss(cause):
            self.lose(cause)
        self.reported = True
        raise cause  # out here, so that it keeps its own cause and context


class Failed:
    """A call that failed before its results existed."""

    __slots__ = ("error", "traceback", "reported")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.traceback = error.__traceback__
        self.reported = False

    def done(self) -> bool:
        return True

    def failed(self) -> bool:
        return True

    def wait(self) -> None:
        self.reported = True
        raise self.error.with_traceback(self.traceback)


class Deleted:
    """The state of a deleted or donated buffer. Never waited for: whoever meets it reports the buffer."""

    __slots__ = ("reported",)

    def __init__(self) -> None:
        self.reported = False

    def done(self) -> bool:
        return True

    def failed(self) -> bool:
        return False

    def wait(self) -> None:
        return None


DELETED = Deleted()


class Deferred:
    """A call that a worker thread has still to submit; afterwards it points to how the submission went on.

    Attributes:
        is_lazy: whether references are made only where they are needed, and not because somebody waits.
    """

    __slots__ = ("name", "submitted", "refs", "after", "begun")
    is_lazy = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.submitted = threading.Event()
        self.refs: list[iree.VmRef] = []
        self.after: Completion | Failed | None = None
        self.begun = generation

    @property
    def reported(self) -> bool:
        """Whether somebody has seen the failure of what was submitted."""
        return self.after is not None and self.after.reported

    @reported.setter
    def reported(self, value: bool) -> None:
        if self.after is not None:
            self.after.reported = value

    def resolve(self, refs: list[iree.VmRef], after: Completion | Failed | None) -> None:
        """Publishes the results' references and what is still to be waited for (None: nothing)."""
        self.refs = refs
        self.after = after
        self.submitted.set()

    def done(self) -> bool:
        return self.submitted.is_set() and (self.after is None or self.after.done())

    def failed(self) -> bool:
        return self.submitted.is_set() and self.after is not None and self.after.failed()

    def wait_submitted(self) -> None:
        """Blocks until the worker has submitted the call."""
        while not self.submitted.wait(SLICE_SECONDS):
            _check_fork(self.begun, self.name)

    def wait(self) -> None:
        self.wait_submitted()
        if self.after is not None:
            self.after.wait()


class Pending(Protocol):
    """What the states of a buffer's work have in common.

    Attributes:
        reported: whether somebody has seen its failure.
    """

    reported: bool

    def done(self) -> bool: ...
    def failed(self) -> bool: ...
    def wait(self) -> None: ...
