"""Loaded programs and the hot path of a call."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_runtime import dimensions, effects, iree, workers
from veery_runtime.buffer import SHARED, Buffer, Spec, Tally, put
from veery_runtime.completion import DELETED, Completion, Deferred, Deleted, Failed, Pending
from veery_runtime.device import MAX_SCRATCH_IN_USE, Device, devices
from veery_runtime.errors import DeviceUnavailableError, execution_error, tells_of_loss, translate
from veery_runtime.hostcall import has_effects, host_module

# Up to this many operations and bytes the work is shorter than waking a worker thread: inline and threaded, x * 2 + 1
# on 40,000 floats takes 10 and 30 us, a product of 64x64 11 and 54 us, the gradient of a scan of 1,000 steps 32 and 64.
INLINE_WORK = 1_000_000

# Calls take their memory when they are submitted. From here on that is when their arguments are there, lest a loop that
# runs ahead takes it many times over: 150 steps with a state of 12 MB took 920 MB.
_LARGE_CALL = 1 << 22

Call = Callable[[Sequence[Buffer]], list[Buffer]]
Loaded = dict[bool, tuple[iree.HalDevice, iree.VmContext, iree.VmFunction]]

# As many shapes of one program keep what a call of them needs.
_REMEMBERED_SHAPES = 1024

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
      needs_ready: whether its arguments must be finished when it is submitted. IREE 3.13 looks at their memory where it
        records work in each call ("transient buffer has not been committed"): that of loops and branches, what
        overwrites arguments, and shapes with variables. So with calls that take much memory.
      call: the function behind `__call__`; calling it directly saves 0.1 us.
    """

    __slots__ = (
        "name", "device", "inputs", "outputs", "constants", "donated", "overwritten", "queue", "call",
        "has_effects", "needs_ready", "_scratch", "_program", "_where", "_result_nbytes", "_aliasing", "_loaded",
        "_probe", "__weakref__",
    )  # fmt: skip

    def __init__(self, program: Any, device: Device, queue: str, loaded: Loaded | None = None) -> None:
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
        self.queue = queue
        self._program = program
        self.has_effects = has_effects(program.host_calls)
        self.needs_ready = program.metadata.get("control_flow") == "host" or bool(self.overwritten)
        self._result_nbytes = sum(spec.nbytes for spec in self.outputs)
        self._probe: Probe | None = None
        # What a loop on the device's values returns may depend on them; of other programs their first call tells.
        everything = tuple(range(len(self.outputs)))
        self._aliasing: tuple[int, ...] | None = None if everything and not program.blocking else everything
        self._loaded: Loaded = {} if loaded is None else loaded
        self._scratch = 0
        if queue != "inline":
            *_, function = self._load(inline=False)  # now, for what IREE finds wrong with a program it says on loading
            self._scratch = _scratch_of(function)
            if device.inline is not None and self._scratch + self._result_nbytes >= _LARGE_CALL:
                self.needs_ready = True
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
        call = _inline_call(self) if self.queue == "inline" and not self.has_effects else self.call_queued
        if self._aliasing is None or self._aliasing:
            call = _sharing_call(self, call)
        if self.constants:
            call = _binding_call(self.constants, call)
        if self.donated:
            call = _donating_call(self, call)
        return call

    def _load(self, inline: bool) -> tuple[iree.HalDevice, iree.VmContext, iree.VmFunction]:
        """One of the device's queues and the program in a context on it, made on first use (0.1 ms)."""
        hal = self.device.inline if inline else self.device.hal
        assert hal is not None
        found = self._loaded.get(inline)
        if found is None or found[0] is not hal:  # queues are opened anew after forks and losses
            with _loading:
                try:
                    found = self._loaded[inline] = (hal, *load_module(self._program, hal, self.device, inline))
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
        for buffer in buffers:
            pending = buffer._pending
            if pending is not None:
                pending = _advance(buffer, pending)
            if pending is not None and pending.failed():
                return self._fail(_error_of(pending))
            if isinstance(pending, Deferred):
                deferred = True
                refs.append((pending, buffer._ref))
            else:
                if pending is not None and pending not in waits:
                    waits.append(pending)
                refs.append(buffer._ref)
        inline = self.queue == "inline" and not waits
        if self.needs_ready and waits:
            deferred = True
        if self.has_effects:
            deferred = deferred or not inline or not (workers.nested() or effects.submitted())
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
        if self.has_effects:
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
            context.invoke(function, arguments, results)
        except Exception as error:
            fence.fail(str(error))  # invoke leaves it unsignalled: whoever waits would hang
            failed = next((wait for wait in waits if wait.failed()), None)
            cause = self.device.failure(self._where, error, hal) if failed is None else _error_of(failed)
            if failed is None and not (self._program.host_calls and isinstance(cause, Exception)):
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
            context.invoke(function, arguments, results)
        except Exception as error:
            cause = self.device.failure(self._where, error, hal)
            if not isinstance(cause, Exception):  # Ctrl-C in a function is not kept for later
                raise cause from None
            return [None] * len(self.outputs), Failed(cause)
        return [results.get_as_ref(i) for i in range(len(self.outputs))], None

    def _defer(self, refs: list[Any], waits: list[Any], buffers: Sequence[Buffer], loss: Any) -> list[Buffer]:
        """Leaves the submission to a worker thread."""
        deferred = Deferred(self.name)
        previous = effects.enqueue(deferred) if self.has_effects and not workers.nested() else None
        inline = self.device.inline is not None and self._program.work <= INLINE_WORK

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


class DynamicExecutable:
    """A program whose shapes have dimension variables, on a device. It is loaded once, for all of them.

    Attributes:
      name, device: as of an Executable.
      queue: "by shape", unless one was chosen for all shapes.
      names: of the arguments, for messages.
    """

    def __init__(self, program: Any, device: Device, queue: str | None, names: Sequence[str] = ()) -> None:
        self.name: str = program.name
        self.device = device
        constants = tuple(c if isinstance(c, Buffer) else put(c, device) for c in getattr(program, "constants", ()))
        self._program = dataclasses.replace(program, constants=constants) if constants else program
        self._fixed = tuple(constant.shape for constant in constants)
        self._expected = tuple(tuple(shape) for shape, _ in program.inputs)
        rest = range(len(names), len(program.inputs) - len(constants))
        self.names = (*["a constant"] * len(constants), *names, *[f"argument {i}" for i in rest])
        self._queue = queue or program.metadata.get("queue")
        self.queue = self._queue or "by shape"
        self._loaded: Loaded = {}
        self._known: OrderedDict[tuple[tuple[int, ...], ...], Executable] = OrderedDict()

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Runs the program; see Executable. The shapes are checked."""
        return self.at([buffer.shape for buffer in buffers]).call(buffers)

    call = __call__

    def __repr__(self) -> str:
        return f"DynamicExecutable({self.name!r}, {self.device!r})"

    def at(self, shapes: Sequence[tuple[int, ...]]) -> Executable:
        """The program for arguments of these shapes.

        Raises:
          ValueError: they do not fit together.
        """
        key = tuple(shapes)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._concrete((*self._fixed, *key))
            if len(self._known) > _REMEMBERED_SHAPES:
                self._known.popitem(last=False)
        return found

    def _concrete(self, shapes: Sequence[tuple[int, ...]]) -> Executable:
        program = self._program
        try:
            values = dimensions.solve(program.symbols, self._expected, shapes, self.names)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        size = lambda n: dimensions.evaluate(n, values)
        signature = lambda types: tuple((tuple(map(size, shape)), dtype) for shape, dtype in types)
        changes = dict(inputs=signature(program.inputs), outputs=signature(program.outputs), work=size(program.work))
        concrete = dataclasses.replace(program, symbols=dimensions.Symbols(), **changes)
        queue = self._queue or _choose_queue(concrete, self.device)
        executable = Executable(concrete, self.device, queue, self._loaded)
        executable.needs_ready = True
        return executable


def _scratch_of(function: iree.VmFunction) -> int:
    """The bytes that a call needs beside its results, as the compiler wrote them down."""
    text = function.reflection.get("veery.scratch", "0")
    return MAX_SCRATCH_IN_USE if text == "loop" else int(text)


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


def _inline_call(executable: Executable) -> Call:
    """The hot path: work that is done in the caller's thread when the invocation returns.

    A closure, so that all constants are cell variables. No semaphore: on the inline queue the results are there on
    return and failures are raised by the invocation, so empty fences serve for both directions (saves 0.5 us).

    x + 1 on 8 floats takes 3.2 us, 1.5 of them IREE's invoke, 1.3 the bindings' lists (filling 0.7, a list for the
    results 0.2, taking the result out 0.2), 0.15 the result's Buffer. On worker threads it takes 13 us with waiting.
    """
    _, context, function = executable._load(inline=True)
    invoke = context.invoke
    queued = executable.call_queued
    variant_list = iree.VmVariantList
    no_fence = iree.NO_FENCE
    capacity = len(executable.constants) + len(executable.inputs) + 2
    count = len(executable.outputs)
    outputs = tuple(enumerate(executable.outputs))
    single = executable.outputs[0] if count == 1 else None

    def call(buffers: Sequence[Buffer]) -> list[Buffer]:
        arguments = variant_list(capacity)
        push = arguments.push_ref
        for buffer in buffers:
            if buffer._pending is not None:
                return queued(buffers)
            push(buffer._ref)
        push(no_fence)
        push(no_fence)
        results = variant_list(count)
        try:
            invoke(function, arguments, results)
        except Exception as error:
            return _inline_failure(executable, error)
        get = results.get_as_ref
        if single is not None:
            return [Buffer(get(0), single)]  # 0.2 us less than the comprehension
        return [Buffer(get(i), spec) for i, spec in outputs]

    return call


def _inline_failure(executable: Executable, error: Exception) -> list[Buffer]:
    cause = translate(executable._where, error)
    if executable._program.host_calls and isinstance(cause, Exception):  # Ctrl-C in a function is not kept for later
        return executable._fail(cause)
    raise cause from None


def _donating_call(executable: Executable, call: Call) -> Call:
    """Marks donated arguments as deleted after the call; memory that others can see is copied instead of given."""
    donated = executable.donated

    def donate(buffers: Sequence[Buffer]) -> list[Buffer]:
        given = list(buffers)
        for index in donated:
            buffer = given[index]
            if any(other is buffer for i, other in enumerate(given) if i != index):
                raise execution_error(
                    f"INVALID_ARGUMENT: {executable.name}: the same array is donated and passed as another argument"
                )
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


def _binding_call(constants: tuple[Buffer, ...], call: Call) -> Call:
    """Passes the program's own constants before the caller's arguments."""
    return lambda buffers: call([*constants, *buffers])


# A program may return (a part of) an argument, or one value twice, without copying it. Donating one of the two arrays
# would then change the other, so both are marked and copied when donated. Which results do this is a property of the
# program, seen in its first call.


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
        inputs = [_extent(*item) for item in self.inputs]
        outputs = [_extent(*item) for item in self.outputs]
        found = []
        for i, (start, stop) in enumerate(outputs):
            others = inputs + outputs[:i] + outputs[i + 1 :]
            if any(start < other_stop and other_start < stop for other_start, other_stop in others):
                found.append(i)
        return tuple(found)


def _extent(ref: Any, spec: Spec) -> tuple[int, int]:
    if spec.nbytes == 0:
        return (0, 0)
    start = np.frombuffer(ref.deref(iree.HalBufferView).map(), np.uint8).ctypes.data
    return (start, start + spec.nbytes)


class Undecided:
    """Stands in `_host` for memory of which a program's first call, when it is done, will tell whether it is shared."""

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


def _sharing_call(executable: Executable, call: Call) -> Call:
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


def load_module(
    program: Any, hal: iree.HalDevice, device: Device, inline: bool
) -> tuple[iree.VmContext, iree.VmFunction]:
    """Makes a VM context for `program` on a queue."""
    module = iree.VmModule.copy_buffer(iree.INSTANCE, program.vmfb)
    modules = [iree.create_hal_module(iree.INSTANCE, hal)]
    if program.host_calls:
        modules.append(host_module(program.host_calls, device, hal, inline))
    context = iree.VmContext(iree.INSTANCE, modules=[*modules, module])
    function = module.lookup_function(program.entry)
    if function is None:
        raise ValueError(f"{program.name}: the program has no function {program.entry!r}, only {module.function_names}")
    return context, function


def _choose_queue(program: Any, device: Device) -> str:
    """By what the program was compiled for, else by its work."""
    chosen = program.metadata.get("queue")
    # Python functions of a device without host-visible memory run where the program is submitted.
    waits = program.blocking and program.metadata.get("control_flow") != "device"
    if (waits and chosen != "inline") or (program.host_calls and not device.host_visible):
        return "deferred"
    # IREE may wait for what one function is to signal before it has called it. On the inline queue that is for ever.
    several = len(program.host_calls) > 1 and not has_effects(program.host_calls)
    if chosen == "threaded" or device.inline is None or several:
        return "threaded"
    # A loop that ends when a value says so may be a long one.
    return "inline" if chosen == "inline" or (program.work <= INLINE_WORK and not program.blocking) else "threaded"


def load(
    program: Any, device: Device | None = None, *, queue: str | None = None, names: Sequence[str] = ()
) -> Executable | DynamicExecutable:
    """Loads a compiled program onto a device.

    Args:
      program: an object with the attributes of the compiler's Program (name, entry, vmfb, inputs, outputs, donated,
        host_calls, work, blocking).
      device: where to; by default the first device of the program's platform.
      queue: "inline", "threaded" or "deferred" overrules the choice by the program's work.
      names: of the arguments, for messages about their shapes.

    Returns:
      The callable program.

    Raises:
      RuntimeError: there is no device for the program, or IREE refuses it.
    """
    if device is None:
        device = devices(program.backend)[0]
    if device.platform != program.backend:
        raise DeviceUnavailableError(f"load: {program.name} was compiled for {program.backend}, not for {device!r}")
    if queue not in (None, "inline", "threaded", "deferred"):
        raise ValueError(f"load: queue must be 'inline', 'threaded' or 'deferred', got {queue!r}")
    if queue == "inline" and device.inline is None:
        raise ValueError(f"load: {device!r} has no inline queue")
    if program.symbols.sources:
        return DynamicExecutable(program, device, queue, names)
    return Executable(program, device, queue or _choose_queue(program, device))
