"""Programs that a plugin has compiled, and their calls."""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from veery_runtime import completion, workers
from veery_runtime.buffer import Buffer, Spec, put
from veery_runtime.completion import DELETED, Failed
from veery_runtime.donation import binding_call, check_distinct
from veery_runtime.errors import execution_error, translate
from veery_runtime.hostcall import has_effects, specs
from veery_runtime.pjrt import abi, host
from veery_runtime.pjrt.api import PjrtError
from veery_runtime.pjrt.client import Client
from veery_runtime.pjrt.handle import LONG_WORK, Origin, Work
from veery_runtime.pjrt.result import Maker, mark_deleted

if TYPE_CHECKING:
    from veery_runtime.pjrt.device import PjrtDevice

Call = Callable[[Sequence[Buffer]], list[Buffer]]

_ref = operator.attrgetter("_ref")

# Up to so many arguments are written one by one: 0.05 us each, a list of them 0.2 us and 0.02 each.
_FEW = 3

# What XLA computes together in bfloat16 and float16 is rounded where the operations say so, as eagerly.
OVERRIDES: dict[str, Any] = {"xla_allow_excess_precision": False, "xla_cpu_enable_fast_min_max": False}


class Frame:
    """The memory of one call: what is passed and what comes back. Kept for the next one."""

    __slots__ = ("arguments", "results", "options", "non_donatable", "event", "call", "reference", "_lists")

    def __init__(self, loaded: int, inputs: int, outputs: int, device: int | None, tells: bool) -> None:
        word = ctypes.c_size_t
        self.arguments = (word * max(inputs, 1))()
        self.results = (word * max(outputs, 1))()
        self.event = word()
        self.non_donatable = (ctypes.c_int64 * max(inputs, 1))()
        self._lists = (word * 2)(ctypes.addressof(self.arguments), ctypes.addressof(self.results))
        self.options = abi.ExecuteOptions(non_donatable=ctypes.addressof(self.non_donatable))
        self.call = abi.Execute(
            executable=loaded,
            options=ctypes.addressof(self.options),
            argument_lists=ctypes.addressof(self._lists),
            num_devices=1,
            num_args=inputs,
            output_lists=ctypes.addressof(self._lists) + ctypes.sizeof(word),
            device_complete_events=ctypes.addressof(self.event) if tells else None,
            execute_device=device,
        )
        self.reference = ctypes.byref(self.call)


class PjrtExecutable:
    """A program on a plugin's device; see veery_runtime.Executable, whose attributes it has."""

    queue = "xla"
    overwritten: tuple[int, ...] = ()
    needs_ready = False

    def __init__(self, program: Any, device: PjrtDevice, compiled: bytes | None = None) -> None:
        self.name: str = program.name
        place = program.metadata.get("source")
        self._where = f"{self.name} ({place})" if place else self.name
        self.device = device
        self._client: Client = device.client
        self._program = program
        constants = getattr(program, "constants", ())
        self.constants = tuple(c if isinstance(c, Buffer) else put(c, device) for c in constants)
        self.inputs = tuple(specs(device, program.inputs[len(constants) :]))
        self.outputs = tuple(specs(device, program.outputs))
        self.donated = tuple(i for i, given in enumerate(program.donated[len(constants) :]) if given)
        self.has_effects = has_effects(program.host_calls)
        is_long = isinstance(program.work, str) or program.blocking or program.work > LONG_WORK
        self._origin = Origin(self._client, self._where, is_long)
        self._execute = self._client.api.quick("LoadedExecutable_Execute")
        self._frames: list[Frame] = []
        self._functions = host.functions(program, device) if program.host_calls else None
        self.calls_python = self._functions is not None
        self._known: bytes | None = None  # what it was loaded from: the CPU's plugin serializes less than it needs then
        self._loaded = self._load(compiled)
        self.call: Call = self._choose_call()

    def _load(self, compiled: bytes | None) -> int:
        client = self._client
        if compiled is not None and self._functions is None:
            try:
                loaded = client.deserialize(compiled)
                self._known = compiled
                return loaded
            except PjrtError:  # of another version of the plugin: compiled anew
                pass
        code = self._program.vmfb if self._functions is None else self._functions.bound(self._program.vmfb)
        try:
            return client.compile(code, [self.device.plugin_id], overrides=OVERRIDES)
        except PjrtError as error:
            cause = execution_error(f"{self._where}: XLA cannot compile it for {self.device!r}: {error}")
        raise cause

    def __del__(self) -> None:
        loaded = getattr(self, "_loaded", None)
        if loaded:
            self._client.destroy_executable(loaded)

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Runs the program; see veery_runtime.Executable."""
        return self.call(buffers)

    def at(self, shapes: Sequence[tuple[int, ...]]) -> PjrtExecutable:
        """The program for arguments of these shapes: itself."""
        return self

    def __repr__(self) -> str:
        return f"PjrtExecutable({self.name!r}, {self.device!r})"

    def serialize(self) -> bytes:
        """The compiled program, which the same release of the plugin loads again.

        Raises:
            ExecutionError: the program calls Python functions, or the plugin cannot.
        """
        if self._functions is not None:
            raise execution_error(f"{self._where}: a program that calls Python functions cannot be serialized")
        try:
            return self._known or self._client.serialize(self._loaded)
        except PjrtError as error:
            raise execution_error(f"{self._where}: the plugin cannot serialize it: {error}") from None

    def serialized(self) -> bytes | None:
        """As `serialize`; None where that is not possible."""
        try:
            return None if self._functions is not None else self._known or self._client.serialize(self._loaded)
        except PjrtError:
            return None

    def memory_analysis(self) -> dict[str, int]:
        """The bytes of a call's arguments, results and temporary values, under JAX's names."""
        found = self._client.memory_of(self._loaded)
        return {
            f"{side}{name}_size_in_bytes": getattr(found, f"{side}{field}")
            for side in ("", "host_")
            for name, field in (
                ("generated_code", "generated_code"), ("argument", "arguments"), ("output", "outputs"),
                ("alias", "alias"), ("temp", "temporary"),
            )
        }  # fmt: skip

    # Calls.

    def _choose_call(self) -> Call:
        if self.calls_python:
            call: Call = self._hosting_call
        else:
            call = self.caller(_ref, self._client.maker, self.outputs, self._with_missing)
        if self.donated:
            call = self._donating_call()
        return binding_call(self.constants, call) if self.constants else call

    def _frame(self, device: int | None = None) -> Frame:
        inputs = len(self.constants) + len(self.inputs)
        return Frame(self._loaded, inputs, len(self.outputs), device, tells=self.calls_python)

    def caller(
        self,
        address_of: Callable[[Buffer], int],
        maker: Maker,
        outputs: Sequence[Spec],
        otherwise: Call,
        nested: Call | None = None,
    ) -> Call:
        """What runs a program without effects: the hot path, a closure, so that all constants are cell variables.

        x + 1 on 8 floats takes 2.2 us, 1.2 of them XLA's, 0.3 to make and to free the result.

        Args:
            address_of: the address of what an argument holds of the plugin, or what is not a number.
            maker: of the results.
            outputs: the kinds of the results.
            otherwise: called with arguments some of which have no address.
            nested: called where the program would wait for itself; by default it is refused.
        """
        execute, origin, name = self._execute, self._origin, self._where
        pop, push, new = self._frames.pop, self._frames.append, self._frame
        check, begun = self._client.check_process, completion.generation
        inputs, count = len(self.constants) + len(self.inputs), len(outputs)
        is_unary, is_small = inputs == 1, inputs <= _FEW
        alone = Work(origin, tells=False)
        make_one, make_many = maker
        output = outputs[0] if count == 1 else None
        waited_for, thread = host.waited_for, threading.get_ident

        def call(buffers: Sequence[Buffer]) -> list[Buffer]:
            if waited_for and thread() in waited_for:
                if nested is not None:
                    return nested(buffers)
                self.refuse_to_wait()
            try:
                frame = pop()
            except IndexError:
                frame = new()
            arguments = frame.arguments
            try:  # the variables also keep what another thread deletes meanwhile
                if is_unary:
                    arguments[0] = address = address_of(buffers[0])
                else:
                    addresses: Any = [*map(address_of, buffers)]
                    if is_small:
                        i = 0
                        for address in addresses:
                            arguments[i] = address
                            i += 1
                    else:
                        arguments[:] = addresses
            except TypeError:
                return otherwise(buffers)
            if completion.generation != begun:
                check(name)
            error = execute(frame.reference)
            if error:
                failed = self._failed_at_once(translate(name, self._client.api.exception(error)))
                return [Buffer(None, spec, buffer._pending) for buffer, spec in zip(failed, outputs)]
            if output is not None:
                result = make_one(frame.results[0], output, alone)
                push(frame)
                return [result]
            results = make_many(frame.results[:count], outputs, Work(origin))
            push(frame)
            return results

        return call

    def _failed_at_once(self, cause: BaseException) -> list[Buffer]:
        """What a call gives that failed at once: errors of Python functions are raised where results are read."""
        if self._functions is None:
            raise cause from None
        return self._failed(cause)

    def _with_missing(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """For arguments some of which are deleted or failed."""
        for buffer in buffers:
            if buffer._pending is DELETED:
                raise buffer.deleted_error()
        failed = next(b._pending for b in buffers if b._ref is None)
        return [Buffer(None, spec, failed) for spec in self.outputs]

    def _donating_call(self) -> Call:
        """Passes donated arguments on; memory that others see too is kept by the plugin, which copies it."""
        donated = [len(self.constants) + index for index in self.donated]
        taken: list[int] | None = None  # which of them the plugin takes over

        def call(buffers: Sequence[Buffer]) -> list[Buffer]:
            nonlocal taken
            check_distinct(self.name, donated, buffers)
            given = [buffers[i] for i in donated]
            kept = [i for i in donated if buffers[i]._host is not None]
            addresses = [buffer._ref for buffer in given]
            results = self._run(buffers, kept)
            if taken is None and not kept and None not in addresses:
                taken = [i for i, address in zip(donated, addresses) if self._client.is_deleted(address)]
            if kept or taken != donated:
                for buffer in given:
                    buffer.delete()
            else:
                mark_deleted(given)
            return results

        return call

    def _hosting_call(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        return self._run(buffers, [])

    def _run(self, buffers: Sequence[Buffer], kept: list[int]) -> list[Buffer]:
        """A call with all that a plain one does without: Python functions, arguments that may not be overwritten."""
        self._client.check_process(self._where)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self._frame()
        addresses = [buffer._ref for buffer in buffers]
        try:
            frame.arguments[: len(buffers)] = addresses
        except TypeError:
            return self._with_missing(buffers)
        frame.non_donatable[: len(kept)] = [*kept]
        frame.options.num_non_donatable = len(kept)
        error = self._execute_here(frame.reference)
        if error:
            return self._failed_at_once(translate(self._where, self._client.api.exception(error)))
        results = self._client.maker.many(frame.results[: len(self.outputs)], self.outputs, Work(self._origin))
        event = frame.event.value
        self._frames.append(frame)
        if self.has_effects:
            failure = self._finished(event)
            if failure is not None:
                return self._failed(failure)
        elif self.calls_python:
            self._client.keep_until(event, self._functions)
        return results

    def _execute_here(self, frame: Any) -> Any:
        """Submits a call; Python functions that run before this returns run in this thread."""
        thread = threading.get_ident()
        if thread in host.waited_for:
            self.refuse_to_wait()
        if thread in host.calling:
            return self._execute(frame)
        host.calling.add(thread)
        try:
            return self._execute(frame)
        finally:
            host.calling.discard(thread)

    def refuse_to_wait(self) -> NoReturn:
        """Raises ExecutionError: this thread runs a Python function for which another program of the device waits."""
        raise execution_error(
            f"{self._where} is called by a Python function that a program on {self.device!r} calls and waits for: XLA "
            "would run it only after that program. Compute with NumPy in the function, or on another device "
            "(`with jax.default_device(...)`)"
        )

    def _finished(self, event: int) -> BaseException | None:
        """Waits for a program with effects, which are ordered by that; what it failed with."""
        error = self._client.wait(event)
        self._client.destroy_event(event)
        return None if error is None else translate(self._where, error)

    def _failed(self, error: BaseException) -> list[Buffer]:
        if not isinstance(error, Exception):  # Ctrl-C in a function is not kept for later
            raise error
        failed = Failed(error)
        if not workers.nested():
            self.device.in_flight.admit(failed, 0, self.has_effects)
        return [Buffer(None, spec, failed) for spec in self.outputs]
