"""The calls that a device has been given and has not finished."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

from veery_runtime import workers
from veery_runtime.errors import ForkedProcessError

# A loop that submits calls faster than its device runs them waits at these limits.
MAX_CALLS_IN_FLIGHT = 64
MAX_BYTES_IN_FLIGHT = 1 << 30
# The most bytes that submitted calls may hold beside their results. They come from the device's allocator, since IREE's
# own pool loses memory (see veery_lowering.passes.vm.allocation).
MAX_SCRATCH_IN_USE = 1 << 28


class Flight:
    """The calls of one device that are submitted and not known to be done, oldest first; bounded."""

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()
        self.nbytes = 0
        self.lost: list[Any] = []
        self._scratch: deque[tuple[Any, int]] = deque()
        self._lock = threading.Lock()

    def admit(self, call: Any, nbytes: int, has_effects: bool, reads: Sequence[Any] = ()) -> None:
        """Notes a submitted call and the buffers that it reads; above the bounds, waits for the oldest calls."""
        calls = self.calls
        self.retire_done()
        if not calls:
            self.nbytes = 0  # unlocked counting may drift; an empty queue sets it right
        calls.append((call, nbytes, has_effects, frozenset(map(weakref.ref, reads))))
        self.nbytes += nbytes
        if workers.nested():
            return  # the oldest call may be the one that runs this
        while len(calls) > MAX_CALLS_IN_FLIGHT or (self.nbytes > MAX_BYTES_IN_FLIGHT and len(calls) > 1):
            self._await_oldest()

    def make_room(self, nbytes: int) -> None:
        """Waits for submitted calls until a call that needs `nbytes` beside its results may be submitted."""
        while len(self._scratch) > 1 and nbytes + sum(size for _, size in tuple(self._scratch)) > MAX_SCRATCH_IN_USE:
            try:
                await_quietly(self._scratch.popleft()[0])
            except IndexError:  # another thread was faster
                return

    def use_scratch(self, call: Any, nbytes: int) -> None:
        """Notes what a submitted call needs beside its results."""
        scratch = self._scratch
        scratch.append((call, nbytes))
        while scratch and scratch[0][0].done():
            try:
                scratch.popleft()
            except IndexError:
                return

    def retire_done(self) -> None:
        """Forgets the oldest calls as far as they are done: what is known of a call keeps its results."""
        calls = self.calls
        if calls and calls[0][0].done():
            with self._lock:
                while calls and calls[0][0].done():
                    self._retire()

    def _retire(self) -> None:
        call, nbytes, has_effects, _ = self.calls.popleft()
        self.nbytes -= nbytes
        if has_effects and call.failed() and len(self.lost) < 16:
            self.lost.append(call)

    def _await_oldest(self) -> None:
        try:
            oldest = self.calls[0]
        except IndexError:  # another thread was faster
            return
        await_quietly(oldest[0])
        with self._lock:
            if self.calls and self.calls[0] is oldest:
                self._retire()

    def reading(self, buffer: Any) -> list[Any]:
        """The unfinished calls that read `buffer`."""
        reference = weakref.ref(buffer)
        return [call for call, _, _, reads in tuple(self.calls) if reference in reads and not call.done()]

    def last(self) -> Any:
        """The call that was submitted last, as far as that is known to be unfinished, or None."""
        try:
            return self.calls[-1][0]
        except IndexError:
            return None

    def drain(self) -> None:
        while self.calls:
            self._await_oldest()
        lost, self.lost = self.lost, []
        for call in lost:
            if not call.reported:
                call.wait()


def await_quietly(call: Any) -> None:
    """Blocks until a call is done; its failure still belongs to whoever reads the result."""
    if call.done():
        return
    reported = call.reported
    try:
        call.wait()
    except ForkedProcessError:
        pass
    except Exception:
        call.reported = reported
