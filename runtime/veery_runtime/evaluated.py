"""Programs without code of IREE's: one function, of NumPy and the libraries behind it, evaluates them whole.

So there is nothing to compile and to load, and between the caller and the libraries there is one call of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_runtime.buffer import Buffer, Spec, put
from veery_runtime.completion import Failed
from veery_runtime.executable import Call, Executable


class Evaluated(Executable):
    """Such a program on a device whose memory the host sees. Its one host call takes and returns arrays.

    The results of the function may share memory with arguments, with each other, and with its `constants`: those that
    do are copied.
    """

    __slots__ = ("_function",)

    def __init__(self, program: Any, device: Any, queue: str | None) -> None:
        (call,) = program.host_calls
        self._function = call.function
        super().__init__(program, device, queue)

    def _load(self, inline: bool) -> Any:
        return self.device.inline, None, None

    def _run(self, refs: list[Any], waits: list[Any], inline: bool, loss: Any) -> tuple[list[Any], Failed | None]:
        for wait in waits:
            wait.wait()
        arguments = [self._read(ref, spec) for ref, spec in zip(refs, self.inputs)]
        try:
            return [buffer._ref for buffer in self._evaluated(arguments)], None
        except Exception as error:
            return [None] * len(self.outputs), Failed(error)

    def _read(self, ref: Any, spec: Spec) -> np.ndarray[Any, Any]:
        return self.device.read(ref, spec) if spec.nbytes else np.empty(spec.shape, spec.dtype)

    def _evaluated(self, arguments: list[np.ndarray[Any, Any]]) -> list[Buffer]:
        results = self._function(arguments)
        device, outputs = self.device, self.outputs
        shared: list[np.ndarray[Any, Any]] = []  # large results whose memory is theirs
        placed = []
        for result, spec in zip(results, outputs, strict=True):
            if result.shape != spec.shape or result.dtype != spec.dtype:
                raise TypeError(f"{self.name}: {spec.dtype.name}{spec.shape} became {result.dtype.name}{result.shape}")
            if spec.small:  # as `put` would copy it, which looks its description up: a microsecond
                placed.append(Buffer(device.upload(np.asarray(result, order="C"), spec), spec))
                continue
            taken = (*arguments, *self._function.constants, *shared)
            copy = any(np.may_share_memory(result, other) for other in taken)
            if not copy:
                shared.append(result)
            placed.append(put(result, device, copy=copy))
        return placed

    def inline_call(self) -> Call:
        queued, read, evaluated = self.call_queued, self._read, self._evaluated
        inputs = self.inputs

        def call(buffers: Sequence[Buffer]) -> list[Buffer]:
            arguments = []
            for buffer, spec in zip(buffers, inputs):
                if buffer._pending is not None:
                    return queued(buffers)
                host = buffer._host
                if type(host) is not np.ndarray:
                    # What was read is copied where it is donated later: large arrays are read anew instead.
                    host = buffer.numpy() if spec.small else read(buffer._ref, spec)
                arguments.append(host)
            try:
                return evaluated(arguments)
            except Exception as error:
                return self._fail(error)

        return call
