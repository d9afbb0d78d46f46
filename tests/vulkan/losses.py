"""What holds of a device that its driver gives up. `test_lost_devices.py` runs these in a process of their own.

What it held fails and says so, and it is opened anew for what comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veery
import veery_runtime as runtime
from veery_runtime import completion, iree


def _lose(device: Any, buffer: runtime.Buffer) -> None:
    """Fails the work behind a buffer as a driver does that gives the device up."""
    semaphore = device.hal.create_semaphore(0)
    fence = iree.HalFence.create_at(semaphore, 1)
    buffer._pending = completion.Completion("doomed", semaphore, fence, device.on_loss(device.hal))
    fence.fail("DATA_LOSS; [vkWaitSemaphores] VK_ERROR_DEVICE_LOST")


def _buffer(x: Any) -> runtime.Buffer:
    return x._buffer


def test_arrays_of_a_lost_device_fail_and_new_ones_work(vulkan: Any) -> None:
    double = veery.jit(lambda x: x * 2 + 1)
    values = np.arange(5, dtype=np.float32)
    kept, read, doomed = (veery.device_put(values, vulkan) for _ in range(3))
    result = double(kept)
    np.testing.assert_array_equal(np.asarray(read), values)
    before = vulkan.hal
    _lose(vulkan, _buffer(doomed))
    with pytest.raises(runtime.DeviceLostError, match="doomed: the device was lost.*opened anew"):
        doomed.block_until_ready()
    for gone in (kept, result, double(kept), doomed + 1):
        with pytest.raises(runtime.DeviceLostError, match="Its arrays are gone"):
            np.asarray(gone)
    np.testing.assert_array_equal(np.asarray(read), values)  # what was read stays
    again = double(double(veery.device_put(values, vulkan)))
    np.testing.assert_array_equal(np.asarray(again), values * 4 + 3)
    assert vulkan.hal is not before
    assert float(veery.jit(lambda x: x.sum())(veery.device_put(values, veery.devices("cpu")[0]))) == 10


def test_a_loss_that_is_told_twice_is_one(vulkan: Any) -> None:
    x, y = (veery.device_put(np.ones(3, np.float32), vulkan) for _ in range(2))
    _buffer(x), _buffer(y)
    _lose(vulkan, _buffer(x))
    late = _buffer(y)
    pending = _buffer(x)._pending
    with pytest.raises(runtime.DeviceLostError):
        x.block_until_ready()
    fresh = veery.device_put(np.ones(3, np.float32), vulkan)
    opened = vulkan.hal
    with pytest.raises(runtime.DeviceLostError):
        pending.wait()
    assert vulkan.hal is opened and late.is_ready()
    np.testing.assert_array_equal(np.asarray(fresh), 1)


def test_calls_that_wait_for_a_lost_device_do_not_reach_the_new_one(vulkan: Any) -> None:
    """A loop on the device's values is submitted by a worker thread, when its arguments are there."""
    loop = veery.jit(lambda x: veery.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, x))
    ones = np.ones(3, np.float32)
    assert float(loop(veery.device_put(ones, vulkan)).sum()) >= 100
    x, other = (veery.device_put(ones, vulkan) for _ in range(2))
    semaphore = vulkan.hal.create_semaphore(0)
    fence = iree.HalFence.create_at(semaphore, 1)
    _buffer(x)._pending = completion.Completion("slow", semaphore, fence, vulkan.on_loss(vulkan.hal))
    waiting = loop(x)
    _lose(vulkan, _buffer(other))
    with pytest.raises(runtime.DeviceLostError):
        other.block_until_ready()
    fence.signal()
    with pytest.raises(runtime.DeviceLostError):
        waiting.block_until_ready()
    assert float(loop(veery.device_put(ones, vulkan)).sum()) >= 100


def test_numbers_that_are_kept_are_brought_anew(vulkan: Any) -> None:
    """Python's numbers in eager calls, and where eager slices start, stay on a device from call to call."""
    ones = np.ones(3, np.float32)
    with veery.default_device(vulkan):
        x, doomed = veery.device_put(ones, vulkan), veery.device_put(ones, vulkan)
        expected = float((x * 0.5)[1])
        _lose(vulkan, _buffer(doomed))
        with pytest.raises(runtime.DeviceLostError):
            doomed.block_until_ready()
        assert float((veery.device_put(ones, vulkan) * 0.5)[1]) == expected == 0.5
