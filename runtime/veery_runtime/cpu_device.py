"""The host's processor as a device."""

from __future__ import annotations

import os
from typing import Any

from veery_runtime import completion, iree
from veery_runtime.device import Device

# Results of the inline queue come from malloc, whose fresh pages cost 8 times the work of a 64 MB x + x; this keeps at
# most 128 MB in 64 free blocks for reuse (78 ms -> 10 ms).
_INLINE_ALLOCATOR = "caching:*=*;128mib;64"
# Results of the threaded queue likewise, in use or free; the rest is given back as it is freed.
_THREADED_ALLOCATOR = "caching:*=*;{}mib;512"
_KEPT_PART = 8  # of the machine's memory


class CpuDevice(Device):
    """The host's processor, with a queue in the caller's thread for small work and one on worker threads for large."""

    platform = "cpu"
    target = "cpu"
    memory_kinds = ("device", "pinned_host", "unpinned_host")  # all of them the same

    def __init__(self, id: int) -> None:
        super().__init__(id, "cpu")
        self._task: iree.HalDevice | None = None
        self._sync: iree.HalDevice | None = None

    @property
    def hal(self) -> iree.HalDevice:
        task = self._task
        if task is None or self._generation != completion.generation:
            task = self._open_task()
        return task

    def _open_task(self) -> iree.HalDevice:
        with self._lock:
            if self._generation != completion.generation:
                # After a fork the worker threads are gone: a driver of our own brings new ones.
                self._task = _open_threaded(iree.new_local_driver())
                self._generation = completion.generation
            elif self._task is None:
                driver = iree.new_local_driver() if completion.generation else iree.get_driver("local-task")
                self._task = _open_threaded(driver)
            return self._task

    def memory_limit(self) -> int | None:
        return _host_memory()

    @property
    def inline(self) -> iree.HalDevice:
        sync = self._sync
        if sync is None:
            with self._lock:
                if self._sync is None:
                    driver = iree.get_driver("local-sync")
                    self._sync = iree.immortal(driver.create_default_device(allocators=[_INLINE_ALLOCATOR]))
                sync = self._sync
        return sync


def _open_threaded(driver: Any) -> iree.HalDevice:
    kept = max(1 << 28, (_host_memory() or 0) // _KEPT_PART)
    return iree.immortal(driver.create_default_device(allocators=[_THREADED_ALLOCATOR.format(kept >> 20)]))


def _host_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None
