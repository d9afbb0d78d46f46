"""Loaded programs, and the general call: arguments may be unfinished, failed or deleted.

What a call needs beside that is put around it when the program is loaded, so that a plain one pays for nothing: see
`inline`, `donation` and `sharing`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from veery_runtime import effects, iree, workers
from veery_runtime.buffer import Buffer, put
from veery_runtime.completion import DELETED, Completion, Deferred, Failed, Pending
from veery_runtime.device import Device
from veery_runtime.donation import binding_call, donating_call
from veery_runtime.errors import tells_of_loss
from veery_runtime.hostcall import has_effects, reads_only
from veery_runtime.inline import inline_call
from veery_runtime.loading import choose_queue, has_small_steps, is_measured, is_timed, load_module, scratch_of
from veery_runtime.measured import MeasuredCall
from veery_runtime.patience import patience
from veery_runtime.sharing import Probe, sharing_call
from veery_runtime.timed import TimedCall

# A call takes its memory when it is submitted. One that takes more than this is submitted only when its arguments are
# finished. Otherwise a loop that runs ahead of the device holds the memory of many steps: 150 steps with a state of
# 12 MB took 920 MB.
_LARGE_CALL = 1 << 22

Call = Callable[[Sequence[Buffer]], list[Buffer]]
Loaded = dict[bool, tuple[iree.HalDevice, iree.VmContext, iree.VmFunction]]


_loading = threading.Lock()


def _renew_lock() -> None:
    global _loading
    _loading = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class Executable:
    """A program on a device. Calling it with buffers returns its results' buffers at once, finished or not.

    Attributes:
      name: the program's name, for messages.
      device: where it runs.
      donated: the inputs that a call may take over; overwritten: those among them that results are written into.
      inputs, outputs: what the buffers hold. Calls trust their arguments: number, shapes and dtypes are not checked.
      queue: "inline" (small work runs in the caller's thread when its inputs are there), "threaded" (the device's own
        queue) or "deferred" (submitted from a worker thread, since submission itself would block).
      has_effects: whether it calls Python functions that are not pure.
      is_synchronous: whether it has ended when its submission has.
      needs_ready: whether its arguments must be finished when it is submitted. IREE 3.13 looks at the memory of
        arguments where it records commands anew in each call ("transient buffer has not been committed"): in programs
        with loops or branches, with shapes that have variables, and with arguments that IREE itself decided to
        overwrite. Calls that take much memory wait for their arguments too.
      call: the function behind `__call__`; calling it directly saves 0.1 us.
    """

    __slots__ = (
        "name", "device", "inputs", "outputs", "constants", "donated", "overwritten", "queue", "call",
        "has_effects", "is_synchronous", "needs_ready", "_scratch", "_program", "_where", "_result_nbytes", "_aliasing",
        "_loaded", "_probe", "_timed", "_measured", "_waits", "__weakref__",
    )  # fmt: skip

    def __init__(self, program: Any, device: Device, queue: str | None = None, loaded: Loaded | None = None) -> None:
        self.name: str = program.name
        place = program.metadata.get("source")
        self._where = f"{self.name} ({place})" if place else self.name
        self.device = device
        constants = getattr(program, "constants", ())
        self.constants = tuple(c if isinstance(c, Buffer) else put(c, device) for c in constants)
        inputs = program.inputs[len(constants) :]
        self.inputs = tuple(device.spec(tuple(shape), iree.dtype_from_name(name)) for shape, name in inputs)
        self.outputs = tuple(device.spec(tuple(shape), iree.dtype_from_name(name)) for shape, name in program.outputs)
        self.donated = tuple(i for i, given in enumerate(program.donated[len(constants) :]) if given)
        overwritten = map(int, program.metadata.get("overwritten", "").split())
        self.overwritten = tuple(i - len(constants) for i in overwritten)
        self._timed = queue is None and is_timed(program, device)
        self._measured = queue is None and is_measured(program, device)
        self.queue = queue = queue or choose_queue(program, device)
        self._program = program
        self.has_effects = has_effects(program.host_calls)
        self.is_synchronous = bool(program.host_calls)  # as in veery_lowering.emit.module
        # Functions of a user's may start threads and processes, which would inherit the policy of this one.
        waits = queue == "deferred" or self.is_synchronous
        self._waits = waits and all(reads_only(call.function) for call in program.host_calls)
        is_recorded = not self.overwritten or program.metadata.get("recorded") == "once"
        self.needs_ready = program.metadata.get("control_flow") == "host" or not is_recorded
        self._result_nbytes = sum(spec.nbytes for spec in self.outputs)
        self._result_nbytes -= sum(self.inputs[i].nbytes for i in self.overwritten)
        self._probe: Probe | None = None
        # Which results share memory. A loop on the device's values may return one value or another, so that each call
        # is looked at; other programs share the same way in each call, so that the first one is enough.
        everything = tuple(range(len(self.outputs)))
        self._aliasing: tuple[int, ...] | None = None if everything and not program.blocking else everything
        if not program.vmfb:  # their results share none
            self._aliasing = ()
        self._loaded: Loaded = {} if loaded is None else loaded
        self._scratch = 0
        if queue != "inline" and program.vmfb:
            *_, function = self._load(inline=False)  # now, for what IREE finds wrong with a program it says on loading
            self._scratch = scratch_of(function)
            if device.inline is not None and self._scratch + self._result_nbytes >= _LARGE_CALL:
                self.needs_ready = True
        if self.has_effects or not self.outputs or self._result_nbytes >= _LARGE_CALL:
            self._timed = self._measured = False
        self.call: Call = self._choose_call()

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Runs the program.

        Args:
          buffers: one per input, of the input's shape and dtype, on this device.

        Returns:
          One buffer per output. Errors of the work surface where a buffer is waited for or read.

        Raises:
          RuntimeError: an argument was deleted, or the program could not be submitted (out of memory...).
        """
        return self.call(buffers)

    def at(self, shapes: Sequence[tuple[int, ...]]) -> Executable:
        """The program for arguments of these shapes: itself."""
        return self

    def __repr__(self) -> str:
        return f"Executable({self.name!r}, {self.device!r}, queue={self.queue!r})"

    def _choose_call(self) -> Call:
        # Calls with effects take turns on their device, which the hot path does not look after.
        call: Call = self.inline_call() if self.queue == "inline" and not self.has_effects else self.call_queued
        if self._timed:
            call = TimedCall(self)
        if self._measured:
            call = MeasuredCall(self)
        if self._aliasing is None or self._aliasing:
            call = sharing_call(self, call)
        if self.constants:
            call = binding_call(self.constants, call)
        if self.donated:
            call = donating_call(self, call)
        return call

    def inline_call(self) -> Call:
        """The function that makes calls in the caller's thread."""
        return inline_call(self)

    def _load(self, inline: bool) -> tuple[iree.HalDevice, iree.VmContext, iree.VmFunction]:
        """One of the device's queues and the program in a context on it, made on first use (0.1 ms)."""
        hal = self.device.inline if inline else self.device.hal
        assert hal is not None
        found = self._loaded.get(inline)
        if found is None or found[0] is not hal:  # queues are opened anew after forks and losses
            with _loading:
                try:
                    found = self._loaded[inline] = (hal, *load_module(self._program, hal, self.device))
                except Exception as error:
                    if not tells_of_loss(error):
                        raise
                    raise self.device.failure(self._where, error, hal) from None
        return found

    def _load_unlost(self, inline: bool, loss: Any) -> tuple[iree.HalDevice, iree.VmContext, iree.VmFunction]:
        """As `_load`, for a call with references from a time when the device's last loss was `loss`."""
        found = self._load(inline)
        if self.device.loss is not loss:
            raise self.device.loss  # type: ignore[misc]
        return found

    def call_queued(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The general call: arguments may be unfinished, failed or deleted."""
        loss = self.device.loss
        refs: list[Any] = []
        waits: list[Pending] = []
        deferred = self.queue == "deferred"
        unfinished = finished = None  # results of one call wait for the same
        for buffer in buffers:
            pending = buffer._pending
            if pending is finished:
                buffer._pending = pending = None
            if pending is unfinished or pending is None:
                refs.append(buffer._ref)
                continue
            before, pending = pending, _advance(buffer, pending)
            if pending is None and type(before) is Completion:
                finished = before
            if pending is not None and pending.failed():
                return self._fail(_error_of(pending))
            if isinstance(pending, Deferred):
                deferred = True
                refs.append((pending, buffer._ref))
            else:
                if pending is not None and pending not in waits:
                    waits.append(pending)
                    unfinished = pending
                refs.append(buffer._ref)
        inline = self.queue == "inline" and not waits
        if self.needs_ready and waits:
            deferred = True
        if self.is_synchronous:
            in_turn = not self.has_effects or workers.nested() or effects.submitted()
            deferred = deferred or not inline or not in_turn
        if deferred:
            return self._defer(refs, waits, buffers, loss)
        results, done = self._submit(refs, waits, inline, loss)
        if done is not None:
            self.device.in_flight.admit(done, self._result_nbytes, self.has_effects, buffers)
        return [Buffer(ref, spec, done) for ref, spec in zip(results, self.outputs)]

    def _fail(self, error: BaseException) -> list[Buffer]:
        failed = Failed(error)
        if self.has_effects:
            self.device.in_flight.admit(failed, 0, True)
        return [Buffer(None, spec, failed) for spec in self.outputs]

    def _submit(
        self, refs: list[Any], waits: list[Any], inline: bool, loss: Any
    ) -> tuple[list[Any], Completion | Failed | None]:
        """Invokes with references that exist; returns the results' references and what to wait for, if anything."""
        if self.is_synchronous:
            return self._run(refs, waits, inline, loss)
        on, context, function = self._load_unlost(inline, loss)
        arguments = iree.VmVariantList(len(refs) + 2)
        for ref in refs:
            arguments.push_ref(ref)
        if not waits:
            arguments.push_ref(iree.NO_FENCE)
        elif len(waits) == 1:
            arguments.push_ref(waits[0].fence)
        else:
            arguments.push_ref(iree.HalFence.join([wait.fence for wait in waits]))
        # One semaphore per call: a failed one is failed for ever.
        hal = self.device.hal if inline else on
        semaphore = hal.create_semaphore(0)
        fence = iree.HalFence.create_at(semaphore, 1)
        arguments.push_ref(fence)
        results = iree.VmVariantList(len(self.outputs))
        if self._scratch and not workers.nested():
            self.device.in_flight.make_room(self._scratch)
        try:
            self._invoke(context, function, arguments, results, inline)
        except Exception as error:
            fence.fail(str(error))  # invoke leaves it unsignalled: whoever waits would hang
            failed = next((wait for wait in waits if wait.failed()), None)
            cause = self.device.failure(self._where, error, hal) if failed is None else _error_of(failed)
            if failed is None:
                raise cause from None
            return [None] * len(self.outputs), Failed(cause)
        done = Completion(self._where, semaphore, fence, self.device.on_loss(hal))
        if self._scratch:
            self.device.in_flight.use_scratch(done, self._scratch)
        return [results.get_as_ref(i) for i in range(len(self.outputs))], done

    def _run(self, refs: list[Any], waits: list[Any], inline: bool, loss: Any) -> tuple[list[Any], Failed | None]:
        """Invokes a synchronous program: afterwards it is done."""
        for wait in waits:
            wait.wait()
        hal, context, function = self._load_unlost(inline, loss)
        arguments = iree.VmVariantList(len(refs))
        for ref in refs:
            arguments.push_ref(ref)
        results = iree.VmVariantList(len(self.outputs))
        try:
            self._invoke(context, function, arguments, results, inline)
        except Exception as error:
            cause = self.device.failure(self._where, error, hal)
            if not isinstance(cause, Exception):  # Ctrl-C in a function is not kept for later
                raise cause from None
            return [None] * len(self.outputs), Failed(cause)
        return [results.get_as_ref(i) for i in range(len(self.outputs))], None

    def _invoke(self, context: Any, function: Any, arguments: Any, results: Any, inline: bool) -> None:
        """Calls the program, which may wait for IREE's threads on its way."""
        if self._waits and not inline:
            with patience():
                context.invoke(function, arguments, results)
        else:
            context.invoke(function, arguments, results)

    def _defer(self, refs: list[Any], waits: list[Any], buffers: Sequence[Buffer], loss: Any) -> list[Buffer]:
        """Leaves the submission to a worker thread."""
        deferred = Deferred(self.name)
        previous = effects.enqueue(deferred) if self.has_effects and not workers.nested() else None
        inline = self.device.inline is not None and has_small_steps(self._program)

        def submit() -> None:
            try:
                if previous is not None:
                    previous.wait_submitted()
                ready, pending = _resolve(refs, waits)
                if inline or self.needs_ready:
                    for wait in pending:
                        wait.wait()
                    pending = []
                    self.device.in_flight.retire_done()
                deferred.resolve(*self._submit(ready, pending, inline, loss))
            except BaseException as error:
                deferred.resolve([None] * len(self.outputs), Failed(error))

        workers.submissions.submit(submit)
        self.device.in_flight.admit(deferred, self._result_nbytes, self.has_effects, buffers)
        return [Buffer(i, spec, deferred) for i, spec in enumerate(self.outputs)]


def _error_of(pending: Pending) -> BaseException:
    """What failed work failed with."""
    reported = pending.reported
    try:
        pending.wait()
    except BaseException as error:
        pending.reported = reported  # passed on, which is not yet a report
        return error
    raise AssertionError("the work did not fail")


def _advance(buffer: Buffer, pending: Pending) -> Pending | None:
    """The state of `buffer` now, without waiting; its finished states are taken off it."""
    if pending is DELETED:
        raise buffer.deleted_error()
    if isinstance(pending, Deferred):
        if not pending.submitted.is_set():
            return pending
        buffer._settle(pending)
        after: Pending | None = pending.after
    else:
        after = pending
    if isinstance(after, Completion) and after.done() and not after.failed():
        after = None
    if buffer._pending is pending:
        buffer._pending = after
    return after


def _resolve(refs: list[Any], waits: list[Any]) -> tuple[list[Any], list[Any]]:
    """Waits until deferred arguments have been submitted; returns their references and all that is to be waited for."""
    ready: list[Any] = []
    waits = list(waits)
    for ref in refs:
        if isinstance(ref, tuple):
            deferred, index = ref
            deferred.wait_submitted()
            after = deferred.after
            if isinstance(after, Failed):
                raise after.error
            if after is not None and after not in waits:
                waits.append(after)
            ref = deferred.refs[index]
        ready.append(ref)
    return ready, waits
