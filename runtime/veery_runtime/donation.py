"""Calls that take over some of their arguments, and calls with constants of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from veery_runtime import workers
from veery_runtime.buffer import Buffer, Tally, put
from veery_runtime.errors import execution_error
from veery_runtime.sharing import Undecided

if TYPE_CHECKING:
    from veery_runtime.executable import Executable

Call = Callable[[Sequence[Buffer]], list[Buffer]]


def check_distinct(name: str, donated: Sequence[int], buffers: Sequence[Buffer]) -> None:
    """That no donated argument of a call is another argument, too.

    Raises:
        ExecutionError: one is.
    """
    if len({*map(id, buffers)}) == len(buffers):
        return
    for index in donated:
        if any(other is buffers[index] for i, other in enumerate(buffers) if i != index):
            raise execution_error(f"INVALID_ARGUMENT: {name}: the same array is donated and passed as another argument")


def donating_call(executable: Executable, call: Call) -> Call:
    """Marks donated arguments as deleted after the call; memory that others can see is copied instead of given."""
    donated = executable.donated

    def donate(buffers: Sequence[Buffer]) -> list[Buffer]:
        given = list(buffers)
        check_distinct(executable.name, donated, given)
        last = executable.device.in_flight.last()
        for index in donated:
            buffer = given[index]
            if buffer._host is None and (last is None or last is buffer._pending):
                continue  # nothing was submitted behind what makes it
            if type(buffer._host) is Undecided:
                buffer._host = buffer._host.decide()
            if buffer._host is not None or _is_read(buffer):
                given[index] = put(buffer.numpy(), buffer.device)
        counted = [given[i] for i in executable.overwritten if given[i]._tally is not None]
        for buffer in counted:
            buffer._tally = None  # its memory is counted as that of a result
        try:
            results = call(given)
        except BaseException:
            for buffer in counted:
                buffer._tally = Tally(buffer.device.ledger, buffer.nbytes)
            raise
        for index in donated:
            buffers[index].delete()
        return results

    return donate


def _is_read(buffer: Buffer) -> bool:
    """Whether an earlier call, submitted and unfinished, reads the buffer: calls wait for what makes their arguments,
    not for those that read them. A wait ends that, but not on a thread that such a call may be waiting for."""
    readers = buffer.device.in_flight.reading(buffer)
    if workers.nested():
        return bool(readers)
    for reader in readers:
        reported = reader.reported
        try:
            reader.wait()
        except Exception:  # it belongs to whoever reads the result
            reader.reported = reported
    return False


def binding_call(constants: tuple[Buffer, ...], call: Call) -> Call:
    """Passes the program's own constants before the caller's arguments."""
    return lambda buffers: call([*constants, *buffers])
