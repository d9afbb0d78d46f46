"""Python functions that compiled programs call: imported VM functions.

Programs with such functions are compiled to run to their end where they are submitted: the functions run there, and a
worker submits what is too large for its caller's thread. (Compiled with fences, IREE 3.13 may wait for what a function
is to signal before it has called it: `return x, sort(switch(i, ...))` never ended.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_runtime import iree, workers
from veery_runtime.buffer import Spec
from veery_runtime.device import Device
from veery_runtime.errors import remember


def host_module(calls: Sequence[Any], device: Device, with_routines: bool = False) -> iree.VmModule:
    """The VM module `host` with the Python functions of one program, and what tells where the table of routines is."""
    interface = iree.PyModuleInterface("host", lambda _: None)
    if with_routines:
        table = _address()
        interface.export("routines", "0v_I", lambda _: table)
    for call in calls:
        inputs = specs(device, call.inputs)
        outputs = specs(device, call.outputs)
        arguments = "r" * len(inputs)  # tensors are references
        convention = f"0{arguments or 'v'}_{'r' * len(outputs) or 'v'}"
        function = HostFunction(call.symbol, call.function, inputs, outputs, device)
        interface.export(call.symbol, convention, _called(function))
    return interface.create()


table_of_routines: Callable[[], int] | None = None  # see `configure`


def _address() -> int:
    if table_of_routines is None:
        raise RuntimeError("a program calls LAPACK's routines, whose addresses veery has: import it first")
    return table_of_routines()


def has_effects(calls: Sequence[Any]) -> bool:
    """Whether some of a program's calls are not pure."""
    return any(not call.pure for call in calls)


def reads_only(function: Callable[..., Any]) -> bool:
    """Whether a function says that it neither changes nor keeps what it is given, and calls no programs."""
    return bool(getattr(function, "reads_only", False))


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
        self.reads_only = reads_only(function)

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
        if self.reads_only:  # and calls no programs
            results = self.function(*arguments)
        else:
            with workers.nesting():
                results = self.function(*map(np.array, arguments))
        if not self.outputs:
            return []
        if not isinstance(results, (tuple, list)):
            results = (results,)
        if len(results) != len(self.outputs):
            raise ValueError(f"{self._label()} returned {len(results)} arrays where {len(self.outputs)} were declared")
        return [self._check(i, result, spec) for i, (result, spec) in enumerate(zip(results, self.outputs))]

    def _check(self, index: int, result: Any, spec: Spec) -> np.ndarray[Any, Any]:
        array = np.asarray(result, order="C")
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


def _called(function: HostFunction) -> Callable[..., Any]:
    upload, outputs = function.device.upload, function.outputs

    def run(_: Any, *refs: iree.VmRef) -> Any:
        try:
            results = function.run([ref.deref(iree.HalBufferView) for ref in refs])
            if not results:
                return None
            # Copied: programs may not fill what is only shared with them.
            made = [upload(result, spec) for result, spec in zip(results, outputs)]
            return made[0] if len(made) == 1 else tuple(made)
        except BaseException as error:
            # IREE turns this into text; the marker in it leads back to `error`.
            raise RuntimeError(remember(error)) from None

    return run
