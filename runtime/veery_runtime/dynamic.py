"""Programs for many shapes, and what loads any program."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from veery_runtime import dimensions
from veery_runtime.buffer import Buffer, put
from veery_runtime.device import Device
from veery_runtime.discovery import devices
from veery_runtime.errors import DeviceUnavailableError
from veery_runtime.evaluated import Evaluated
from veery_runtime.executable import Executable, Loaded

# For so many shapes of one program the concrete signatures are remembered; the oldest go first.
_REMEMBERED_SHAPES = 1024


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
        size: Callable[[Any], int] = lambda n: dimensions.evaluate(n, values)
        signature: Callable[[Any], tuple[Any, ...]] = lambda types: tuple(
            (tuple(map(size, shape)), dtype) for shape, dtype in types
        )
        changes = dict(inputs=signature(program.inputs), outputs=signature(program.outputs), work=size(program.work))
        concrete = dataclasses.replace(program, symbols=dimensions.Symbols(), **changes)
        executable = Executable(concrete, self.device, self._queue, self._loaded)
        executable.needs_ready = True
        return executable


def load(
    program: Any,
    device: Device | None = None,
    *,
    queue: str | None = None,
    names: Sequence[str] = (),
    compiled: bytes | None = None,
) -> Any:
    """Loads a compiled program onto a device.

    Args:
      program: an object with the attributes of the compiler's Program (name, entry, vmfb, inputs, outputs, donated,
        host_calls, work, blocking).
      device: where to; by default the first device of the program's platform.
      queue: "inline", "threaded" or "deferred" overrules the choice by the program's work.
      names: of the arguments, for messages about their shapes.
      compiled: for a device of a PJRT plugin, what `PjrtExecutable.serialize` gave for this program.

    Returns:
      The callable program: an Executable, a DynamicExecutable where it has symbolic shapes, or a PjrtExecutable.

    Raises:
      RuntimeError: there is no device for the program, or IREE refuses it.
    """
    if device is None:
        device = devices(program.backend)[0]
    if program.backend == "xla" and device.target == program.target:
        return device.load(program, compiled)
    if device.platform != program.backend:
        raise DeviceUnavailableError(f"load: {program.name} was compiled for {program.backend}, not for {device!r}")
    if queue not in (None, "inline", "threaded", "deferred"):
        raise ValueError(f"load: queue must be 'inline', 'threaded' or 'deferred', got {queue!r}")
    if queue == "inline" and device.inline is None:
        raise ValueError(f"load: {device!r} has no inline queue")
    if program.symbols.sources:
        return DynamicExecutable(program, device, queue, names)
    kind = Executable if program.vmfb else Evaluated
    return kind(program, device, queue)
