"""Uploads, reads, sharing, deletion and accounting."""

from __future__ import annotations

import gc
import threading
import time

import ml_dtypes
import numpy as np
import programs
import pytest
from support.memory import aligned_empty

import veery_runtime as runtime
from veery_runtime import completion
from veery_runtime.buffer import Buffer, HostCopy, Spec

DTYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "complex<f32>", "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
}  # fmt: skip


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", DTYPES)
def test_values_survive_the_way_to_the_device_and_back(device, name, copy):
    array = np.array([[0, 1], [2, 3], [1, 0]]).astype(_dtype(name))
    assert np.array_equal(runtime.put(array, device, copy=copy).numpy(), array)
    aligned = aligned_empty((3, 2), array.dtype)
    aligned[...] = array
    buffer = runtime.put(aligned, device, copy=copy)
    assert buffer.dtype == array.dtype and buffer.shape == (3, 2) and buffer.nbytes == array.nbytes
    assert np.array_equal(buffer.numpy(), array)


@pytest.mark.parametrize("name", ["bool", "uint64", "bfloat16", "float64", "complex128", "float8_e4m3fn"])
def test_programs_read_and_return_every_kind_of_dtype(device, name):
    array = np.array([[0, 1], [2, 3], [1, 0]]).astype(_dtype(name))
    result = runtime.load(programs.copy_of(DTYPES[name], name), device)([runtime.put(array, device)])[0].numpy()
    assert result.dtype == array.dtype and np.array_equal(result, array.T)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1), (100_000,), (300, 301)])
def test_edge_shapes(device, shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    for copy in (True, False):
        buffer = runtime.put(array, device, copy=copy)
        assert buffer.shape == shape and np.array_equal(buffer.numpy(), array)


@pytest.mark.parametrize("size", [10, 100_000])
def test_strides_and_byte_order_do_not_matter(device, size):
    base = np.arange(2 * size, dtype=np.int32).reshape(2, size)
    for array in (base[:, ::-1], base.T, base[::2], base.astype(">i4"), np.asfortranarray(base)):
        assert np.array_equal(runtime.put(array, device).numpy(), array)
        assert np.array_equal(runtime.put(array, device, copy=False).numpy(), array)


def test_every_misalignment_gives_right_results(device):
    """IREE's own import does not check: a 32-byte aligned array crashes at the first AVX-512 load."""
    add = runtime.load(programs.matmul(64), device)
    eye = runtime.put(np.eye(64, dtype=np.float32), device)
    raw = aligned_empty((64 * 64 + 32,), np.dtype(np.float32))
    for offset in range(17):
        array = raw[offset : offset + 64 * 64].reshape(64, 64)
        array[...] = np.arange(64 * 64).reshape(64, 64)
        for copy in (True, False):
            assert np.array_equal(add([runtime.put(array, device, copy=copy), eye])[0].numpy(), array)


@pytest.mark.parametrize("size", [8, 100_000])
def test_a_copy_is_independent_and_sharing_is_shared(device, size):
    array = aligned_empty((size,), np.dtype(np.float32))
    array[:] = 1
    copied, shared = runtime.put(array, device), runtime.put(array, device, copy=False)
    assert np.shares_memory(shared.numpy(), array) and not np.shares_memory(copied.numpy(), array)
    array[:] = 2
    assert copied.numpy()[0] == 1


def test_shared_memory_outlives_the_array_and_the_buffer(device):
    array = aligned_empty((100_000,), np.dtype(np.float32))
    array[:] = 3
    array.flags.writeable = False
    buffer = runtime.put(array, device, copy=False)
    view = buffer.numpy()
    assert np.shares_memory(view, array)
    del array, buffer
    gc.collect()
    assert view.sum() == 300_000


def test_numpy_is_read_only_zero_copy_and_cached(device):
    (result,) = runtime.load(programs.add_one(), device)([runtime.put(np.zeros(8, np.float32), device)])
    array = result.numpy()
    assert not array.flags.writeable and result.numpy() is array
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    result.delete()
    gc.collect()
    assert array.tolist() == [1.0] * 8


def test_unsupported_dtypes_are_refused_by_name(device):
    for array in (np.array(["a"]), np.array([object()]), np.zeros(2, np.longdouble), np.zeros(2, "M8[s]")):
        with pytest.raises(TypeError, match="no device buffer can hold dtype"):
            runtime.put(array, device)


def test_deleted_buffers_say_so(device):
    add = runtime.load(programs.add_one(), device)
    for queue in ("inline", "threaded", "deferred"):
        add = runtime.load(programs.add_one(), device, queue=queue)
        buffer = runtime.put(np.zeros(8, np.float32), device)
        buffer.delete()
        assert buffer.is_deleted() and "deleted" in repr(buffer)
        for use in (buffer.numpy, buffer.wait, buffer.is_ready, buffer.__dlpack__, lambda b=buffer, f=add: f([b])):
            with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[8\]\."):
                use()
        buffer.delete()


def test_dlpack_shares_memory_and_outlives_the_buffer(device):
    (result,) = runtime.load(programs.add_one(), device)([runtime.put(np.zeros(8, np.float32), device)])
    assert result.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(result)
    assert np.shares_memory(array, result.numpy())
    del result
    gc.collect()
    assert array.tolist() == [1.0] * 8
    with pytest.raises(BufferError):
        runtime.put(np.zeros(8), device).__dlpack__(dl_device=(2, 0))


def test_live_and_peak_bytes_are_counted(device):
    gc.collect()
    before = device.memory_stats()
    large = [runtime.put(np.zeros(1 << 20, np.uint8), device) for _ in range(3)]
    small = runtime.put(np.zeros(100, np.uint8), device)
    during = device.memory_stats()
    assert during["bytes_in_use"] - before["bytes_in_use"] == (3 << 20) + 100
    assert during["num_allocs"] - before["num_allocs"] == 4
    large.pop()
    large[0].delete()
    del small
    after = device.memory_stats()
    assert after["bytes_in_use"] - before["bytes_in_use"] == 1 << 20
    assert after["peak_bytes_in_use"] >= during["bytes_in_use"]
    assert after["largest_alloc_size"] >= 1 << 20 and after.get("bytes_limit", 1 << 30) > after["bytes_in_use"]
    (last,) = [each for each in device.live_buffers() if any(each is one for one in large)]
    assert last is large[1] and last.unsafe_pointer() == last.numpy().ctypes.data


class _Slow:
    """A device with memory of its own, which lets a copy go when it is told to."""

    host_visible = False

    def __init__(self, device):
        self.device, self.go, self.copies = device, threading.Event(), 0

    def __getattr__(self, name):
        return getattr(self.device, name)

    def read(self, view, spec):
        self.copies += 1
        assert self.go.wait(60)
        return self.device.read(view, spec).copy()


def test_a_copy_to_the_host_begins_when_it_is_asked_for(device):
    slow = _Slow(device)
    (result,) = runtime.load(programs.add_one(), device)([runtime.put(np.zeros(8, np.float32), device)])
    ours = Buffer(result._ref, Spec((8,), np.dtype(np.float32), slow))
    for _ in range(2):
        ours.copy_to_host_async()
    while not slow.copies:
        time.sleep(0.001)
    assert type(ours._host) is HostCopy
    slow.go.set()
    assert ours.numpy().tolist() == [1.0] * 8 and ours.numpy() is ours.numpy() and slow.copies == 1
    ours.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        ours.copy_to_host_async()


def test_a_copy_of_failed_work_leaves_the_error_to_the_reader(device):
    failed = Buffer(None, Spec((8,), np.dtype(np.float32), _Slow(device)), completion.Failed(KeyError("cause")))
    failed.copy_to_host_async()
    with pytest.raises(KeyError, match="cause"):
        failed.numpy()


def test_contents_that_are_not_there_yet_are_not_waited_for(device):
    buffer = runtime.put(np.arange(3), device)
    assert buffer.numpy_if_ready().tolist() == [0, 1, 2]
    pending = runtime.put(np.arange(3), device)
    deferred = pending._pending = completion.Deferred("unfinished")
    assert pending.numpy_if_ready() is None
    deferred.resolve([], None)
    assert pending.numpy_if_ready().tolist() == [0, 1, 2]
    failed = runtime.put(np.arange(3), device)
    failed._pending = completion.Failed(ValueError("no result"))
    assert failed.numpy_if_ready() is None
    buffer.delete()
    assert buffer.numpy_if_ready() is None
