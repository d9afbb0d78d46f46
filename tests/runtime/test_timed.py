"""Loops that a value ends: in the caller's thread while they are short."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import programs
import pytest

import veery_runtime as runtime
from veery_runtime import timed


class Clock:
    """The time as `timed` sees it: each look at it takes `step` seconds."""

    def __init__(self):
        self.now = self.step = 0.0

    def perf_counter(self):
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(timed, "time", found)
    return found


def _number(device, n):
    return runtime.put(np.array(n, np.int32), device)


def _count(call, device, limit=3):
    (x,) = call([_number(device, 0), _number(device, limit)])
    assert int(x.numpy()) == limit


def test_short_loops_come_to_the_callers_thread(device, clock):
    call = runtime.load(programs.countdown(), device)
    queues = []
    for _ in range(5):
        queues.append(call.queue)
        _count(call, device)
    assert queues == ["deferred", "deferred", "deferred", "inline", "inline"]


def test_calls_far_from_each_other_and_unfinished_ones_tell_nothing(device, clock):
    call = runtime.load(programs.countdown(), device)
    for _ in range(5):
        _count(call, device)
        clock.now += 1
    for _ in range(5):
        call([_number(device, 0), _number(device, 10**5)])
    assert call.queue == "deferred"
    runtime.synchronize()


def test_a_long_loop_holds_up_its_caller_once(device, clock):
    call = runtime.load(programs.countdown(), device)
    calls = []
    for steps in (0, 1, 0, 1, 0):
        while call.queue == "inline" if steps else call.queue != "inline":
            clock.step = steps
            _count(call, device)
            clock.step = 0
            calls.append(call.queue)
    assert "".join("i" if queue == "inline" else "d" for queue in calls) == "ddi" + "d" * 33 + "i" + "d" * 513 + "i"


def test_an_interruption_among_many_short_calls_is_forgiven(device, clock):
    call = runtime.load(programs.countdown(), device)
    for _ in range(2000):
        _count(call, device)
    clock.step = 1
    _count(call, device)
    clock.step = 0
    assert call.queue == "deferred"
    for _ in range(3):
        _count(call, device)
    assert call.queue == "inline"


def test_an_unfinished_argument_is_not_waited_for(device, clock):
    call = runtime.load(programs.countdown(), device)
    for _ in range(4):
        _count(call, device)
    (late,) = runtime.load(programs.countdown(), device, queue="deferred")([_number(device, 0), _number(device, 10**5)])
    (x,) = call([_number(device, 7), late])
    assert call.queue == "inline" and not x.is_ready() and int(x.numpy()) == 10**5


def test_a_failure_in_the_callers_thread_surfaces_at_the_read(device, clock):
    failing = SimpleNamespace(now=False)

    def function(x):
        if failing.now:
            raise KeyError("on purpose")
        return x

    call = runtime.load(programs.host(function, pure=True, blocking=True), device)
    row = runtime.put(np.zeros(8, np.float32), device)
    for _ in range(4):
        call([row])[0].wait()
    assert call.queue == "inline"
    failing.now = True
    (x,) = call([row])
    with pytest.raises(KeyError, match="on purpose"):
        x.numpy()


@pytest.mark.parametrize(
    "program",
    [
        lambda: programs.countdown(metadata={"queue": "threaded"}),
        lambda: programs.countdown(work=10**9),
        lambda: programs.host(lambda x: x, pure=False, blocking=True),
    ],
    ids=["chosen", "large", "effects"],
)
def test_others_stay_where_they_are(device, clock, program):
    call = runtime.load(program(), device)
    before = call.queue
    arguments = [runtime.put(np.zeros(shape, dtype), device) for shape, dtype in call._program.inputs]
    for _ in range(6):
        call(arguments)
        runtime.synchronize()
    assert before != "inline" and call.queue == before
