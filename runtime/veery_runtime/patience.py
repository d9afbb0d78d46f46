"""Waiting for IREE's threads without taking their processors away from them.

In IREE 3.13 whoever waits for a semaphore is woken before the thread that signals it has left its callback, and then
spins until it has. Where Linux lets the one that is woken interrupt the other, on that one's processor, it spins for
as long as it may run at once. Threads of the policy SCHED_BATCH interrupt nobody. Of calls of 0.5 ms on two cores (a
gelu of a million elements, a product with bias and relu, a softmax, an attention) one in eight took 3 ms longer: in
the mean 1.3, 0.84, 0.81 and 0.64 ms, and so 0.53, 0.30, 0.28 and 0.22 (JAX 0.57, 0.35, 0.38, 0.39).
"""

from __future__ import annotations

import os


class patience:
    """Marks a block in which this thread waits for others; what it does there may be interrupted at any time."""

    __slots__ = ("_is_changed",)

    def __enter__(self) -> None:
        self._is_changed = _exchange("SCHED_OTHER", "SCHED_BATCH")

    def __exit__(self, *_: object) -> None:
        if self._is_changed:
            _exchange("SCHED_BATCH", "SCHED_OTHER")


def _exchange(before: str, after: str) -> bool:
    """Change this thread's policy, if it has the first; whether it was."""
    try:
        if os.sched_getscheduler(0) != getattr(os, before):
            return False
        os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
    except (AttributeError, OSError):  # not Linux, or a sandbox that refuses it
        return False
    return True
