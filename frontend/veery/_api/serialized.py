"""Compiled functions as bytes, and such again (see `veery.experimental.serialize_executable`)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veery import _dispatch
from veery._api import placement
from veery._api.entries import compile_for, refuse_refs
from veery._api.shape_structs import out_struct
from veery._api.stages import ArgInfo, Compiled, CompiledMemoryStats
from veery._api.structures import describe
from veery._core import source, tree, tree_registry
from veery._core.sharding import SingleDeviceSharding
from veery._transforms.float0 import holds_float0
from veery._transforms.parts import in_parts

_FORMAT = "veery-executable-1"


@dataclass(frozen=True)
class Description:
    """What is known of a function without its jaxpr; attributes as of `veery.stages.Traced`."""

    fun_name: str
    in_tree: Any
    out_tree: Any
    _in_types: tuple[Any, ...]
    _out_types: tuple[Any, ...]
    donated: tuple[bool, ...]
    _no_kwargs: bool = False

    @property
    def in_shardings(self) -> tuple[Any, ...]:
        return (None,) * len(self._in_types)

    @property
    def arg_names(self) -> tuple[str, ...]:
        return tuple(tree_registry.keystr(path) for path, _ in tree.tree_flatten_with_path(self.args_info)[0])

    @property
    def out_info(self) -> Any:
        return out_struct(self._out_types, self.out_tree)

    @property
    def args_info(self) -> Any:
        return tree.tree_unflatten(self.in_tree, list(map(ArgInfo, self._in_types, self.donated)))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        return tuple(i for i, donated in enumerate(self.donated) if donated)


class Deserialized(Compiled):
    """A compiled function that was serialized, maybe by another process: its jaxpr and StableHLO are not there."""

    def __init__(self, description: Description, program: Any, consts: Sequence[Any], executable: Any, costs: Any):
        super().__init__(description, None, program, executable, executable.device)
        self._consts = consts
        self._costs, self._memory = costs

    def cost_analysis(self) -> dict[str, Any]:
        """As of the function that was serialized."""
        return dict(self._costs)

    def memory_analysis(self) -> CompiledMemoryStats:
        """As of the function that was serialized."""
        return self._memory

    def as_text(self) -> None:
        """None: the StableHLO is not there."""
        return

    @source.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; see `Compiled.__call__`."""
        arrays = [_dispatch.as_array(x) for x in (*self._consts, *self._checked(args, kwargs))]
        outs = self._run(arrays, self._traced._out_types)
        _dispatch.check_special(outs, f"jit({self._traced.fun_name})")
        return tree.tree_unflatten(self.out_tree, outs)

    @property
    def output_shardings(self) -> Any:
        """Where the results are: a pytree like the output."""
        here = SingleDeviceSharding(self._device)
        return tree.tree_unflatten(self.out_tree, [here] * len(self._traced._out_types))

    def save(self, path: str | Path, *, weights: str | Path | None = None) -> None:
        """Refused: a file for `veery_runtime` is made of the function that was serialized.

        Raises:
            ValueError: always.
        """
        raise ValueError("save: a function that was serialized is no longer there to be saved; save it before")

    def _repr_html_(self) -> str:
        return f"<code>{self!r}</code>"


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """See `veery.experimental.serialize_executable`."""
    if isinstance(compiled, Deserialized):
        raise ValueError("Compilation does not support serialization: this function was serialized before.")
    traced = compiled._traced
    inner = traced._traced
    refuse_refs(inner)
    why = _refusal(compiled)
    if why is not None:
        raise ValueError(f"Compilation does not support serialization: {inner.name} {why}.")
    program, executable = compiled._program, compiled._executable
    on_xla = program.backend == "xla"
    made = None if not on_xla or executable is None else executable.serialize()
    if program.is_of_this_process:
        program = compile_for(traced, program.target)
    flat = lambda count: describe(tree.tree_structure(((0,) * count, {})))
    entry = _dispatch.entry(
        "main",
        [program],
        in_tree=flat(len(program.inputs) - len(inner.consts)),
        out_tree=flat(len(program.outputs)),
        parameters=(),
        names=(),
        constants=tuple(_dispatch.as_array(c).to_numpy() for c in inner.consts),
    )
    platform = None if compiled._device is None else compiled._device.platform
    rest = (inner.name, traced._in_types, traced._out_types, traced._donated, platform)
    costs = compiled.cost_analysis(), compiled.memory_analysis()
    payload = pickle.dumps((_FORMAT, _dispatch.artifact_bytes([entry]), made, rest, costs))
    return payload, traced.in_tree, traced.out_tree


def _refusal(compiled: Compiled) -> str | None:
    """Why a function cannot be serialized, if so."""
    traced = compiled._traced
    closed = traced._traced.program
    if traced._function._options.shardings is not None or in_parts(closed) is not None:
        return "is for several devices"
    if holds_float0(closed):
        return "takes or returns arrays of float0, which carry nothing"
    if any(not isinstance(n, int) for aval in traced._in_types for n in aval.shape):
        return "has symbolic shapes, for which `veery.aot.compile` and `veery.export` make files"
    if compiled._program.backend == "xla" and compiled._program.host_calls:
        return "calls Python functions"
    return None


class DamagedError(ValueError, pickle.UnpicklingError):
    """The bytes hold no function that was serialized."""


def deserialize_and_load(
    serialized: bytes, in_tree: Any, out_tree: Any, backend: Any = None, execution_devices: Any = None
) -> Compiled:
    """See `veery.experimental.serialize_executable`."""
    try:
        kind, artifact, made, rest, costs = pickle.loads(serialized)
    except Exception as error:
        raise DamagedError(f"deserialize_and_load: the data are no function that was serialized: {error}") from None
    if kind != _FORMAT:
        raise ValueError("deserialize_and_load: another version of veery serialized this function; do it anew")
    name, in_avals, out_avals, donated, platform = rest
    program, consts = _dispatch.read_program(artifact)
    description = Description(name, in_tree, out_tree, in_avals, out_avals, donated)
    device = _device(backend, execution_devices, platform or program.backend)
    return Deserialized(description, program, consts, _dispatch.load_made(program, device, made), costs)


def _device(backend: Any, execution_devices: Sequence[Any] | None, platform: str) -> Any:
    """The device to load on: the first of those that were named, of the platform that the program is for."""
    asked = backend if backend is None or isinstance(backend, str) else backend.platform
    devices = execution_devices or placement.devices(asked or platform)
    if asked is not None and execution_devices and execution_devices[0].platform != asked:
        raise ValueError(
            "Execution devices belong to a client other than `backend`. Got backend client: "
            f"{asked} and execution devices client: {execution_devices[0].platform}"
        )
    if devices[0].platform != platform:
        raise ValueError(
            f"deserialize_and_load: the function was compiled for {platform}, and is to be loaded on {devices[0]}"
        )
    return devices[0]
