"""Programs of some work: in the caller's thread if that is seen to be quick."""

from __future__ import annotations

import threading

import numpy as np
import programs
import pytest

import veery_runtime as runtime
from veery_runtime import measured

WORK = 5_000_000


class Clock:
    """The time as `measured` sees it: each look at it takes the next of `steps` seconds, and the last one again."""

    def __init__(self, *steps):
        self.now, self.steps = 0.0, list(steps)

    def perf_counter(self):
        self.now += self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return self.now


def _queues(call, device, count=7):
    x = runtime.put(np.arange(8, dtype=np.float32), device)
    found = []
    for _ in range(count):
        (y,) = call([x])
        found.append(call.queue)
        np.testing.assert_array_equal(y.numpy(), np.arange(8) + 1)
    return found


@pytest.mark.parametrize("least, queue", [(1e-5, "inline"), (1e-3, "threaded")])
def test_the_least_of_some_calls_decides(device, monkeypatch, least, queue):
    monkeypatch.setattr(measured, "time", Clock(0, 1.0, 0, least, 0, 2.0, 5.0))
    call = runtime.load(programs.add_one(work=WORK), device)
    found = _queues(call, device, 9)
    assert found == sorted(found, reverse=True)  # "threaded" first, and no way back
    assert found[:2] == ["threaded"] * 2 and found[-1] == queue


@pytest.mark.parametrize("there, queue", [(2e-4, "inline"), (1.5e-4, "threaded")])
def test_calls_elsewhere_are_measured_where_that_is_not_decided(device, monkeypatch, there, queue):
    monkeypatch.setattr(measured, "time", Clock(*[0, 1e-4] * 8, *[0, 1.0, 0, there, 0, 2.0], 0, 3.0))
    call = runtime.load(programs.add_one(work=WORK), device)
    assert _queues(call, device, 12) == ["threaded"] * 12
    assert _queues(call, device, 5)[2:] == [queue] * 3


def test_failures_elsewhere_are_not_measured(device, monkeypatch):
    monkeypatch.setattr(measured, "time", Clock(*[0, 6e-4] * 8, 0, 1.0))
    numbers = iter(range(20))

    def fail_later(x):
        if next(numbers) == 9:
            raise ValueError("at the tenth")
        return x

    call = runtime.load(programs.host(fail_later, pure=True, work=2 * WORK), device)
    _queues(call, device, 9)
    (y,) = call([runtime.put(np.zeros(8, np.float32), device)])
    with pytest.raises(ValueError, match="at the tenth"):
        y.numpy()
    assert _queues(call, device, 5)[-1] == "inline"


@pytest.mark.parametrize("least, queue", [(3e-4, "inline"), (1e-2, "threaded")])
def test_calls_of_functions_may_take_longer(device, monkeypatch, least, queue):
    monkeypatch.setattr(measured, "time", Clock(0, least))
    call = runtime.load(programs.host(lambda x: x, pure=True, work=2 * WORK), device)
    assert _queues(call, device, 9)[-1] == queue


@pytest.mark.parametrize("least, queue", [(3e-4, "inline"), (1e-2, "threaded")])
def test_programs_without_code_are_measured_too(device, monkeypatch, least, queue):
    monkeypatch.setattr(measured, "time", Clock(0, least))
    call = runtime.load(programs.evaluated(lambda arrays: [arrays[0] + 1], work=2 * WORK), device)
    assert _queues(call, device, 9)[-1] == queue


def test_calls_with_unfinished_arguments_are_not_measured(device, monkeypatch):
    monkeypatch.setattr(measured, "time", Clock(0))
    call = runtime.load(programs.add_one(work=WORK), device)
    for _ in range(6):
        go = threading.Event()
        late = runtime.load(programs.host(lambda x, go=go: (go.wait(), x)[1], pure=True), device, queue="deferred")
        (x,) = late([runtime.put(np.zeros(8, np.float32), device)])
        (y,) = call([x])
        assert call.queue == "threaded" and not y.is_ready()
        go.set()
        assert y.numpy().tolist() == [2] * 8
    assert _queues(call, device)[-1] == "inline"


def test_a_chain_of_calls_is_measured(device, monkeypatch):
    monkeypatch.setattr(measured, "time", Clock(0))
    call = runtime.load(programs.add_one(work=WORK), device)
    x = runtime.put(np.zeros(8, np.float32), device)
    for _ in range(50):
        (x,) = call([x])
    assert call.queue == "inline" and x.numpy().tolist() == [50] * 8


@pytest.mark.parametrize("options", [{"work": 10**9}, {"work": WORK, "metadata": {"queue": "threaded"}}])
def test_others_stay_where_they_are(device, monkeypatch, options):
    monkeypatch.setattr(measured, "time", Clock(0))
    call = runtime.load(programs.add_one(**options), device)
    assert _queues(call, device) == ["threaded"] * 7
