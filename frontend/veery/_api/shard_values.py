"""What a `shard_map` that is called with arrays knows of its values while it is traced: those on each device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._core.config import config
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from veery._core.mesh import Mesh, context, devices_of
from veery._core.partition_spec import PartitionSpec
from veery._core.trace import eval_trace, set_current_trace


class ShardValues:
    """Values by their tracers, which Python prints and branches on: what makes them runs once more for each.

    Args:
        mesh: the devices.
        run: `shard_map` without its types: `(function, out_spec)` -> the results.
        tracked: whether types tell along which axes values vary.

    Attributes:
        asked: whether a value was: another call with arrays of these types may go another way, or print others.
    """

    def __init__(self, mesh: Mesh, run: Callable[[Any, PartitionSpec], Any], tracked: bool):
        self._mesh = mesh
        self._run = run
        self._tracked = tracked
        self._context = context()
        self.asked = False

    def of(self, tracer: Any) -> np.ndarray:
        """The values on all devices, in the order of the mesh, along a first dimension."""
        self.asked = True
        closed = _makes(tracer)

        def stacked(*args: Any) -> Any:
            (value,) = eval_jaxpr(closed.jaxpr, closed.consts, *args)
            return lax.expand_dims(value, (0,))

        inside = config._mesh
        config.set_mesh(self._context)
        try:
            with set_current_trace(eval_trace):
                result: np.ndarray = self._run(stacked, PartitionSpec(self._mesh.axis_names)).to_numpy()
        finally:
            config.set_mesh(inside)
        return result

    def shared(self, tracer: Any) -> Any | None:
        """A value that is the same on all devices, as the types tell; None for others."""
        return self.of(tracer)[0] if self._tracked and not tracer.aval.varying else None

    def text(self, tracer: Any) -> str:
        """The values, each with its device."""
        names = ", ".join(map(str, self._mesh.axis_names))
        places = np.ndindex(self._mesh.axis_sizes)
        return "".join(
            f"On {device} at mesh coordinates ({names},) = {place}:\n{value}\n\n"
            for device, place, value in zip(devices_of(self._mesh), places, self.of(tracer))
        )[:-1]


def _makes(tracer: Any) -> ClosedJaxpr:
    """What makes a value of a trace of the arguments of that, without effects."""
    trace, needed = tracer._trace, {tracer._var}
    eqns: list[Any] = []
    for eqn in reversed(trace.eqns):
        if needed.intersection(eqn.outvars):
            needed.update(_variables(eqn.invars))
            eqns.append(eqn)
    jaxpr = Jaxpr(list(trace.constvars), list(trace.invars), [tracer._var], eqns[::-1], frozenset(), trace.debug_info)
    return ClosedJaxpr(jaxpr, list(trace.consts))


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not hasattr(atom, "val")]
