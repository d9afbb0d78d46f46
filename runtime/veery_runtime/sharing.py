"""Results that share memory with arguments, or with each other.

A program may return (a part of) an argument, or one value twice, without copying it. Donating one of the two arrays
would then change the other, so both are marked, and copied when they are donated. Which results do this is a property
of the program. It is seen in its first call, whose memory is kept until that call is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from veery_runtime import iree, workers
from veery_runtime.buffer import SHARED, Buffer, Spec
from veery_runtime.completion import DELETED, Deferred, Deleted, Failed

if TYPE_CHECKING:
    from veery_runtime.executable import Executable

Call = Callable[[Sequence[Buffer]], list[Buffer]]


class Probe:
    """The memory of one call's arguments and results, kept until both can be looked at.

    Attributes:
      found: the results that share memory, once they are known; until then None.
    """

    found: tuple[int, ...] | None = None

    def __init__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        self.inputs = [(buffer._ref, buffer._spec) for buffer in inputs]
        self.outputs = [(buffer._ref, buffer._spec) for buffer in outputs]
        self.pending = [b._pending for b in (*inputs, *outputs) if b._pending is not None]

    def done(self) -> bool:
        return all(pending.done() for pending in self.pending)

    def wait(self) -> None:
        for pending in self.pending:
            reported = pending.reported
            try:
                pending.wait()
            except Exception:  # it belongs to whoever reads the result
                pending.reported = reported

    def aliasing(self) -> tuple[int, ...] | None:
        """The results that share memory with an argument or another result; None when that cannot be seen."""
        if any(pending.failed() for pending in self.pending):
            return None
        inputs = [extent(*item) for item in self.inputs]
        outputs = [extent(*item) for item in self.outputs]
        found = []
        for i, (start, stop) in enumerate(outputs):
            others = inputs + outputs[:i] + outputs[i + 1 :]
            if any(start < other_stop and other_start < stop for other_start, other_stop in others):
                found.append(i)
        return tuple(found)


def extent(ref: Any, spec: Spec) -> tuple[int, int]:
    if spec.nbytes == 0:
        return (0, 0)
    start = np.frombuffer(ref.deref(iree.HalBufferView).map(), np.uint8).ctypes.data
    return (start, start + spec.nbytes)


class Undecided:
    """Stands in `_host` for memory that may be shared: the first call of its program shows that, once it is done."""

    __slots__ = ("executable", "probe", "result")

    def __init__(self, executable: Executable, probe: Probe, result: int | None) -> None:
        self.executable = executable
        self.probe = probe
        self.result = result  # its number; None for an argument

    def decide(self) -> Any:
        """What to put in the place of this, after waiting for that call: SHARED, or None."""
        if workers.nested():
            return SHARED
        self.probe.wait()
        found = _decided(self.executable, self.probe)
        if found is None:
            return SHARED
        return SHARED if (found if self.result is None else self.result in found) else None


def sharing_call(executable: Executable, call: Call) -> Call:
    """Marks results and arguments that share memory."""
    first = len(executable.constants)
    donated = {first + i for i in executable.donated}  # these are gone after the call
    kept = [i for i in range(first + len(executable.inputs)) if i not in donated]

    def share(buffers: Sequence[Buffer]) -> list[Buffer]:
        results = call(buffers)
        arguments = [buffers[i] for i in kept]
        aliasing = executable._aliasing
        probe = None
        if aliasing is None:
            aliasing, probe = _learn_aliases(executable, arguments, results)
        if aliasing:
            for buffer, i in (*((b, None) for b in arguments), *((results[i], i) for i in aliasing)):
                if buffer._pending is not DELETED and type(buffer._host) in (type(None), Undecided):
                    if probe is None or buffer._host is not None:
                        buffer._host = SHARED
                    else:
                        buffer._host = Undecided(executable, probe, i)
        return results

    return share


def _learn_aliases(
    executable: Executable, arguments: list[Buffer], results: list[Buffer]
) -> tuple[tuple[int, ...], Probe | None]:
    """The results to be marked after this call (all, while nothing is known) and the call that will tell more."""
    everything = tuple(range(len(results)))
    probe = executable._probe
    if probe is None:
        unsettled = any(isinstance(b._pending, (Deferred, Failed, Deleted)) for b in (*arguments, *results))
        if unsettled or not executable.device.host_visible:
            return everything, None
        probe = executable._probe = Probe(arguments, results)
    found = _decided(executable, probe) if probe.done() else None
    return (everything, probe) if found is None else (found, None)


def _decided(executable: Executable, probe: Probe) -> tuple[int, ...] | None:
    """The results of a program that share memory, as its probed call, which is done, shows."""
    if probe.found is None:
        probe.found = probe.aliasing()
        if executable._probe is probe:
            executable._probe = None
            if probe.found is not None:
                executable._aliasing = probe.found
                executable.call = executable._choose_call()
        probe.inputs = probe.outputs = []
    return probe.found
