"""A program that several devices of a plugin run together, with collectives of XLA between them.

As replicas, each of which runs the program as it is written; or as partitions, among which XLA divides it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from veery_runtime.buffer import SHARED, Buffer
from veery_runtime.completion import DELETED, Failed, Pending
from veery_runtime.errors import execution_error, translate
from veery_runtime.hostcall import has_effects, specs
from veery_runtime.pjrt import abi, host
from veery_runtime.pjrt.api import PjrtError
from veery_runtime.pjrt.device import PjrtDevice
from veery_runtime.pjrt.executable import OVERRIDES
from veery_runtime.pjrt.handle import LONG_WORK, Origin, Work


class SeveralExecutable:
    """A program on several devices of one plugin."""

    def __init__(
        self, program: Any, devices: Sequence[PjrtDevice], shapes: Sequence[tuple[int, ...]] | None = None
    ) -> None:
        """Compiles a program.

        Args:
            program: for XLA.
            devices: where it runs.
            shapes: of each partition's results; None for replicas.
        """
        self.name: str = program.name
        place = program.metadata.get("source")
        self._where = f"{self.name} ({place})" if place else self.name
        self._client = devices[0].client
        self._inputs = len(program.inputs)
        types = program.outputs if shapes is None else [(s, dtype) for s, (_, dtype) in zip(shapes, program.outputs)]
        self.outputs = [specs(device, types) for device in devices]
        self._has_effects = has_effects(program.host_calls)
        is_long = isinstance(program.work, str) or program.blocking or program.work > LONG_WORK
        self._origin = Origin(self._client, self._where, is_long)
        self._functions = host.functions(program, devices[0]) if program.host_calls else None
        code = program.vmfb if self._functions is None else self._functions.bound(program.vmfb)
        ids, partitions = [d.plugin_id for d in devices], 1 if shapes is None else len(devices)
        try:
            self._loaded = self._client.compile(code, ids, partitions=partitions, overrides=OVERRIDES)
        except PjrtError as error:
            cause = execution_error(f"{self._where}: XLA cannot compile it for {list(devices)}: {error}")
        else:
            return
        raise cause

    def __del__(self) -> None:
        if hasattr(self, "_loaded"):
            self._client.destroy_executable(self._loaded)

    def run(self, arguments: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Runs the program on all devices.

        Args:
            arguments: the buffers for each device.

        Returns:
            The results of each, perhaps still being computed.

        Raises:
            RuntimeError: an argument was deleted, or the program could not be started.
        """
        self._client.check_process(self._where)
        missing = next((b for buffers in arguments for b in buffers if b._ref is None), None)
        if missing is not None:
            if missing._pending is DELETED:
                raise missing.deleted_error()
            return self._failed(missing._pending)
        word, count = ctypes.c_size_t, len(arguments)
        addresses = [[b._ref for b in buffers] for buffers in arguments]
        passed = [(word * max(self._inputs, 1))(*each) for each in addresses]
        returned = [(word * max(len(side), 1))() for side in self.outputs]
        lists = [(word * count)(*map(ctypes.addressof, side)) for side in (passed, returned)]
        events = (word * count)()
        options = abi.ExecuteOptions()
        call = abi.Execute(
            executable=self._loaded,
            options=ctypes.addressof(options),
            argument_lists=ctypes.addressof(lists[0]),
            num_devices=count,
            num_args=self._inputs,
            output_lists=ctypes.addressof(lists[1]),
            device_complete_events=ctypes.addressof(events) if self._has_effects else None,
        )
        error = self._client.api.try_call("LoadedExecutable_Execute", call)
        if error:
            raise translate(self._where, self._client.api.exception(error))
        results = [self._results(given[: len(side)], side) for given, side in zip(returned, self.outputs)]
        failures = [self._finished(event) for event in events] if self._has_effects else []
        failure = next(filter(None, failures), None)
        return results if failure is None else self._failed(Failed(failure))

    def _results(self, addresses: Sequence[int], specs: Sequence[Any]) -> list[Buffer]:
        made = self._client.maker.many(addresses, specs, Work(self._origin))
        for buffer in made:
            buffer._host = SHARED  # perhaps with the same piece of another array
        return made

    def _finished(self, event: int) -> BaseException | None:
        error = self._client.wait(event)
        self._client.destroy_event(event)
        return None if error is None else translate(self._where, error)

    def _failed(self, pending: Pending | None) -> list[list[Buffer]]:
        return [[Buffer(None, spec, pending) for spec in side] for side in self.outputs]
