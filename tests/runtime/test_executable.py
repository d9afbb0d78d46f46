"""Calls: queues, readiness, failures, donation, threads."""

from __future__ import annotations

import dataclasses
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import programs
import pytest

import veery_runtime as runtime
from veery_runtime import completion, iree
from veery_runtime.sharing import Undecided

QUEUES = ("inline", "threaded", "deferred")


def _row(device, value=0.0):
    return runtime.put(np.full(8, value, np.float32), device)


@pytest.mark.parametrize("queue", QUEUES)
def test_a_chain_gives_its_result(device, queue):
    add = runtime.load(programs.add_one(), device, queue=queue)
    x = _row(device)
    for _ in range(300):
        (x,) = add([x])
    assert x.numpy().tolist() == [300.0] * 8 and x.is_ready()


def test_queues_share_buffers_and_order_their_work(device):
    calls = [runtime.load(programs.add_one(), device, queue=queue) for queue in QUEUES]
    x = _row(device)
    for i in range(200):
        (x,) = calls[i % 3]([x])
    assert x.numpy().tolist() == [200.0] * 8


def test_the_queue_follows_the_work(device):
    assert runtime.load(programs.add_one(), device).queue == "inline"
    assert runtime.load(programs.matmul(), device).queue == "threaded"
    assert runtime.load(programs.countdown(), device).queue == "deferred"
    with pytest.raises(ValueError, match="queue must be"):
        runtime.load(programs.add_one(), device, queue="fast")


def test_large_work_returns_before_it_is_done(device):
    multiply = runtime.load(programs.matmul(1024), device)
    x = runtime.put(np.eye(1024, dtype=np.float32), device)
    multiply([x, x])[0].wait()
    start = time.perf_counter()
    y = x
    for _ in range(10):
        (y,) = multiply([y, x])
    submitted = time.perf_counter() - start
    assert not y.is_ready()
    y.wait()
    assert submitted < 0.5 * (time.perf_counter() - start)
    assert np.array_equal(y.numpy(), np.eye(1024))


def test_a_loop_on_device_values_does_not_block_the_caller(device):
    count = runtime.load(programs.countdown(), device)
    zero, limit = (runtime.put(np.array(n, np.int32), device) for n in (0, 100_000))
    start = time.perf_counter()
    (x,) = count([zero, limit])
    (y,) = runtime.load(programs.countdown(), device, queue="threaded")([x, limit])
    submitted = time.perf_counter() - start
    assert not x.is_ready() and not y.is_ready()
    assert int(x.numpy()) == int(y.numpy()) == 100_000
    assert submitted < 0.5 * (time.perf_counter() - start)


def test_work_in_flight_is_bounded(device):
    add = runtime.load(programs.add_one(), device, queue="threaded")
    x = _row(device)
    for _ in range(1000):
        (x,) = add([x])
        assert len(device.in_flight.calls) <= 64
    x.wait()


def _failing(device):
    """A buffer whose work ends, or fails, when its fence is told."""
    (result,) = runtime.load(programs.add_one(), device, queue="threaded")([_row(device)])
    result.wait()
    semaphore = device.hal.create_semaphore(0)
    fence = iree.HalFence.create_at(semaphore, 1)
    result._pending = completion.Completion("doomed", semaphore, fence)
    return result, fence


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failure_surfaces_at_the_read_and_later_calls_work(device, queue, when):
    add = runtime.load(programs.add_one(), device, queue=queue)
    bad, fence = _failing(device)
    if when == "before":
        fence.fail("boom")
    (x,) = add([bad])
    (y,) = runtime.load(programs.add_one(), device, queue="threaded")([x])
    if when == "after":
        assert not y.is_ready()
        fence.fail("boom")
    for buffer in (y, x, bad, y):
        with pytest.raises(runtime.ExecutionError, match="boom"):
            buffer.numpy()
    assert add([_row(device)])[0].numpy().tolist() == [1.0] * 8


@pytest.mark.parametrize("queue", QUEUES)
def test_a_lost_device_is_told_and_others_go_on(device, queue):
    add = runtime.load(programs.add_one(), device, queue=queue)
    bad, fence = _failing(device)
    (x,) = add([bad])
    fence.fail("INTERNAL; VK_ERROR_DEVICE_LOST; vkWaitSemaphores")
    for buffer in (x, bad):
        with pytest.raises(runtime.DeviceLostError, match="doomed|add.*device was lost.*VK_ERROR_DEVICE_LOST"):
            buffer.numpy()
    assert add([_row(device)])[0].numpy().tolist() == [1.0] * 8


def test_out_of_memory_is_an_exception_with_the_program_name(device):
    for queue in ("inline", "threaded"):
        with pytest.raises(runtime.ExecutionError, match="huge: out of memory"):
            runtime.load(programs.huge(), device, queue=queue)([runtime.put(np.float32(1).reshape(()), device)])
    (x,) = runtime.load(programs.huge(), device, queue="deferred")([runtime.put(np.float32(1).reshape(()), device)])
    with pytest.raises(runtime.ExecutionError, match="huge: out of memory"):
        x.wait()
    assert runtime.load(programs.add_one(), device)([_row(device)])[0].numpy()[0] == 1


def test_a_failed_invocation_fails_its_fence(device, monkeypatch):
    """IREE leaves it unsignalled, and what was submitted before the failure may wait for it."""
    made = []
    real = iree.HalFence

    class Fences:
        @staticmethod
        def create_at(semaphore, value):
            made.append(semaphore)
            return real.create_at(semaphore, value)

    with monkeypatch.context() as patch:
        patch.setattr(iree, "HalFence", Fences)
        with pytest.raises(runtime.ExecutionError):
            runtime.load(programs.huge(), device, queue="threaded")([runtime.put(np.array(1, np.float32), device)])
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        made[-1].wait(1, timeout=10**9)


@pytest.mark.parametrize("queue", QUEUES)
def test_too_many_buffers_in_a_dispatch_are_told_when_loading(device, queue):
    with pytest.raises(IndexError, match="binding count"):
        runtime.load(programs.sum_of(40), device, queue=queue)


def test_wrong_programs_are_refused(device):
    with pytest.raises(ValueError, match="no function 'other'"):
        runtime.load(programs.add_one(entry="other"), device)
    with pytest.raises(RuntimeError, match="compiled for vulkan"):
        runtime.load(programs.add_one(backend="vulkan"), device)


# -- donation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", QUEUES)
def test_donated_arguments_are_reused_and_deleted(device, queue):
    add = runtime.load(programs.add_in_place(), device, queue=queue)
    x = _row(device)
    (y,) = add([x])
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        x.numpy()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        add([x])
    assert y.numpy().tolist() == [1.0] * 8


def test_donation_writes_into_the_donated_memory(device):
    add = runtime.load(programs.add_in_place(100_000), device, queue="threaded")
    for _ in range(2):  # what a program's results share is known once a call of it was seen to be done
        (x,) = add([runtime.put(np.zeros(100_000, np.float32), device)])
        x.wait()
    address = np.frombuffer(x._ref.deref(iree.HalBufferView).map(), np.uint8).ctypes.data
    (y,) = add([x])
    assert y.numpy().ctypes.data == address


def test_donation_waits_for_the_first_call_instead_of_copying(device):
    """Until the first call of a program is done, nobody knows what its results share."""
    late, fence = _failing(device)
    (x,) = runtime.load(programs.add_one(), device, queue="threaded")([late])
    assert type(x._host) is Undecided
    reference = x._ref
    threading.Timer(0.1, fence.signal).start()
    (y,) = runtime.load(programs.add_in_place(), device, queue="threaded")([x])
    assert x.is_deleted() and y.numpy().tolist() == [3.0] * 8
    assert y.numpy().ctypes.data == np.frombuffer(reference.deref(iree.HalBufferView).map(), np.uint8).ctypes.data


def test_memory_that_others_see_is_copied_instead_of_donated(device):
    add = runtime.load(programs.add_in_place(), device)
    own = _row(device)
    seen = own.numpy()
    exported = _row(device)
    taken = np.from_dlpack(exported)
    mine = np.zeros(1 << 16, np.float32)[8:16]
    for buffer in (own, exported, runtime.put(mine, device, copy=False)):
        assert add([buffer])[0].numpy().tolist() == [1.0] * 8
        assert buffer.is_deleted()
    assert not seen.any() and not taken.any() and not mine.any()


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("calls", [1, 3])
def test_results_that_share_memory_are_copied_instead_of_donated(device, queue, calls):
    add = runtime.load(programs.add_in_place(), device)
    same = runtime.load(programs.identity(), device, queue=queue)
    twice = runtime.load(programs.same_twice(), device, queue=queue)
    for _ in range(calls):
        x = _row(device)
        (y,) = same([x])
        assert add([y])[0].numpy().tolist() == [1.0] * 8
        assert x.numpy().tolist() == [0.0] * 8
        x = _row(device)
        (y,) = same([x])
        assert add([x])[0].numpy().tolist() == [1.0] * 8
        assert y.numpy().tolist() == [0.0] * 8
        a, b = twice([_row(device)])
        assert add([a])[0].numpy().tolist() == [2.0] * 8
        assert b.numpy().tolist() == [1.0] * 8


@pytest.mark.parametrize("queue", QUEUES)
def test_memory_that_a_call_in_flight_reads_is_not_overwritten(device, queue):
    """Calls wait for what makes their arguments; donation must wait for what reads them too."""
    multiply = runtime.load(programs.matmul(), device, queue="threaded")
    add = runtime.load(programs.add_in_place(512, 512), device, queue=queue)
    ones = np.ones((512, 512), np.float32)
    for _ in range(4):  # the first results are copied, until it is known that they share no memory
        (x,) = add([runtime.put(np.zeros((512, 512), np.float32), device)])
        x.wait()
        products = [multiply([x, x])[0] for _ in range(3)]
        add([x])
        for product in products:
            assert np.array_equal(product.numpy(), ones @ ones)


def test_a_buffer_that_takes_the_place_of_a_read_one_is_not_waited_for(device):
    flight, call = runtime.flight.Flight(), completion.Deferred("unfinished")
    read = _row(device)
    flight.admit(call, 0, False, [read])
    assert flight.reading(read) == [call]
    address = id(read)
    del read
    others = []
    while len(others) < 1000 and not any(id(x) == address for x in others):
        others.append(_row(device))
    assert not any(map(flight.reading, others))


def test_an_array_is_not_donated_and_read_in_one_call(device):
    program = programs.add_arrays()
    add = runtime.load(dataclasses.replace(program, donated=(True, False)))
    x = _row(device)
    with pytest.raises(runtime.ExecutionError, match="donated and passed as another argument"):
        add([x, x])


# -- threads and memory ------------------------------------------------------------------------------------------------


def test_many_threads_call_the_same_programs(device):
    calls = [runtime.load(programs.add_one(), device, queue=queue) for queue in (*QUEUES, None)]

    def work(seed: int) -> list[float]:
        x = runtime.put(np.full(8, seed, np.float32), device)
        for i in range(250):
            (x,) = calls[(i + seed) % 4]([x])
        return x.numpy().tolist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [[seed + 250.0] * 8 for seed in range(8)]


def test_arguments_and_results_may_go_while_work_is_in_flight(device):
    multiply = runtime.load(programs.matmul(), device)
    gc.freeze()  # what was there before is not looked at, which takes a second each time after thousands of tests
    for _ in range(20):
        x = runtime.put(np.eye(512, dtype=np.float32), device)
        (y,) = multiply([x, x])
        (z,) = multiply([y, x])
        del x, y
        gc.collect()
    assert np.array_equal(z.numpy(), np.eye(512))


def test_calls_do_not_leak(device):
    resource = pytest.importorskip("resource")
    calls = [runtime.load(programs.add_one(), device, queue=queue) for queue in QUEUES]
    x = _row(device)

    def burst(n: int) -> int:
        for _ in range(n):
            for call in calls:
                call([x])[0].wait()
        runtime.synchronize()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = burst(500)
    assert burst(3000) - before < 4096  # KiB


def test_the_program_and_its_device_reference_may_go_first():
    result = runtime.load(programs.add_one())([runtime.put(np.zeros(8, np.float32), runtime.devices("cpu")[0])])[0]
    gc.collect()
    assert result.numpy().tolist() == [1.0] * 8
