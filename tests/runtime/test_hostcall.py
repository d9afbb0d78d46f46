"""Python functions called by programs."""

from __future__ import annotations

import dataclasses
import threading
import time
import traceback

import numpy as np
import programs
import pytest

import veery_runtime as runtime

QUEUES = ("inline", "threaded", "deferred")


def _row(device, value=0.0):
    return runtime.put(np.full(8, value, np.float32), device)


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("pure", [True, False])
def test_a_function_gets_arrays_and_its_result_goes_on(device, queue, pure):
    call = runtime.load(programs.host(lambda x: 2 * x, pure=pure), device, queue=queue)
    x = _row(device, 3.0)
    for _ in range(20):
        (y,) = call([x])
        assert y.numpy().tolist() == [7.0] * 8
    for _ in range(5):
        (x,) = call([x])
    assert x.numpy().tolist() == [127.0] * 8


@pytest.mark.parametrize("queue", QUEUES)
def test_several_functions_are_called_in_turn(device, queue):
    call = runtime.load(programs.host_twice(lambda x: 2 * x, lambda x: 10 * x), device, queue=queue)
    x = _row(device, 3.0)
    for _ in range(20):
        assert call([x])[0].numpy().tolist() == [76.0] * 8
    for _ in range(3):
        (x,) = call([x])
    assert x.numpy().tolist() == [22.0 * (22 * 76 + 10) + 10] * 8


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("first", [True, False])
def test_one_of_several_functions_fails(device, queue, first):
    functions = (fail_on_purpose, np.sin) if first else (np.sin, fail_on_purpose)
    (x,) = runtime.load(programs.host_twice(*functions), device, queue=queue)([_row(device)])
    with pytest.raises(KeyError, match="on purpose"):
        x.numpy()


@pytest.mark.parametrize("queue", QUEUES)
def test_several_functions_are_called_by_several_threads(device, queue):
    call = runtime.load(programs.host_twice(lambda x: 2 * x, lambda x: 10 * x), device, queue=queue)
    wrong = []

    def work(i):
        for k in range(50):
            if (found := call([_row(device, i + k)])[0].numpy().tolist()) != [22.0 * (i + k) + 10] * 8:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_queue_of_several_functions_follows_the_work(device):
    program = programs.host_twice(np.sin, np.sin)
    sizes = 0, runtime.loading.INLINE_WORK_OF_CALLS, runtime.loading.INLINE_WORK_OF_CALLS + 1
    queues = [runtime.loading.choose_queue(dataclasses.replace(program, work=n), device) for n in sizes]
    assert queues == ["inline", "inline", "threaded"]
    steps = {"largest_step": str(runtime.loading.INLINE_WORK + 1)}  # which threads could divide
    routines = dataclasses.replace(program, host_calls=(), calls_routines=True, work=sizes[1])
    queues = [
        runtime.loading.choose_queue(dataclasses.replace(routines, metadata=metadata), device)
        for metadata in ({"largest_step": "0"}, steps)
    ]
    assert queues == ["inline", "threaded"]


@pytest.mark.parametrize("largest, inline", [(None, False), (runtime.loading.INLINE_WORK, True), (10**9, False)])
def test_a_long_program_of_small_steps_is_done_by_the_thread_that_submits_it(device, largest, inline):
    program = programs.host(lambda x: 2 * x)
    metadata = {} if largest is None else {"largest_step": str(largest)}
    call = runtime.load(dataclasses.replace(program, work=10**9, metadata=metadata), device)
    (y,) = call([_row(device, 3.0)])
    assert y.numpy().tolist() == [7.0] * 8
    assert call.queue == "threaded" and (True in call._loaded) == inline


def fail_on_purpose(x):
    raise KeyError("on purpose")


@pytest.mark.parametrize("queue", QUEUES)
def test_an_exception_surfaces_at_the_read_with_its_traceback(device, queue):
    call = runtime.load(programs.host(fail_on_purpose), device, queue=queue)
    (x,) = call([_row(device)])
    (y,) = runtime.load(programs.add_one(), device, queue="threaded")([x])
    for buffer in (y, x):
        with pytest.raises(KeyError, match="on purpose") as caught:
            buffer.numpy()
        assert any(frame.name == "fail_on_purpose" for frame in traceback.extract_tb(caught.value.__traceback__))
    runtime.load(programs.add_one(), device)([_row(device)])[0].wait()


@pytest.mark.parametrize("queue", QUEUES)
def test_effects_happen_in_order_and_are_waited_for(device, queue):
    seen = []
    call = runtime.load(programs.host_effect(lambda x: seen.append(float(x[0]))), device, queue=queue)
    other = runtime.load(programs.host_effect(lambda x: seen.append(float(x[0]))), device, queue="inline")
    for i in range(20):
        assert call([_row(device, i)]) == []
    runtime.synchronize()
    assert seen == [float(i) for i in range(20)]
    if queue == "threaded":
        call([_row(device, 20)])
        other([_row(device, 21)])
        runtime.synchronize()
        assert seen[-2:] == [20.0, 21.0]


@pytest.mark.parametrize("queue", QUEUES)
def test_a_failed_effect_is_raised_by_synchronize_once(device, queue):
    runtime.load(programs.host_effect(fail_on_purpose), device, queue=queue)([_row(device)])
    with pytest.raises(KeyError, match="on purpose"):
        runtime.synchronize()
    runtime.synchronize()


def test_a_failure_that_was_read_is_not_raised_again(device):
    """Also where the buffer was an argument meanwhile, after which it knows what was submitted for it."""
    (x,) = runtime.load(programs.host(fail_on_purpose, pure=False), device, queue="threaded")([_row(device)])
    while not x.is_ready():
        pass
    runtime.load(programs.add_one(), device, queue="threaded")([x])
    with pytest.raises(KeyError, match="on purpose"):
        x.numpy()
    runtime.synchronize()


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_several_and_empty_results(device, queue):
    pair = runtime.load(programs.host_pair(lambda x: (x + 1, np.empty(0, np.int32))), device, queue=queue)
    first, second = pair([_row(device)])
    assert first.numpy().tolist() == [1.0] * 8 and second.numpy().shape == (0,)


@pytest.mark.parametrize("queue", ["inline", "threaded"])
@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: x[:3], ValueError, "declared with shape"),
        (lambda x: x.astype(complex), TypeError, "declared float32"),
        (lambda x: (x, x), ValueError, "returned 2 arrays where 1"),
    ],
)
def test_wrong_results_are_refused(device, queue, function, error, words):
    (x,) = runtime.load(programs.host(function), device, queue=queue)([_row(device)])
    with pytest.raises(error, match=words):
        x.numpy()


def test_a_function_may_keep_and_change_its_arguments(device):
    kept = []

    def function(x):
        kept.append(x)
        x += 100
        return np.zeros(8, np.float32)

    x = _row(device, 5.0)
    runtime.load(programs.host(function), device)([x])[0].wait()
    assert x.numpy().tolist() == [5.0] * 8 and kept[0].tolist() == [105.0] * 8


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("pure", [True, False])
def test_a_function_may_run_programs_with_functions(device, queue, pure):
    inner = runtime.load(programs.host(lambda x: x * 2, pure=pure), device, queue=queue)

    def function(x):
        return inner([runtime.put(x, device)])[0].numpy() + 1

    outer = runtime.load(programs.host(function, pure=pure), device, queue=queue)
    assert outer([_row(device, 1.0)])[0].numpy().tolist() == [5.0] * 8


@pytest.mark.parametrize(
    "program", [programs.host, programs.host_effect, lambda function: programs.host_twice(np.sin, function)]
)
def test_the_caller_does_not_wait_for_a_slow_function(device, program):
    release = threading.Event()
    seen = []

    def function(x):
        release.wait(10)
        seen.append(1)
        return x

    call = runtime.load(program(function), device, queue="threaded")
    start = time.perf_counter()
    results = call([_row(device)])
    assert time.perf_counter() - start < 5 and not seen
    release.set()
    runtime.synchronize()
    assert seen == [1] and all(x.is_ready() for x in results)
