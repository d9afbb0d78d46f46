"""One program on several devices at once, each in a thread of its own, with exchanges of values between them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_runtime import effects, workers
from veery_runtime.buffer import SHARED, Buffer
from veery_runtime.completion import Deferred, Failed
from veery_runtime.errors import DeletedBufferError
from veery_runtime.executable import Executable
from veery_runtime.workers import Workers

_threads = Workers("veery-spmd")

# Launches that may not have ended. Each has a thread for each of its devices, so there are to be few.
_MOST_LAUNCHES = 4
_launches: deque[Deferred] = deque()
os.register_at_fork(after_in_child=_launches.clear)


class Group:
    """The devices of one launch. Each calls `exchange` the same number of times, in the same order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: list[Any] = [None] * size
        self._arrived = 0
        self._finished = 0
        self._round = 0
        self._published: list[Any] = []
        self.error: BaseException | None = None
        self._condition = threading.Condition()

    def exchange(self, rank: int, value: Any) -> list[Any]:
        """Gives this device's value to the others and returns the values of all.

        Raises:
          RuntimeError: another device failed, or ended its program without taking part.
        """
        with self._condition:
            self._slots[rank] = value
            self._arrived += 1
            here = self._round
            if self._arrived == self.size:
                self._published, self._slots = self._slots, [None] * self.size
                self._arrived = 0
                self._round += 1
                self._condition.notify_all()
            else:
                self._check_progress()
            while self._round == here:
                if self.error is not None:
                    raise RuntimeError("a collective was given up because another device failed") from self.error
                self._condition.wait(0.5)
            return self._published

    def finish(self, error: BaseException | None) -> bool:
        """This device's program has ended; returns whether it was the last."""
        with self._condition:
            self._finished += 1
            self.error = self.error or error
            self._check_progress()
            self._condition.notify_all()
            return self._finished == self.size

    def _check_progress(self) -> None:
        if self._finished and self._arrived and self.error is None:
            self.error = RuntimeError(
                "some devices wait in a collective that others never reach: collectives must not stand under a "
                "condition that differs between devices"
            )


class _Here(threading.local):
    group: Group | None = None
    rank: int = 0


_here = _Here()


def rank() -> int:
    """The position of the device whose program runs in this thread."""
    return _here.rank


def exchange(value: Any) -> list[Any]:
    """The values that the programs of all devices give, in the order of the devices.

    Raises:
      RuntimeError: called outside of a launch, or another device failed.
    """
    if _here.group is None:
        raise RuntimeError("a collective between devices ran outside of a launch on several devices")
    return _here.group.exchange(_here.rank, value)


def run(executables: Sequence[Executable], arguments: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
    """Runs one program on each device at the same time.

    Args:
      executables: the program, loaded on each device with queue="inline".
      arguments: the buffers for each.

    Returns:
      The results of each, perhaps still being computed; those of a program with effects are complete. They are ready
      together. If one program fails, they all raise that when they are waited for or read: its own exception where
      that is known, else a RuntimeError.

    Raises:
      RuntimeError: an argument was deleted.
    """
    given = [[_kept(buffer) for buffer in buffers] for buffers in arguments]
    has_effects = any(executable.has_effects for executable in executables)
    if has_effects:
        effects.happened()
    while len(_launches) >= _MOST_LAUNCHES and not workers.nested():
        _launches.popleft().wait_submitted()
    launch = _launch(executables, given)
    results = []
    first = 0
    for executable in executables:
        results.append([Buffer(first + i, spec, launch) for i, spec in enumerate(executable.outputs)])
        for buffer in results[-1]:
            buffer._host = SHARED  # perhaps with an argument, or with another result
        first += len(executable.outputs)
    for executable, outs in zip(executables, results):
        executable.device.in_flight.admit(launch, sum(buffer.nbytes for buffer in outs), has_effects)
    if has_effects:
        launch.wait()
    else:
        _launches.append(launch)
    return results


def _kept(buffer: Buffer) -> Buffer:
    """The same contents, also when the caller deletes or donates the buffer before they are read."""
    if buffer.is_ready() and buffer._pending is not None and not buffer._pending.failed():
        buffer.wait()
    if buffer._host is None:
        buffer._host = SHARED
    kept = Buffer(buffer._ref, buffer._spec, buffer._pending)
    kept._host, kept._tally = SHARED, None
    return kept


def _launch(executables: Sequence[Executable], arguments: Sequence[Sequence[Buffer]]) -> Deferred:
    """Starts the programs. The references of what it resolves to are those of all results, device by device."""
    group = Group(len(executables))
    results: list[list[Buffer]] = [[] for _ in executables]
    launch = Deferred(executables[0].name)

    def job(position: int) -> None:
        _here.group, _here.rank = group, position
        failure: BaseException | None = None
        try:
            for buffer in arguments[position]:
                buffer.wait()
            with workers.nesting():  # nothing is deferred: exchanges happen in the threads of the launch
                outs = executables[position](arguments[position])
            for buffer in outs:
                buffer.wait()
            results[position] = outs
        except BaseException as error:
            failure = error
        finally:
            _here.group = None
        if not group.finish(failure):
            return
        if group.error is None:
            launch.resolve([buffer._ref for outs in results for buffer in outs], None)
        else:  # the first that went wrong; others failed for its sake
            launch.resolve([None] * sum(len(e.outputs) for e in executables), Failed(group.error))

    for position in range(len(executables)):
        _threads.submit(lambda position=position: job(position))  # type: ignore[misc]
    return launch


class ShardedBuffer:
    """An array of which an axis is divided among devices: one buffer, without that axis, for each index."""

    __slots__ = ("shards", "axis", "_spec", "_host", "__weakref__")

    def __init__(self, shards: Sequence[Buffer], axis: int = 0) -> None:
        first = shards[0]
        self.shards = tuple(shards)
        self.axis = axis
        shape = (*first.shape[:axis], len(shards), *first.shape[axis:])
        self._spec = _ShardedSpec(shape, first.dtype, first.nbytes * len(shards))
        self._host: np.ndarray[Any, Any] | None = None

    shape = property(lambda self: self._spec.shape)
    dtype = property(lambda self: self._spec.dtype)
    nbytes = property(lambda self: self._spec.nbytes)
    device = property(lambda self: None)  # no single one

    def is_ready(self) -> bool:
        """True when all shards are there."""
        return all(shard.is_ready() for shard in self.shards)

    def slices(self) -> list[Buffer]:
        """For each index the slice of the whole, in which the axis has size 1; on the shards' memory."""
        shape = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        return [shard.reshaped(shape) for shard in self.shards]

    def wait(self) -> None:
        """Blocks until all shards are there; raises what went wrong with any."""
        for shard in self.shards:
            shard.wait()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The whole as a read-only NumPy array: a copy, made once."""
        if self.is_deleted():
            raise DeletedBufferError("Array has been deleted.")
        if self._host is None:
            self._host = np.stack([shard.numpy() for shard in self.shards], self.axis)
            self._host.flags.writeable = False
        return self._host

    def copy_to_host_async(self) -> None:
        """Begins to copy all shards to the host."""
        for shard in self.shards:
            shard.copy_to_host_async()

    def delete(self) -> None:
        """Frees all shards."""
        self._host = None
        for shard in self.shards:
            shard.delete()

    def is_deleted(self) -> bool:
        """True when a shard was deleted."""
        return any(shard.is_deleted() for shard in self.shards)


class _ShardedSpec:
    """What `Spec` is to a buffer on one device."""

    __slots__ = ("shape", "dtype", "nbytes", "device")

    def __init__(self, shape: tuple[int, ...], dtype: Any, nbytes: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.nbytes = nbytes
        self.device = None


__all__ = ["Group", "ShardedBuffer", "exchange", "rank", "run"]
