"""Results of calls on XLA's device: what is freed when, whatever is done with them, in any order and by any thread."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery_runtime.pjrt.result import Maker, maker_of, result_type


class Counted:
    """The plugin's buffers by address, as they were made and as they were freed: lists, to which all threads append."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.freed: list[int] = []

    def __getitem__(self, address: int) -> int:
        return self.freed.count(address)

    def assert_all_freed(self, but: Any = ()) -> None:
        """That all were freed once, but those of some arrays."""
        gc.collect()
        made, freed = Counter(self.made), Counter(self.freed)
        assert made - freed == Counter(int(x._buffer._ref) for x in but)
        assert not freed - made


@pytest.fixture
def freed(xla: Any, monkeypatch: Any) -> Iterator[Counted]:
    gc.freeze()  # what was there before is not looked at, which takes seconds after thousands of tests
    counted = Counted()
    client, kind = xla.client, result_type(xla.client)

    def count(result: Any) -> None:
        counted.freed.append(result._twin if result._ref is None else result._ref)
        kind.__del__(result)  # type: ignore[attr-defined]

    counting = type("Result", (kind,), {"__slots__": (), "__del__": count})
    free = client.destroy_buffer
    monkeypatch.setattr(client, "destroy_buffer", lambda address: (counted.freed.append(int(address)), free(address)))
    one, many = maker_of(counting)
    made = counted.made.extend
    counting_maker = Maker(
        lambda address, *args: (made([address]), one(address, *args))[1],
        lambda addresses, *args: (made(addresses), many(addresses, *args))[1],
    )
    monkeypatch.setattr(client, "maker", counting_maker)
    upload = client.upload

    def counting_upload(*args: Any, **kwargs: Any) -> Any:
        handle = upload(*args, **kwargs)
        made([int(handle)])
        return handle

    monkeypatch.setattr(client, "upload", counting_upload)
    yield counted
    gc.collect()


def _twice(xla: Any) -> Any:
    """A function with two results, which no other test has compiled."""
    return veery.jit(lambda x: (x + 1, x * 2), device=xla)


USES = {
    "nothing": lambda x: None,
    "waiting": lambda x: x.block_until_ready(),
    "asking": lambda x: x.is_ready(),
    "reading": lambda x: np.asarray(x).sum(),
    "reading bfloat16": lambda x: np.asarray(x.astype(jnp.bfloat16)),
    "a view of NumPy's that stays": lambda x: np.asarray(x),
    "DLPack": lambda x: np.from_dlpack(x),
    "reshaping": lambda x: x.reshape(2, 4),
    "a copy on the host, begun": lambda x: x.copy_to_host_async(),
    "an argument": lambda x: veery.jit(lambda y: y + 1)(x),
    "deletion": lambda x: x.delete(),
    "reading, then deletion": lambda x: (np.asarray(x), x.delete()),
    "deletion, then a question": lambda x: (x.delete(), x.is_deleted(), pytest.raises(RuntimeError, x.is_ready)),
    "donation": lambda x: veery.jit(lambda y: y + 1, donate_argnums=0)(x),
    "another device": lambda x: veery.device_put(x, veery.devices("cpu")[0]),
}


@pytest.mark.parametrize("use", USES)
def test_each_result_is_freed_once(xla: Any, freed: Counted, use: str) -> None:
    x = veery.device_put(np.arange(8, dtype=np.float32), xla)
    f = _twice(xla)
    results = [f(x) for _ in range(5)]
    addresses = [int(y._buffer._ref) for pair in results for y in pair]
    kept = [USES[use](y) for pair in results for y in pair]
    if use not in ("deletion", "reading, then deletion", "deletion, then a question", "donation"):
        assert not any(freed[address] for address in addresses)
        np.testing.assert_array_equal(np.asarray(results[0][1]), np.arange(8) * 2)
    assert len(freed.made) >= 11
    del results, kept
    freed.assert_all_freed(but=[x])


def test_views_outlive_what_they_view(xla: Any, freed: Counted) -> None:
    x = veery.device_put(np.arange(1000, dtype=np.float32), xla)
    y = _twice(xla)(x)[0]
    address = int(y._buffer._ref)
    seen = np.asarray(y)
    gone = weakref.ref(y._buffer)
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        y.block_until_ready()
    del y
    assert gone() is None and not freed[address]
    np.testing.assert_array_equal(seen, np.arange(1000) + 1)
    del seen
    gc.collect()
    assert freed[address] == 1


def test_deleted_memory_is_given_back_though_the_array_is_still_there(xla: Any) -> None:
    fill = veery.jit(lambda i: (jnp.full((1 << 20,), i), i), device=xla)
    x = veery.device_put(np.float32(1), xla)
    kept, most = [], 0
    for _ in range(200):
        y = fill(x)[0].block_until_ready()
        y.delete()
        kept.append(y)
        most = max(most, _resident())
        if len(kept) == 20:
            first = _resident()
    assert most - first < 200 << 20, "200 deleted arrays of 4 MiB each"


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_cycles_of_results_are_collected(xla: Any, freed: Counted) -> None:
    x = veery.device_put(np.arange(8, dtype=np.float32), xla)
    for _ in range(10):
        ring: list[Any] = [*_twice(xla)(x)]
        ring.append(ring)
        del ring
    assert len(freed.made) == 21
    freed.assert_all_freed(but=[x])


def test_threads_that_wait_read_delete_and_pass_on_the_same_result(xla: Any, freed: Counted) -> None:
    """All end with a value or with the error of a deleted array; each result is freed once."""
    x = veery.device_put(np.arange(64, dtype=np.float32), xla)
    f, g = _twice(xla), veery.jit(lambda y: y + 1, device=xla)
    expected, wrong = np.arange(64) + 1, []
    barrier = threading.Barrier(5)
    current: list[Any] = []

    def run(use: Any) -> None:
        for _ in range(150):
            barrier.wait()
            y = current[0]
            try:
                seen = use(y)
                if seen is not None and not (seen == expected).all():
                    wrong.append(seen)
            except RuntimeError as error:
                if "deleted" not in str(error):
                    wrong.append(error)
            except BaseException as error:
                wrong.append(error)
            del y
            barrier.wait()

    wait = lambda y: np.asarray(y.block_until_ready())
    uses = [np.asarray, wait, lambda y: y.delete(), lambda y: np.asarray(g(y)) - 1]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=run, args=(use,)) for use in uses]
    try:
        for thread in threads:
            thread.start()
        for _ in range(150):
            current[:] = [f(x)[0]]
            barrier.wait()
            barrier.wait()
    finally:
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    current.clear()
    assert not wrong and len(freed.made) >= 300
    freed.assert_all_freed(but=[x])


def test_failures_are_told_by_each_result_whoever_asks_first(xla: Any) -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no")

    @veery.jit
    def f(x: Any) -> Any:
        y = veery.pure_callback(fails, veery.ShapeDtypeStruct((8,), np.float32), x)
        return y, y + 1

    x = veery.device_put(np.arange(8, dtype=np.float32), xla)
    with pytest.raises(Exception, match="no"):
        for y in f(x):
            y.block_until_ready()
