"""Arrays on several devices, and programs that run on all of them at once.

There is no partitioner: a program without `shard_map` that is given arrays on several devices runs on the first of
them, on the whole arrays. What it returns is laid out over all again, as soon as somebody asks for the parts. A
partitioner would take the place of `spread`, and of the parts between operations on several devices
(`_transforms.parts`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import _dispatch
from veery._core import provided, recording
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of, explicit_part
from veery._core.config import config
from veery._core.jaxpr import ClosedJaxpr
from veery._core.memory import DEVICE, MemorySpace, kind_of, space_of
from veery._core.mesh import Mesh, context, devices_of
from veery._core.partition_spec import PartitionSpec
from veery._core.sharding import NamedSharding, Sharding, SingleDeviceSharding
from veery._core.transfers import guard
from veery._dispatch import as_array, move, runtime
from veery._transforms.parts import on_one_device
from veery.lax import _shard_map
from veery.lax._exchange import Axes, device_program

# Arrays.


def layout_of(x: ArrayImpl) -> Sharding | None:
    """How an array is laid out over several devices; None for one that was put on a device, or nowhere."""
    return x._buffer.layout if x._buffer.device is None else None


def in_memory(x: Any, space: MemorySpace) -> Sharding:
    """The sharding of a value in another memory of the devices that it is on."""
    sharding = x.sharding if isinstance(x, ArrayImpl) else SingleDeviceSharding(_dispatch.default_device())
    return sharding.with_memory_kind(kind_of(space))


def place(x: Any, sharding: Any, explicit: bool = False) -> ArrayImpl:
    """A value as an array that is laid out like this; `explicit` if the user asked for it.

    Raises:
        ValueError: the sharding does not fit the shape, or its mesh is abstract.
    """
    if isinstance(sharding, MemorySpace):
        sharding = in_memory(x, sharding)
    if isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh):
        sharding = sharding.update(mesh=concrete_mesh(sharding.mesh, [x]).update(axis_types=sharding.mesh.axis_types))
    if isinstance(sharding, SingleDeviceSharding) and sharding.memory_kind == DEVICE:
        return move(as_array(x), sharding._device, explicit)
    if not isinstance(x, ArrayImpl):
        aval = aval_of(x)
        guard("host_to_device", aval, sharding, explicit)
        value = np.asarray(x.__jax_array__() if hasattr(x, "__jax_array__") else x, aval.dtype)
        return from_pieces(aval, sharding, [value[index] for index in sharding.indices(aval.shape)])
    if x._buffer.device is None and x.sharding == sharding:
        return x
    sharding.check_compatible_aval(x.shape)
    indices, devices = sharding.indices(x.shape), holders(sharding)
    guard("device_to_device", x.aval, sharding, explicit)
    if x._buffer.device is None and x.sharding.is_equivalent_to(sharding, x.ndim):
        return _sharded(x.aval, sharding, list(x._buffer.pieces()))
    value = x._buffer.numpy()
    pieces = [
        runtime().spmd.kept(x._buffer)
        if x._buffer.device is device and value[index].shape == x.shape
        else runtime().put(np.asarray(value[index], order="C"), device)
        for device, index in zip(devices, indices)
    ]
    return _sharded(x.aval, sharding, pieces)


def from_pieces(aval: Any, sharding: Sharding, values: Sequence[np.ndarray]) -> ArrayImpl:
    """The array of which each device has the part given for it."""
    physical = getattr(aval.dtype, "physical", aval.dtype)
    pieces = [
        runtime().put(np.asarray(value, physical, order="C"), device)
        for value, device in zip(values, holders(sharding), strict=True)
    ]
    return _sharded(aval, sharding, pieces)


def from_arrays(aval: Any, sharding: Sharding, arrays: Sequence[ArrayImpl]) -> ArrayImpl:
    """The array of which these are the parts, each on its device."""
    return _sharded(aval, sharding, [runtime().spmd.kept(x._buffer) for x in arrays])


def _sharded(aval: Any, sharding: Sharding, pieces: Sequence[Any]) -> ArrayImpl:
    indices, space = sharding.indices(aval.shape), space_of(sharding.memory_kind)
    buffer = runtime().spmd.ShardedBuffer(aval.shape, holders(sharding), indices, sharding, shards=pieces)
    return ArrayImpl(aval.update(divided=explicit_part(sharding, aval.ndim), memory_space=space), buffer, True)


def holders(sharding: Sharding) -> tuple[Any, ...]:
    """The devices whose memory has the parts: those of the sharding, or the CPU for each whose own memory is not meant.

    Of a device that computes in the host's memory all memories are the same.
    """
    devices = sharding._device_assignment
    if sharding.memory_kind in (None, DEVICE):
        return devices
    return tuple(d if d.host_visible else _dispatch.first_device("cpu") for d in devices)


def concrete_mesh(mesh: Any, args: Sequence[Any]) -> Mesh:
    """The mesh of devices that an abstract one stands for: that of the context, or of the arrays.

    Raises:
        ValueError: no array is on such a mesh.
    """
    found = _found_mesh(mesh, args)
    if found is None:
        raise ValueError(
            f"nothing tells which devices {mesh} stands for. Please pass `jax.Array`s with a `NamedSharding` as input "
            "to `shard_map` when passing `AbstractMesh` to the mesh argument, or enter the context of a mesh by "
            "`jax.set_mesh`."
        )
    return found


def is_known(mesh: Any, args: Sequence[Any]) -> bool:
    """Whether the context or one of these values tells which devices an abstract mesh stands for."""
    return _found_mesh(mesh, args) is not None


def _found_mesh(mesh: Any, args: Sequence[Any]) -> Mesh | None:
    if isinstance(mesh, Mesh):
        return mesh
    for x in (None, *args):
        found = getattr(layout_of(x), "mesh", None) if isinstance(x, ArrayImpl) else context().concrete
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found
    around = context()
    if around.concrete is None or around.abstract is None or around.abstract.shape_tuple != mesh.shape_tuple:
        return None
    return _in_form(around.concrete, mesh) if around.concrete.size == mesh.size else None


def _in_form(mesh: Mesh, form: Any) -> Mesh:
    """The devices of a mesh in the form of another one, which `use_abstract_mesh` names, if it is for as many."""
    if form.shape_tuple == mesh.shape_tuple or form.size != mesh.size:
        return mesh
    return Mesh(mesh.devices.reshape(form.axis_sizes), form.axis_names, form.axis_types)


def layouts(out_avals: Sequence[Any], given: Sequence[tuple[Any, Any]]) -> list[Sharding | None]:
    """Where the results of a program belong, by their types, and the types and shardings of its arguments.

    Over Explicit axes a result is laid out as its type says. Over others it is laid out as the arguments of its shape
    are, where these agree, else each device has it whole.
    """
    named = [(aval.shape, sharding) for aval, sharding in given if isinstance(sharding, NamedSharding)]
    if not named:
        single = next((sharding for _, sharding in given if sharding is not None), None)
        return [_in_memory_of(aval, single) for aval in out_avals]
    whole = NamedSharding(named[0][1].mesh, PartitionSpec())
    found: list[Sharding | None] = []
    for aval in out_avals:
        alike = {sharding for shape, sharding in named if shape == aval.shape and aval.ndim}
        mesh = _mesh_of(aval, whole.mesh)
        typed = whole.update(mesh=mesh, spec=_spec_of(aval, mesh))
        chosen = alike.pop() if len(alike) == 1 else typed
        if explicit_part(chosen, aval.ndim) != aval.divided:
            chosen = typed
        found.append(_in_memory_of(aval, chosen))
    return found


def _in_memory_of(aval: Any, sharding: Any) -> Any:
    """The sharding with the memory that a type tells."""
    kind = kind_of(aval.memory_space)
    return sharding if sharding is None or sharding.memory_kind == kind else sharding.with_memory_kind(kind)


def _mesh_of(aval: Any, mesh: Any) -> Any:
    """The mesh of the arguments or of the context, in the form that the type of a result names."""
    return _in_form(mesh, getattr(aval.divided, "mesh", mesh)) if isinstance(mesh, Mesh) else mesh


def _spec_of(aval: Any, mesh: Any) -> PartitionSpec:
    """How a type divides an array over this mesh; of Explicit axes it tells for each dimension."""
    if aval.divided is not None:
        spec: PartitionSpec = aval.divided.spec
        return spec
    return PartitionSpec(*[None] * aval.ndim) if mesh.explicit_axes else PartitionSpec()


def spread(outs: list[ArrayImpl], args: Sequence[ArrayImpl], name: str) -> list[ArrayImpl]:
    """The results of a program that one device computed, as arrays of the mesh that its arguments are on.

    Where these are on one device, that of the context, if arguments were not put elsewhere.
    """
    given = [(x.aval, layout_of(x)) for x in args if x._buffer.device is None]
    if not given:
        return in_their_memories(_spread_in_context(outs, args))
    count = given[0][1].num_devices  # type: ignore[union-attr]
    if count > 1:
        _dispatch.log_compilation("jit(%s) gathers its arguments from %d devices, and runs on one.", name, count)
    return [_spread(x, sharding) for x, sharding in zip(outs, layouts([x.aval for x in outs], given))]


def _spread(x: ArrayImpl, sharding: Any) -> ArrayImpl:
    if isinstance(sharding, SingleDeviceSharding) and sharding.memory_kind == DEVICE:
        return ArrayImpl(x.aval, x._buffer, True)
    devices, indices = holders(sharding), sharding.indices(x.shape)
    whole = x._buffer if x._buffer.device in devices else move(x, devices[0], explicit=True)._buffer
    buffer = runtime().spmd.ShardedBuffer(x.shape, devices, indices, sharding, whole=whole)
    return ArrayImpl(x.aval, buffer, True)


def in_their_memories(outs: list[ArrayImpl]) -> list[ArrayImpl]:
    """What a program has computed on its device, in the memories that the types tell."""
    return [
        x
        if x.aval.memory_space is MemorySpace.Device or x._buffer.device is None
        else _spread(x, _in_memory_of(x.aval, SingleDeviceSharding(x._buffer.device)))
        for x in outs
    ]


def _spread_in_context(outs: list[ArrayImpl], args: Sequence[ArrayImpl]) -> list[ArrayImpl]:
    mesh = context().concrete
    if mesh is None or mesh.empty or any(x._committed for x in args):
        return outs
    devices = devices_of(mesh)
    meshes = [_mesh_of(x.aval, mesh) for x in outs]
    shardings = (NamedSharding(of, _spec_of(x.aval, of)) for x, of in zip(outs, meshes))
    return [_spread(x, place) if x._buffer.device in devices else x for x, place in zip(outs, shardings)]


def partitioned(
    closed: ClosedJaxpr, types: Sequence[Any], name: str, arrays: Sequence[ArrayImpl]
) -> list[ArrayImpl] | None:
    """The results, of these types, of a program that XLA divides among the devices that its arguments are on.

    None where it has to run on one device: the devices are not of one PJRT plugin, or it calls Python functions.
    """
    laid_out = [layout_of(x) for x in arrays]
    meshes = {x.mesh if isinstance(x, NamedSharding) else None for x in laid_out if x is not None}
    mesh = meshes.pop() if len(meshes) == 1 else None
    if not isinstance(mesh, Mesh) or mesh.size == 1 or _dispatch.calls_python(closed) or closed.effects:
        return None
    devices = devices_of(mesh)
    if not _of_one_plugin(devices):
        return None
    whole = NamedSharding(mesh, PartitionSpec())
    ins = [x if isinstance(x, NamedSharding) else whole for x in laid_out]
    outs = layouts(types, [(x.aval, layout) for x, layout in zip(arrays, laid_out)])
    known, key = closed.derived.on_devices, (devices, *ins, *outs)
    if key not in known:
        lowered = _dispatch.lower_jaxpr(closed, name, _dispatch.target_of(devices[0]), (False,) * len(ins))
        words = [[_in_xlas_words(s, aval.ndim) for s, aval in zip(*side)]
                 for side in ((ins, closed.in_avals), (outs, closed.out_avals))]  # fmt: skip
        program = _dispatch.compile_lowered(lowered.partitioned(*words), None)[0]
        shapes = [s.shard_shape(aval.shape) for s, aval in zip(outs, closed.out_avals)]  # type: ignore[union-attr]
        known[key] = runtime().several(program, devices, shapes).run
    parts = [_parts(x, sharding) for x, sharding in zip(arrays, ins)]
    results = known[key]([[part[i] for part in parts] for i in range(len(devices))])
    return [
        _sharded(aval, sharding, [result[j] for result in results])  # type: ignore[arg-type]
        for j, (aval, sharding) in enumerate(zip(types, outs))
    ]


def _of_one_plugin(devices: Sequence[Any]) -> bool:
    """Whether devices are those of one PJRT plugin, which run a program together."""
    clients = {device.client for device in devices}
    return len(clients) == 1 and clients.pop().runtime_type == "pjrt_c_api"


def _in_xlas_words(sharding: Any, ndim: int) -> str:
    """A sharding as text: how many parts each dimension has, and the device that has each of them."""
    counts, blocks = sharding._blocks(ndim)
    if math.prod(counts) == 1:
        return "{replicated}"
    order = sorted(range(len(blocks)), key=lambda device: (blocks[device], device))
    copies = len(blocks) // math.prod(counts)
    tiles = ",".join(map(str, (*counts, copies) if copies > 1 else counts))
    return f"{{devices=[{tiles}]{','.join(map(str, order))}{' last_tile_dim_replicate' if copies > 1 else ''}}}"


# Programs of `shard_map`.


def execute_on_mesh(
    *args: Any,
    jaxpr: ClosedJaxpr,
    mesh: Any,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
    manual_axes: tuple[Any, ...],
    check_vma: bool,
) -> list[ArrayImpl]:
    """Run a program on the parts of its arguments, on the devices of a mesh."""
    name = jaxpr.debug_info.name
    _dispatch.check_execution(name)
    arrays = [as_array(x) for x in args]
    mesh = concrete_mesh(mesh, arrays)
    params = dict(
        jaxpr=jaxpr, mesh=mesh, in_specs=tuple(in_specs), out_specs=tuple(out_specs), manual_axes=manual_axes,
        check_vma=check_vma,
    )  # fmt: skip
    shardings = [NamedSharding(mesh, spec) for spec in out_specs]
    _check_devices(arrays, mesh, name)
    if mesh.size == 1:
        closed = _on_one_device(arrays, params)
        device = devices_of(mesh)[0]
        outs = _dispatch.execute(closed, name, arrays, _dispatch.How(device=device))
        return [_sharded(x.aval, s, [x._buffer]) for x, s in zip(outs, shardings)]
    devices = devices_of(mesh)
    launch = _launcher(jaxpr, name, mesh.shape_tuple, devices)
    parts = [_parts(x, NamedSharding(mesh, spec)) for x, spec in zip(arrays, in_specs)]
    results = launch([[p[i] for p in parts] for i in range(len(devices))])
    outs = []
    for j, (aval, spec, sharding) in enumerate(zip(jaxpr.out_avals, out_specs, shardings)):
        whole = _shard_map.assembled(aval, spec, mesh, manual_axes)
        outs.append(_sharded(whole, sharding, [r[j] for r in results]))
    _dispatch.check_special(outs, name)
    if config.veery_verify != "off":
        provided.verifier.verify_distributed(_on_one_device(arrays, params), arrays, outs, devices, name)
    return outs


def _on_one_device(args: Sequence[ArrayImpl], params: dict[str, Any]) -> ClosedJaxpr:
    composed = _shard_map.shard_map_p.composed(tuple(x.aval.update(divided=None) for x in args), tuple(params.items()))
    return on_one_device(composed)


def _check_devices(args: Sequence[ArrayImpl], mesh: Mesh, name: str) -> None:
    """Raise ValueError for an argument that was put on devices other than those of the mesh."""
    devices = devices_of(mesh)
    for x in args:
        layout = layout_of(x)
        if layout is not None and set(layout._device_assignment) != set(devices):
            raise ValueError(
                f"Received incompatible devices for jitted computation. Got argument with shape {x.aval.str_short()} "
                f"and device ids {[d.id for d in layout._device_assignment]}, and a mesh with device ids "
                f"{[d.id for d in devices]}, in {name}. Move it with jax.device_put(x, sharding)."
            )


def _launcher(jaxpr: ClosedJaxpr, name: str, axes: Axes, devices: tuple[Any, ...]) -> Callable[[list[Any]], Any]:
    """What runs the program on the buffers for each device, and returns the results of each.

    Devices of one PJRT plugin run it as the replicas of one program; others in a thread each.
    """
    known = jaxpr.derived.on_devices
    if devices not in known:
        program = device_program(on_one_device(jaxpr), axes)
        donated = (False,) * len(program.in_avals)
        compiled = {
            target: _dispatch.compile_lowered(_dispatch.lower_jaxpr(program, name, target, donated), None)[0]
            for target in set(map(_dispatch.target_of, devices))
        }
        if _of_one_plugin(devices):
            known[devices] = runtime().several(next(iter(compiled.values())), devices).run
        else:
            inline = lambda d: "inline" if d.inline is not None else None
            loaded = [runtime().load(compiled[_dispatch.target_of(d)], d, queue=inline(d)) for d in devices]
            known[devices] = functools.partial(runtime().spmd.run, loaded)
    found: Callable[[list[Any]], Any] = known[devices]
    return found


def _parts(x: ArrayImpl, sharding: NamedSharding) -> Sequence[Any]:
    """A buffer for each device: its part of an array."""
    layout = layout_of(x)
    if layout is not None and layout.is_equivalent_to(sharding, x.ndim):
        found: Sequence[Any] = x._buffer.pieces()
        return found
    devices = sharding._device_assignment
    if sharding.is_fully_replicated:
        return [move(x, device)._buffer for device in devices]
    value = x.to_numpy()
    return [
        runtime().put(np.asarray(value[index], order="C"), device)
        for index, device in zip(sharding.indices(x.shape), devices)
    ]


# Programs of `pmap`.


def execute_on_devices(
    *args: Any,
    jaxpr: ClosedJaxpr,
    name: str,
    axis_name: Any,
    axis_size: int,
    in_mapped: tuple[bool, ...],
    out_mapped: tuple[bool, ...],
    devices: tuple[Any, ...],
) -> list[ArrayImpl]:
    """Run a program on the slices of its mapped arguments, one on each device."""
    _dispatch.check_execution(name)
    launch = _launcher(jaxpr, name, ((axis_name, axis_size),), devices)
    shards = [_slices(as_array(x), mapped, devices) for x, mapped in zip(args, in_mapped)]
    with recording.Span(f"pmap({name})", "call"):
        results = launch([[s[i] for s in shards] for i in range(axis_size)])
    mesh = Mesh(np.array(devices, dtype=object), (axis_name if isinstance(axis_name, str) else _PMAP_AXIS,))
    outs = []
    for j, (aval, mapped) in enumerate(zip(jaxpr.out_avals, out_mapped)):
        if mapped:
            buffer = _stacked([r[j] for r in results], 0, mesh)
            outs.append(ArrayImpl(aval.update(shape=(axis_size, *aval.shape)), buffer, True))
        else:
            outs.append(ArrayImpl(aval, results[0][j]))
    _dispatch.check_special(outs, name)
    if config.veery_verify != "off":
        provided.verifier.verify_pmap(
            [as_array(x) for x in args], outs, devices, jaxpr=jaxpr, name=name, axis_name=axis_name,
            axis_size=axis_size, in_mapped=in_mapped, out_mapped=out_mapped,
        )  # fmt: skip
    return outs


_PMAP_AXIS = "_internal_pmap_axis_name"  # as in JAX


def _stacked(shards: Sequence[Any], axis: int, mesh: Mesh) -> Any:
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, *mesh.axis_names))
    return runtime().spmd.StackedBuffer(shards, axis, sharding)


def stacking_axis(x: ArrayImpl) -> int | None:
    """The axis along which a `pmap` has divided an array among devices."""
    return getattr(x._buffer, "axis", None)


def stacked_along(x: ArrayImpl, axis: int) -> ArrayImpl:
    """The array whose slices along `axis` are those that x is divided into; they stay on their devices."""
    shape = list(x.shape)
    shape.insert(axis, shape.pop(x._buffer.axis))
    buffer = _stacked(x._buffer.shards, axis, x._buffer.layout.mesh)
    return ArrayImpl(x.aval.update(shape=tuple(shape)), buffer, True)


def _slices(x: ArrayImpl, mapped: bool, devices: Sequence[Any]) -> list[Any]:
    """A buffer for each device: slices along the leading axis, or the whole."""
    held = x._buffer.shards if stacking_axis(x) == 0 else None
    if mapped and held is not None and tuple(s.device for s in held) == tuple(devices):
        return list(held)
    if not mapped:
        return [move(x, d)._buffer for d in devices]
    value = x.to_numpy()
    return [runtime().put(np.asarray(value[i], order="C"), d) for i, d in enumerate(devices)]
