"""Results of calls: buffers that have a plugin's buffer to themselves, until somebody else needs it.

A result is made at each call, and most are only passed on to the next one: a Buffer with a Handle of its own behind it
takes 0.62 us to make and to free, one that is both 0.33.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from veery_runtime.buffer import COUNTED_NBYTES, Buffer, Spec, Tally
from veery_runtime.completion import DELETED
from veery_runtime.pjrt import abi
from veery_runtime.pjrt.handle import Handle, Work

if TYPE_CHECKING:
    from veery_runtime.pjrt.client import Client


class Maker(NamedTuple):
    """Makes a result, or all of a call: of the addresses that it has given, their kinds, and what computes them."""

    one: Callable[[int, Spec, Work], Buffer]
    many: Callable[[Sequence[int], Sequence[Spec], Work], list[Buffer]]


_new = object.__new__
_lock = threading.RLock()  # re-entrant: a collection may free a result inside of it


class Result(Buffer):
    """A result of a call. `_ref` is the address of the plugin's buffer, `_pending` the work that computes it.

    Once somebody else needs either, `_parted` makes a plain Buffer of it, which has a Handle.
    """

    __slots__ = ()

    # While one of these runs, another thread may make a plain Buffer of the object: methods of its own may be gone.

    def wait(self) -> None:
        """See Buffer."""
        work: Any = self._pending
        if work is None:
            return
        if type(work) is not Work:
            Buffer.wait(self)
            return
        if not work.is_done:
            try:
                work.wait(self)
            except TypeError:  # deleted meanwhile
                self._check_alive()
                raise
        if self._pending is work:
            self._pending = None

    def is_ready(self) -> bool:
        """See Buffer."""
        return _parted(self).is_ready()

    def numpy(self) -> np.ndarray[Any, Any]:
        """See Buffer."""
        return _parted(self).numpy()

    def numpy_if_ready(self) -> np.ndarray[Any, Any] | None:
        """See Buffer."""
        return _parted(self).numpy_if_ready()

    def copy_to_host_async(self) -> None:
        """See Buffer."""
        _parted(self).copy_to_host_async()

    def state(self) -> Any:
        """See Buffer."""
        return _parted(self).state()

    def held(self) -> Any:
        """See Buffer."""
        return _parted(self).held()

    def _reference(self) -> Any:
        return _parted(self)._reference()

    def delete(self) -> None:
        """See Buffer."""
        with _lock:
            Buffer.delete(self)


def _parted(result: Buffer) -> Buffer:
    """A result as a buffer like others: the same object."""
    with _lock:
        if isinstance(result, Result):  # else: another thread was faster
            finished, work = result._spec.device.client.finished, result._pending
            if result._ref is None:
                result._twin = Handle(result._twin, finished)
            elif work is None:
                result._ref = Handle(result._ref, finished)
            else:
                result._ref = result._pending = Handle(result._ref, work)  # type: ignore[arg-type]
            result.__class__ = Buffer  # type: ignore[assignment]
    return result


def mark_deleted(buffers: Sequence[Buffer]) -> None:
    """Deletes buffers whose contents the plugin has taken over."""
    with _lock:
        for buffer in buffers:
            if isinstance(buffer, Result) and buffer._ref is not None:
                buffer._pending, buffer._twin = DELETED, buffer._ref
                buffer._ref = buffer._host = buffer._tally = None
            else:
                buffer.delete()


def result_type(client: Client) -> type[Result]:
    """The class of a client's results: what frees them is a constant of it."""
    if client.host_visible:
        words, at = client.new_struct()
        destroy, of = client.api.keeping_lock("Buffer_Destroy", answers=False), abi.OF

        def free(self: Result) -> None:
            address = self._ref
            words[of] = self._twin if address is None else address
            destroy(at)
    else:
        destroy_buffer = client.destroy_buffer

        def free(self: Result) -> None:
            address = self._ref
            destroy_buffer(self._twin if address is None else address)

    return type("Result", (Result,), {"__slots__": (), "__del__": free, "__doc__": Result.__doc__})


def maker_of(kind: type[Result]) -> Maker:
    """What makes a client's results, without a call of `__init__` for each, which would take 0.06 us."""

    def one(address: int, spec: Spec, work: Work) -> Any:
        result: Any = _new(kind)
        result._ref, result._spec, result._pending = address, spec, work
        result._host = result._twin = None
        result._tally = None if spec.nbytes < COUNTED_NBYTES else Tally(spec.device.ledger, spec.nbytes)
        return result

    def many(addresses: Sequence[int], specs: Sequence[Spec], work: Work) -> list[Buffer]:
        results: list[Buffer] = []
        for address, spec in zip(addresses, specs):
            result: Any = _new(kind)
            result._ref, result._spec, result._pending = address, spec, work
            result._host = result._twin = None
            result._tally = None if spec.nbytes < COUNTED_NBYTES else Tally(spec.device.ledger, spec.nbytes)
            results.append(result)
        return results

    return Maker(one, many)
