"""What layers need of those above them, as protocols.

`veery.lax` provides the operations, `veery._dispatch` the backend, `veery._reference` the verifier: `veery._api` puts
them here when `veery` is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from veery._core.array import ArrayImpl
    from veery._core.avals import AbstractValue, ShapedArray
    from veery._core.jaxpr import ClosedJaxpr
    from veery._core.primitive import Primitive


class Operations(Protocol):
    """Operations that transformations make themselves. Values are arrays or tracers."""

    def zeros(self, aval: ShapedArray) -> Any:
        """An array of zeros."""

    def reshard(self, x: Any, sharding: Any) -> Any:
        """A value that is divided in another way over Explicit axes of a mesh."""

    def add(self, x: Any, y: Any) -> Any:
        """The sum of two tangents."""

    def copy(self, x: Any) -> Any:
        """The same value, as the result of an equation."""

    def dimension_value(self, dimension: Any) -> Any:
        """A symbolic dimension as a traced integer."""

    def broadcast_in_dim(self, x: Any, shape: Sequence[Any], broadcast_dimensions: Sequence[int]) -> Any:
        """`lax.broadcast_in_dim`."""

    def moveaxis(self, x: Any, source: int, destination: int) -> Any:
        """`numpy.moveaxis`."""

    def invariant_sum(self, x: Any, axes: Sequence[Any]) -> Any:
        """The sum over named axes of a mesh, along which it does not vary any more."""

    def sum_over(self, x: Any, axes: Sequence[int]) -> Any:
        """The sum over some dimensions."""

    def read(self, ref: Any) -> Any:
        """What a reference holds."""

    def new_ref(self, value: Any) -> Any:
        """A reference that holds a value."""

    def write(self, ref: Any, value: Any) -> None:
        """Replace what a reference holds."""

    def stage(self, fun: Callable[..., Sequence[Any]], in_avals: Sequence[AbstractValue]) -> ClosedJaxpr:
        """The jaxpr of a function of flat arguments."""


class Backend(Protocol):
    """What evaluates: arrays on devices, and programs that run on them."""

    def run_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluate one operation on concrete values."""

    def execute(self, closed: ClosedJaxpr, name: str, args: Sequence[Any]) -> list[Any]:
        """Run a jaxpr without constants on concrete values, as one program."""

    def exchanges(self) -> Any:
        """The runtime's exchanges between the programs of a `pmap`."""

    def array_from_numpy(self, value: np.ndarray, aval: ShapedArray) -> ArrayImpl:
        """A concrete array on the default device."""

    def as_array(self, x: Any) -> ArrayImpl:
        """What may be an argument of an operation, as a concrete array."""

    def host_array(self, value: np.ndarray) -> ArrayImpl:
        """A concrete array on the CPU, which owns `value` from then on."""

    def foreign(self) -> Any:
        """The runtime's functions of compiled libraries."""

    def on_host(self) -> AbstractContextManager[None]:
        """A context in which new arrays go to the CPU."""

    def default_hardware(self) -> str:
        """What the default device is: its platform, but for XLA's, which are "cpu", "cuda", "tpu", ..."""

    def effects_happened(self) -> None:
        """Wait for the effects of the calls so far."""


class Distribution(Protocol):
    """What concerns arrays on several devices."""

    def execute_on_devices(self, *args: Any, **params: Any) -> list[Any]:
        """Run the program of a `pmap` on several devices."""

    def execute_on_mesh(self, *args: Any, **params: Any) -> list[Any]:
        """Run the program of a `shard_map` on the devices of a mesh."""

    def place(self, x: Any, sharding: Any) -> ArrayImpl:
        """A value as a concrete array that is laid out like this."""

    def concrete_mesh(self, mesh: Any, args: Sequence[Any]) -> Any:
        """The mesh of devices that an abstract one stands for, by the context or these values; else a ValueError."""

    def is_known(self, mesh: Any, args: Sequence[Any]) -> bool:
        """Whether these tell it."""

    def partitioned(
        self, closed: ClosedJaxpr, types: Sequence[Any], name: str, arrays: Sequence[ArrayImpl]
    ) -> list[ArrayImpl] | None:
        """The results of a program that is divided among the devices of its arguments; None where it cannot be."""

    def spread(self, outs: list[ArrayImpl], args: Sequence[ArrayImpl], name: str) -> list[ArrayImpl]:
        """What one device computed of arrays on several, as arrays on these."""


class Verifier(Protocol):
    """What compares compiled programs with the reference, where `veery_verify` is set."""

    def run_verified(
        self, executable: Any, buffers: Sequence[Any], closed: ClosedJaxpr, name: str, device: Any, options: Any
    ) -> Sequence[Any]:
        """Run a program on buffers and compare its results."""

    def verify_pmap(self, args: Sequence[Any], outs: Sequence[Any], devices: tuple[Any, ...], **params: Any) -> None:
        """Compare what a `pmap` returned."""

    def verify_distributed(
        self, closed: ClosedJaxpr, args: Sequence[Any], outs: Sequence[Any], devices: tuple[Any, ...], name: str
    ) -> None:
        """Compare what several devices returned with the jaxpr that computes the same."""


operations: Operations
backend: Backend
distribution: Distribution
verifier: Verifier
