"""Arrays on several devices: made of their parts, and laid out anew."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from veery import _dispatch, _distributed
from veery._api.arguments import wraps
from veery._core import dtypes, source, tree
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.layout import sharding_of
from veery._core.mesh import AxisType, context, using
from veery._core.partition_spec import PartitionSpec, axes_of
from veery._core.sharding import NamedSharding, Sharding
from veery._core.trace import Tracer
from veery.lax._placement import reshard_p, resharded


def _sharding(place: Any, ndim: int, what: str) -> Sharding:
    sharding = sharding_of(place, ndim)
    if not isinstance(sharding, Sharding):
        raise TypeError(f"{what}: sharding must be an instance of `jax.sharding.Sharding`, got {place!r}")
    return sharding


@source.api_boundary
def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any], dtype: Any = None
) -> ArrayImpl:
    """An array of which each device's part is what a function gives for its index.

    Args:
        shape: of the whole array.
        sharding: how it is laid out.
        data_callback: from an index (a slice for each dimension) to the part, an array. It is called once for parts
            that several devices have.
        dtype: of the array; by default that of the parts.

    Raises:
        ValueError: the shape cannot be laid out like this, or a part has another shape than its index says.

    >>> import veery, numpy as np
    >>> place = veery.NamedSharding(veery.make_mesh((1,), ("x",)), veery.P("x"))
    >>> make_array_from_callback((4,), place, lambda index: np.arange(4)[index])
    Array([0, 1, 2, 3], dtype=int32)
    """
    shape = tuple(int(size) for size in shape)
    sharding = _sharding(sharding, len(shape), "make_array_from_callback")
    piece_shape, indices = sharding.shard_shape(shape), sharding.indices(shape)
    known: dict[Any, Any] = {}
    values = []
    for index in indices:
        key = tuple((part.start, part.stop) for part in index)
        if key not in known:
            known[key] = data_callback(index)
        values.append(known[key])
    if dtype is None:
        dtype = aval_of(values[0]).dtype
    aval = ShapedArray(shape, dtypes.canonicalize_dtype(dtypes.as_dtype(dtype), allow_extended_dtype=True))
    for value in values:
        _check_piece(np.shape(value), piece_shape, aval, sharding)
    host = [x.to_numpy() if isinstance(x, ArrayImpl) else np.asarray(x) for x in values]
    return _distributed.from_pieces(aval, sharding, host)


def _check_piece(found: tuple[int, ...], expected: tuple[int, ...], aval: ShapedArray, sharding: Sharding) -> None:
    if found != expected:
        raise ValueError(
            f"Expected shard shape {expected} doesn't match the single device array shape {found}. Shape of Array is "
            f"{aval.str_short(short_dtypes=False)} with sharding {sharding}"
        )


@source.api_boundary
def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None
) -> ArrayImpl:
    """An array of which these arrays, each on its device, are the parts.

    Args:
        shape: of the whole array.
        sharding: how it is laid out.
        arrays: an array on each of its devices, in any order.
        dtype: of the array, where there are no parts.

    Raises:
        TypeError: the arrays are in no sequence, or have different dtypes.
        ValueError: there are not as many as devices, two are on one device, or one has another shape than its part.

    >>> import veery, veery.numpy as jnp
    >>> place = veery.NamedSharding(veery.make_mesh((1,), ("x",)), veery.P("x"))
    >>> make_array_from_single_device_arrays((2,), place, [jnp.ones(2)]).sharding.spec
    P('x',)
    """
    shape = tuple(int(size) for size in shape)
    if not isinstance(arrays, Sequence):
        raise TypeError(f"All arrays must be in a sequence (e.g. a list), got {type(arrays)}")
    sharding = _sharding(sharding, len(shape), "make_array_from_single_device_arrays")
    if not arrays:
        raise ValueError(
            "If the Array has no addressable shards, `dtype` must be provided via the `dtype` argument to "
            "`jax.make_array_from_single_device_arrays`."
        )
    found = [_dispatch.as_array(x) for x in arrays]
    devices = sharding._device_assignment
    if len(found) != len(devices):
        raise ValueError(
            f"Expected {len(devices)} per-device arrays (this is how many devices are addressable by the sharding), "
            f"but got {len(found)}"
        )
    by_device = {x._buffer.device: x for x in found}
    if len(by_device) != len(found):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from distinct devices, but got "
            f"device IDs {[x.device.id for x in found]}"
        )
    if set(by_device) != set(devices):
        raise ValueError(
            f"Addressable devices and per-device arrays devices do not match. Sharding contains devices "
            f"{set(devices) - set(by_device)} that are not present in per-device arrays. Per-device arrays contain "
            f"devices {set(by_device) - set(devices)} that are not present in the sharding."
        )
    aval = found[0].aval.update(shape=shape)
    if any(x.dtype != aval.dtype for x in found):
        raise TypeError(f"Input buffers to `Array` must have matching dtypes. Got {[x.dtype.name for x in found]}")
    piece = sharding.shard_shape(shape)
    for x in found:
        _check_piece(x.shape, piece, aval, sharding)
    return _distributed.from_arrays(aval, sharding, [by_device[device] for device in devices])


@source.api_boundary
def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Sequence[int] | None = None
) -> Any:
    """An array of what each process has of it: here, of all.

    Args:
        sharding: how it is laid out.
        local_data: a pytree of arrays.
        global_shape: their shapes, or None.

    Raises:
        ValueError: the shape is another one, or cannot be laid out like this.

    >>> import veery, numpy as np
    >>> place = veery.NamedSharding(veery.make_mesh((1,), ("x",)), veery.P("x"))
    >>> make_array_from_process_local_data(place, np.arange(2))
    Array([0, 1], dtype=int32)
    """

    def one(data: Any, shape: Any = None) -> ArrayImpl:
        if shape is not None and tuple(shape) != np.shape(data):
            raise ValueError(
                "When calling `make_array_from_process_local_data` on a single process, global_shape should be None or "
                f"equal to local_data.shape.Got global_shape={tuple(shape)} and local_data.shape={np.shape(data)}."
            )
        return _distributed.place(data, _sharding(sharding, np.ndim(data), "make_array_from_process_local_data"))

    if maybe_aval_of(local_data) is not None:
        return one(local_data, global_shape)
    if global_shape is None:
        return tree.tree_map(one, local_data)
    leaves, treedef = tree.tree_flatten(local_data)
    return tree.tree_unflatten(treedef, [one(x, s) for x, s in zip(leaves, treedef.flatten_up_to(global_shape))])


@source.api_boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """Have values laid out anew over Explicit axes of a mesh.

    Args:
        xs: a pytree of arrays.
        out_shardings: a NamedSharding, or a PartitionSpec of the mesh of the context, for all; or a pytree prefix.

    Raises:
        ValueError: there is no mesh, an axis is not Explicit, or the sharding does not fit.

    >>> import veery, veery.numpy as jnp
    >>> with veery.set_mesh(veery.make_mesh((1,), ("x",))):
    ...     veery.reshard(jnp.ones(2), veery.P("x")).sharding.spec
    P('x',)
    """
    leaves, treedef = tree.tree_flatten(xs)
    places = tree.flatten_axes("reshard out_shardings", treedef, out_shardings)
    return tree.tree_unflatten(treedef, [resharded(x, place) for x, place in zip(leaves, places)])


def auto_axes(f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """A function within which Explicit axes of the mesh are Auto.

    Args:
        f: the function. Without it, a decorator.
        axes: names of the axes; all by default.
        out_sharding: the shardings of its results: a pytree prefix of NamedShardings or PartitionSpecs.

    Raises:
        TypeError: out_sharding is missing.
    """
    if f is None:
        return lambda f: auto_axes(f, axes=axes, out_sharding=out_sharding)
    fun = f

    @wraps(fun)
    def wrapped(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        if out_sharding is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        with _of_type(AxisType.Auto, axes):
            mesh = context().abstract
            out = fun(*tree.tree_map(lambda x: _retyped(x, mesh), args), **kwargs)
        around = context().abstract
        if axes is None and around is not None and not around.explicit_axes:
            return out  # no type says how it is divided
        return reshard(out, out_sharding)

    return wrapped


def explicit_axes(f: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """A function within which Auto axes of the mesh are Explicit.

    Args:
        f: the function. Without it, a decorator.
        axes: names of the axes; all by default.
        in_sharding: the shardings of its arguments: a pytree prefix of NamedShardings or PartitionSpecs.

    Raises:
        TypeError: in_sharding is missing.
    """
    if f is None:
        return lambda f: explicit_axes(f, axes=axes, in_sharding=in_sharding)
    fun = f

    @wraps(fun)
    def wrapped(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        if in_sharding is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        leaves, treedef = tree.tree_flatten(args)
        places = tree.flatten_axes("explicit_axes in_sharding", treedef, in_sharding)
        around = context().abstract
        with _of_type(AxisType.Explicit, axes):
            placed = [resharded(x, place, "explicit_axes in_sharding") for x, place in zip(leaves, places)]
            out = fun(*tree.tree_unflatten(treedef, placed), **kwargs)
        return tree.tree_map(lambda x: _retyped(x, around), out)

    return wrapped


def _retyped(x: Any, mesh: Any) -> Any:
    """A value as it is where some axes of its mesh are Auto; of a traced one these may divide a batch."""
    aval = maybe_aval_of(x)
    if mesh is None or aval is None or (aval.divided is None and not isinstance(x, Tracer)):
        return x
    spec = PartitionSpec() if aval.divided is None else aval.divided.spec
    devices = context().concrete
    if devices is not None and not isinstance(x, Tracer):
        return _distributed.place(x, NamedSharding(devices.update(axis_types=mesh.axis_types), spec))
    explicit = [[axis for axis in axes_of(entry) if axis in mesh.explicit_axes] for entry in spec]
    return reshard_p.bind(x, sharding=NamedSharding(mesh, PartitionSpec(*map(tuple, explicit))))


@contextlib.contextmanager
def _of_type(kind: AxisType, axes: Any) -> Iterator[None]:
    """A context in which axes of the mesh are of another type."""
    mesh = context().abstract
    if mesh is None:
        yield
        return
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    changed = {name: kind for name in names if mesh._name_to_type[name] is not AxisType.Manual}
    with using(abstract=mesh.update_axis_types(changed)):
        yield
