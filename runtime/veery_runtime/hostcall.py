"""Python functions that compiled programs call: imported VM functions.

In programs without effects each call receives, beside its arguments, a fence to wait for and a fence to signal, and
returns its results' buffers at once. On the inline queue everything before it is done, so the function runs right
there. On other queues a thread waits, runs the function, fills the buffers and signals, and whoever submitted the
program goes on.

Programs with effects or with several functions are synchronous: their calls have no fences, and the functions run where
the program was called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_runtime import iree, workers
from veery_runtime.buffer import Spec, put
from veery_runtime.completion import SLICE_NANOSECONDS
from veery_runtime.device import Device
from veery_runtime.errors import remember


def host_module(calls: Sequence[Any], device: Device, hal: iree.HalDevice, inline: bool) -> iree.VmModule:
    """The VM module `host` with the Python functions of one program on one queue."""
    interface = iree.PyModuleInterface("host", lambda _: None)
    synchronous = is_synchronous(calls)
    for call in calls:
        inputs = specs(device, call.inputs)
        outputs = specs(device, call.outputs)
        # tensors are references; the two fences follow the arguments
        arguments = "r" * (len(inputs) + (0 if synchronous else 2))
        convention = f"0{arguments or 'v'}_{'r' * len(outputs) or 'v'}"
        function = HostFunction(call.symbol, call.function, inputs, outputs, device)
        if synchronous:
            interface.export(call.symbol, convention, _synchronous(function))
        elif inline or not device.host_visible:
            interface.export(call.symbol, convention, _inline(function))
        else:
            interface.export(call.symbol, convention, _threaded(function, hal))
    return interface.create()


def has_effects(calls: Sequence[Any]) -> bool:
    """Whether some of a program's calls are not pure."""
    return any(not call.pure for call in calls)


def is_synchronous(calls: Sequence[Any]) -> bool:
    """Whether a program was compiled to have ended when its submission has; as in veery_lowering.emit.module."""
    return len(calls) > 1 or has_effects(calls)


def specs(device: Device, signature: Sequence[tuple[tuple[int, ...], str]]) -> list[Spec]:
    """The descriptions of a signature's arrays on a device."""
    return [device.spec(tuple(shape), iree.dtype_from_name(name)) for shape, name in signature]


class HostFunction:
    """A Python function with the signature under which a program imports it."""

    def __init__(
        self, symbol: str, function: Callable[..., Any], inputs: list[Spec], outputs: list[Spec], device: Device
    ) -> None:
        self.symbol = symbol
        self.function = function
        self.inputs = inputs
        self.outputs = outputs
        self.device = device
        self.reads_only = bool(getattr(function, "reads_only", False))

    def run(self, views: Sequence[iree.HalBufferView]) -> list[np.ndarray[Any, Any]]:
        """Calls the function with finished arguments; see `call`."""
        return self.call(
            [
                self.device.read_view(view, spec) if spec.nbytes else np.empty(spec.shape, spec.dtype)
                for view, spec in zip(views, self.inputs)
            ]
        )

    def call(self, arguments: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Calls the function with arrays: with copies, unless it only reads them.

        Raises:
          TypeError, ValueError: the results do not have the declared number, shapes or dtypes.
        """
        if not self.reads_only:
            arguments = [*map(np.array, arguments)]
        with workers.nesting():
            results = self.function(*arguments)
        if not self.outputs:
            return []
        if not isinstance(results, (tuple, list)):
            results = (results,)
        if len(results) != len(self.outputs):
            raise ValueError(f"{self._label()} returned {len(results)} arrays where {len(self.outputs)} were declared")
        return [self._check(i, result, spec) for i, (result, spec) in enumerate(zip(results, self.outputs))]

    def _check(self, index: int, result: Any, spec: Spec) -> np.ndarray[Any, Any]:
        array = np.asarray(result)
        if array.shape != spec.shape:
            raise ValueError(
                f"{self._label()}: result {index} was declared with shape {spec.shape} but has shape {array.shape}"
            )
        if array.dtype != spec.dtype:
            if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
                raise TypeError(f"{self._label()}: result {index} was declared {spec.dtype} but is {array.dtype}")
            array = array.astype(spec.dtype)
        return array

    def _label(self) -> str:
        return f"host function {getattr(self.function, '__name__', self.symbol)!r}"


def _returned(refs: list[iree.VmRef]) -> Any:
    return None if not refs else refs[0] if len(refs) == 1 else tuple(refs)


def _fence(ref: iree.VmRef) -> iree.HalFence | None:
    """The fence to wait for; a call without arguments has none."""
    try:
        return ref.deref(iree.HalFence)
    except TypeError:
        return None


def _await(fence: iree.HalFence | None) -> None:
    if fence is None:
        return
    while not fence.wait(timeout=SLICE_NANOSECONDS):
        pass


def _synchronous(function: HostFunction) -> Callable[..., Any]:
    def run(_: Any, *refs: iree.VmRef) -> Any:
        try:
            return _returned(_computed(function, refs))
        except BaseException as error:
            # IREE turns this into text; the marker in it leads back to `error`.
            raise RuntimeError(remember(error)) from None

    return run


def _computed(function: HostFunction, refs: Sequence[iree.VmRef]) -> list[iree.VmRef]:
    results = function.run([ref.deref(iree.HalBufferView) for ref in refs])
    return [
        put(result, function.device, copy=spec.small or not function.reads_only, sole=True)._ref
        for result, spec in zip(results, function.outputs)
    ]


def _inline(function: HostFunction) -> Callable[..., Any]:
    def run(_: Any, *refs: iree.VmRef) -> Any:
        *arguments, wait, signal = refs
        done = signal.deref(iree.HalFence)
        try:
            _await(_fence(wait))
            buffers = _computed(function, arguments)
        except BaseException as error:
            message = remember(error)
            done.fail(message)
            raise RuntimeError(message) from None
        done.signal()
        return _returned(buffers)

    return run


def _threaded(function: HostFunction, hal: iree.HalDevice) -> Callable[..., Any]:
    def run(_: Any, *refs: iree.VmRef) -> Any:
        *arguments, wait, signal = refs
        before, done = _fence(wait), signal.deref(iree.HalFence)
        views = [ref.deref(iree.HalBufferView) for ref in arguments]
        buffers = [
            iree.HalBufferView(iree.allocate_visible(hal, spec.nbytes or 1), spec.shape, spec.element_type)
            for spec in function.outputs
        ]

        def job() -> None:
            try:
                _await(before)
                for view, spec, result in zip(buffers, function.outputs, function.run(views)):
                    if spec.nbytes:
                        _fill(view, result)
            except BaseException as error:
                done.fail(_reason(error))
            else:
                done.signal()

        workers.host_calls.submit(job)
        return _returned([view.__iree_vm_ref__ for view in buffers])

    return run


def _reason(error: BaseException) -> str:
    """The text to fail a fence with; a failure that came along the fences keeps its marker."""
    text = str(error)
    return text if "[host exception" in text else remember(error)


def _fill(view: iree.HalBufferView, array: np.ndarray[Any, Any]) -> None:
    mapped = view.map().asarray((array.nbytes,), np.dtype(np.uint8))  # writable, unlike np.frombuffer of the mapping
    mapped[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
