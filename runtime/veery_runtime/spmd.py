"""One program on several devices at once, each in a thread of its own, with exchanges of values between them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_runtime import effects, workers
from veery_runtime.buffer import SHARED, Buffer, put
from veery_runtime.completion import Deferred, Failed
from veery_runtime.errors import DeletedBufferError
from veery_runtime.executable import Executable
from veery_runtime.workers import Workers

_threads = Workers("veery-spmd")

# Launches that may not have ended. Each has a thread for each of its devices, so there are to be few.
_MOST_LAUNCHES = 4
_launches: deque[Deferred] = deque()
os.register_at_fork(after_in_child=_launches.clear)


class _Meeting:
    """One exchange among some devices, which have not all arrived yet."""

    def __init__(self, members: tuple[int, ...]) -> None:
        self.members = members
        self.values: dict[int, Any] = {}
        self.published: list[Any] | None = None


class Group:
    """The devices of one launch.

    Those that exchange values with each other do so in the same order. Others need not wait for them: the rows of a
    mesh may go different ways.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._meetings: dict[tuple[int, ...], _Meeting] = {}
        self._finished: set[int] = set()
        self.error: BaseException | None = None
        self._condition = threading.Condition()

    def exchange(self, rank: int, value: Any, members: tuple[int, ...]) -> list[Any]:
        """Gives this device's value to the other members and returns the values of all, in their order.

        Raises:
          RuntimeError: another device failed, or ended its program without taking part.
        """
        with self._condition:
            meeting = self._meetings.setdefault(members, _Meeting(members))
            meeting.values[rank] = value
            if len(meeting.values) == len(members):
                meeting.published = [meeting.values[i] for i in members]
                del self._meetings[members]
                self._condition.notify_all()
            else:
                self._check_progress()
            while meeting.published is None:
                if self.error is not None:
                    raise RuntimeError("a collective was given up because another device failed") from self.error
                self._condition.wait(0.5)
            return meeting.published

    def finish(self, rank: int, error: BaseException | None) -> bool:
        """This device's program has ended; returns whether it was the last."""
        with self._condition:
            self._finished.add(rank)
            self.error = self.error or error
            self._check_progress()
            self._condition.notify_all()
            return len(self._finished) == self.size

    def _check_progress(self) -> None:
        if self.error is None and any(self._finished.intersection(each) for each in self._meetings):
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


def exchange(value: Any, members: tuple[int, ...]) -> list[Any]:
    """The values that the programs of some devices give, this one among them, in the order of `members`.

    Raises:
      RuntimeError: called outside of a launch, or another device failed.
    """
    if _here.group is None:
        raise RuntimeError("a collective between devices ran outside of a launch on several devices")
    return _here.group.exchange(_here.rank, value, members)


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
    given = [[kept(buffer) for buffer in buffers] for buffers in arguments]
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


def kept(buffer: Buffer) -> Buffer:
    """The same contents, also when the caller deletes or donates the buffer before they are read."""
    if buffer.is_ready() and (state := buffer.state()) is not None and not state.failed():
        buffer.wait()
    if buffer._host is None:
        buffer._host = SHARED
    kept = Buffer(buffer.held(), buffer._spec, buffer.state())
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
        if not group.finish(position, failure):
            return
        if group.error is None:
            launch.resolve([buffer.held() for outs in results for buffer in outs], None)
        else:  # the first that went wrong; others failed for its sake
            launch.resolve([None] * sum(len(e.outputs) for e in executables), Failed(group.error))

    for position in range(len(executables)):
        _threads.submit(lambda position=position: job(position))  # type: ignore[misc]
    return launch


class DistributedBuffer:
    """An array that is on several devices; it looks like a `Buffer`, whose `device` is None.

    Attributes:
      layout: what the owner of the array says of its layout; of no concern here.
    """

    __slots__ = ("layout", "_spec", "_host", "__weakref__")
    _spec: _DistributedSpec
    _host: np.ndarray[Any, Any] | None

    shape = property(lambda self: self._spec.shape)
    dtype = property(lambda self: self._spec.dtype)
    nbytes = property(lambda self: self._spec.nbytes)
    device = property(lambda self: None)  # no single one

    def _held(self) -> Sequence[Buffer]:
        """The buffers that have the contents."""
        raise NotImplementedError

    def _assembled(self) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def pieces(self) -> Sequence[Buffer]:
        """For each device, in order, its part of the array, with all dimensions."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """True when all shards are there."""
        return all(buffer.is_ready() for buffer in self._held())

    def wait(self) -> None:
        """Blocks until all shards are there; raises what went wrong with any."""
        for buffer in self._held():
            buffer.wait()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The whole as a read-only NumPy array: a copy, made once."""
        if self.is_deleted():
            shape = ",".join(map(str, self.shape))
            raise DeletedBufferError(f"Array has been deleted with shape={self.dtype.name}[{shape}].")
        if self._host is None:
            self._host = self._assembled()
            self._host.flags.writeable = False
        return self._host

    def whole_on(self, device: Any) -> Buffer:
        """The whole on one device."""
        return put(self.numpy(), device)

    def copy_to_host_async(self) -> None:
        """Begins to copy all shards to the host."""
        for buffer in self._held():
            buffer.copy_to_host_async()

    def unsafe_pointer(self) -> int:
        """The address of the contents; refused where they are on several devices."""
        if len(self.pieces()) == 1:
            return self.pieces()[0].unsafe_pointer()
        raise RuntimeError("UnsafeBufferPointer() is supported only for unsharded arrays.")

    def __dlpack_device__(self) -> tuple[int, int]:
        if len(self.pieces()) == 1:
            return self.pieces()[0].__dlpack_device__()
        raise BufferError("an array that is on several devices has no single DLPack device")

    def __dlpack__(self, **options: Any) -> Any:
        if len(self.pieces()) == 1:
            return self.pieces()[0].__dlpack__(**options)
        raise BufferError(
            "to_dlpack can only pack a dlpack tensor from an array on a singular device, but an array with a Sharding "
            f"over {len(self.pieces())} devices was provided."
        )

    def delete(self) -> None:
        """Frees all shards."""
        self._host = None
        for buffer in self._held():
            buffer.delete()

    def is_deleted(self) -> bool:
        """True when a shard was deleted."""
        return any(buffer.is_deleted() for buffer in self._held())


class StackedBuffer(DistributedBuffer):
    """An array of which an axis is divided among devices: one buffer, without that axis, for each index."""

    __slots__ = ("shards", "axis")

    def __init__(self, shards: Sequence[Buffer], axis: int, layout: Any) -> None:
        first = shards[0]
        self.shards = tuple(shards)
        self.axis = axis
        self.layout = layout
        shape = (*first.shape[:axis], len(shards), *first.shape[axis:])
        self._spec = _DistributedSpec(shape, first.dtype, first.nbytes * len(shards))
        self._host = None

    def _held(self) -> Sequence[Buffer]:
        return self.shards

    def _assembled(self) -> np.ndarray[Any, Any]:
        return np.stack([shard.numpy() for shard in self.shards], self.axis)

    def pieces(self) -> Sequence[Buffer]:
        """For each index the slice of the whole, in which the axis has size 1; on the shards' memory."""
        shape = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        return [shard.reshaped(shape) for shard in self.shards]


class ShardedBuffer(DistributedBuffer):
    """An array of which each device has a part, given by slices.

    What was computed on one device stays there in one piece until the parts are asked for.

    Args:
      shape: the shape of the whole.
      devices: the devices.
      indices: for each of them its part, a slice for each dimension.
      layout: kept for the owner.
      shards: the parts; or
      whole: the whole, on one of the devices.
    """

    __slots__ = ("devices", "indices", "_shards", "_whole")

    def __init__(
        self,
        shape: tuple[int, ...],
        devices: Sequence[Any],
        indices: Sequence[tuple[slice, ...]],
        layout: Any,
        *,
        shards: Sequence[Buffer] | None = None,
        whole: Buffer | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self.indices = tuple(indices)
        self.layout = layout
        self._shards = None if shards is None else tuple(shards)
        self._whole = whole
        self._host = None
        first = whole or shards[0]  # type: ignore[index]
        nbytes = sum(shard.nbytes for shard in shards) if shards is not None else first.nbytes
        self._spec = _DistributedSpec(tuple(shape), first.dtype, nbytes)

    def _held(self) -> Sequence[Buffer]:
        return (() if self._whole is None else (self._whole,)) + (self._shards or ())

    def pieces(self) -> Sequence[Buffer]:
        """For each device, in order, its part of the array."""
        if self._shards is None:
            value = self.numpy()
            self._shards = tuple(
                put(np.asarray(value[index], order="C"), device) for device, index in zip(self.devices, self.indices)
            )
        return self._shards

    def _assembled(self) -> np.ndarray[Any, Any]:
        if self._whole is not None:
            return self._whole.numpy()
        shards = self.pieces()
        if shards[0].shape == self.shape:
            return shards[0].numpy()
        value = np.empty(self.shape, self.dtype)
        for index, shard in dict(zip(map(_hashable, self.indices), zip(self.indices, shards))).values():
            value[index] = shard.numpy()
        return value

    def whole_on(self, device: Any) -> Buffer:
        """The whole on one device."""
        for buffer in self._held():
            if buffer.device is device and buffer.shape == self.shape:
                return buffer
        return put(self.numpy(), device)


def _hashable(index: tuple[slice, ...]) -> tuple[Any, ...]:
    return tuple((part.start, part.stop) for part in index)


class _DistributedSpec:
    """What `Spec` is to a buffer on one device."""

    __slots__ = ("shape", "dtype", "nbytes", "device")

    def __init__(self, shape: tuple[int, ...], dtype: Any, nbytes: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.nbytes = nbytes
        self.device = None


__all__ = ["DistributedBuffer", "Group", "ShardedBuffer", "StackedBuffer", "exchange", "kept", "rank", "run"]
