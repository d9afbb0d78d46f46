"""Who waits does not take the processor of those that are waited for, and is as before afterwards."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import programs
import pytest

import veery_runtime as runtime
from veery_runtime import completion, executable
from veery_runtime.errors import ExecutionError
from veery_runtime.patience import patience

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="policies of threads are Linux's")


def policy() -> int:
    return os.sched_getscheduler(0)


class Semaphore:
    """One that is signalled at once; it notes the policies of those that wait for it."""

    def __init__(self, value: int = 0, error: Exception | None = None) -> None:
        self.value, self.error, self.seen = value, error, []

    def query(self) -> int:
        return self.value

    def wait(self, value: int, timeout: int) -> bool:
        self.seen.append(policy())
        if self.error is not None:
            raise self.error
        return len(self.seen) > 1


def waited_for(semaphore: Any) -> Any:
    completion.Completion("f", semaphore, None).wait()
    return semaphore.seen


def test_threads_that_wait_interrupt_nobody() -> None:
    assert waited_for(Semaphore()) == [os.SCHED_BATCH] * 2 and policy() == os.SCHED_OTHER
    assert waited_for(Semaphore(value=1)) == []
    with pytest.raises(ExecutionError, match="lost"):
        waited_for(Semaphore(error=ValueError("lost")))
    assert policy() == os.SCHED_OTHER


@pytest.mark.compiler
@pytest.mark.parametrize(("queue", "reads_only"), [("threaded", True), ("threaded", False), ("inline", True)])
def test_programs_that_wait_on_their_way_interrupt_nobody(queue: str, reads_only: bool, device: Any) -> None:
    seen = []

    def function(x: np.ndarray) -> np.ndarray:
        seen.append(policy())
        return x

    function.reads_only = reads_only  # type: ignore[attr-defined]
    call = runtime.load(programs.host(function, pure=True, work=1 << 40), device, queue=queue)
    (y,) = call([runtime.put(np.zeros(8, np.float32), device)])
    assert y.numpy().tolist() == [1.0] * 8
    # What a user's own function starts would have its policy.
    assert seen == [os.SCHED_BATCH if queue == "threaded" and reads_only else os.SCHED_OTHER]


@pytest.mark.compiler
@pytest.mark.parametrize("control_flow", ["device", "host"])
def test_programs_whose_loops_are_kernels_pay_for_no_patience(
    control_flow: str, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = []

    class Noted(patience):
        def __enter__(self) -> None:
            entered.append(True)
            super().__enter__()

    monkeypatch.setattr(executable, "patience", Noted)
    call = runtime.load(programs.countdown(work=1 << 40, metadata={"control_flow": control_flow}), device)
    (y,) = call([runtime.put(np.int32(n), device) for n in (0, 5)])
    assert int(y.numpy()) == 5
    assert bool(entered) == (control_flow == "host")


def test_a_policy_that_was_chosen_stays() -> None:
    seen = []

    def run() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        seen.extend([*waited_for(Semaphore()), policy()])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_IDLE] * 3


def test_a_system_that_refuses_it_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with patience():
        assert policy() == os.SCHED_OTHER
    monkeypatch.delattr(os, "SCHED_BATCH")
    with patience():
        assert policy() == os.SCHED_OTHER
