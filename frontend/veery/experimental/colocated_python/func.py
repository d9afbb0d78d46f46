"""Functions and classes that run beside the devices of their arguments: in this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veery._api.placement import device_put, devices as all_devices
from veery._api.shape_structs import ShapeDtypeStruct
from veery._core import tree
from veery._core.array import Array
from veery._core.mesh import Mesh


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices of the machines that other devices are in.

    Args:
        devices_or_mesh: devices, or a mesh of them.

    Returns:
        As many CPU devices in a list, in that order, or a mesh of them. CPU devices are returned as they are.

    Raises:
        ValueError: there are fewer CPU devices.

    >>> import veery
    >>> from veery.experimental import colocated_python as cp
    >>> cp.colocated_cpu_devices(veery.devices("cpu")[:1]) == veery.devices("cpu")[:1]
    True
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        grid = np.array(colocated_cpu_devices(tuple(mesh.devices.flat)), dtype=object)
        return Mesh(grid.reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)
    wanted = list(devices_or_mesh)
    if all(device.platform == "cpu" for device in wanted):
        return wanted
    known = all_devices("cpu")
    if len(wanted) > len(known):
        raise ValueError(
            f"there are {len(known)} CPU devices for {len(wanted)} others: set jax_num_cpu_devices to that many"
        )
    return known[: len(wanted)]


@dataclass(frozen=True)
class _Specialization:
    """What is known of arguments and results before a call."""

    in_specs: Any = None
    out_specs_fn: Callable[..., Any] | None = None
    devices: Sequence[Any] | None = None


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs as Python, beside the devices of its arguments: in this process.

    Args:
        fun: function of pytrees of arrays, which gives such.

    Returns:
        The function. Its method `specialize(in_specs, out_specs_fn, devices)` gives one that takes arguments of these
        shapes only (`in_specs` is a pair of positional and keyword arguments), whose results must be as a function of
        the arguments' shapes says, and that runs on given devices. Each can be said once.

    Raises:
        ValueError: an argument or a result is no array, or is not as was said.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import colocated_python as cp
    >>> @cp.colocated_python
    ... def plus_one(x):
    ...     return x + 1
    >>> plus_one(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    return _callable(fun, _Specialization())


def _callable(fun: Callable[..., Any], known: _Specialization) -> Callable[..., Any]:
    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        specs = tree.tree_map(_spec, (args, kwargs))
        if known.in_specs is not None:
            _check("arguments", specs, known.in_specs)
        if known.devices is None and not tree.tree_leaves(specs):
            raise ValueError("a call without arrays does not say where it runs: specialize(devices=...) does")
        outs = fun(*args, **kwargs)
        out_specs = tree.tree_map(_spec, outs)
        if known.out_specs_fn is None:
            return outs
        wanted = known.out_specs_fn(*specs[0], **specs[1])
        _check("results", out_specs, wanted)
        return tree.tree_map(lambda x, spec: x if spec.sharding is None else device_put(x, spec.sharding), outs, wanted)

    def specialize(
        in_specs: Any = None, out_specs_fn: Callable[..., Any] | None = None, devices: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        said = {"in_specs": in_specs, "out_specs_fn": out_specs_fn, "devices": devices}
        for name, value in said.items():
            if value is not None and getattr(known, name) is not None:
                raise ValueError(f"{name} already specified")
        return _callable(fun, replace(known, **{name: value for name, value in said.items() if value is not None}))

    call.specialize = specialize  # type: ignore[attr-defined]
    return call


def _spec(x: Any) -> ShapeDtypeStruct:
    if not isinstance(x, Array):
        raise ValueError(f"colocated_python only supports jax.Array as input and output, but got {type(x)}.")
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def _check(what: str, found: Any, wanted: Any) -> None:
    shapes = [tree.tree_map(lambda x: (tuple(x.shape), np.dtype(x.dtype).name), specs) for specs in (found, wanted)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the {what} were specified as {shapes[1]}, but are {shapes[0]}")


def colocated_python_class(cls: type) -> type:
    """A class whose objects live beside devices, and are made when a method is called first: in this process.

    Args:
        cls: a class whose methods take and give pytrees of arrays.

    Returns:
        A class with the same methods, each as of `colocated_python`.

    >>> import veery.numpy as jnp
    >>> from veery.experimental import colocated_python as cp
    >>> @cp.colocated_python_class
    ... class Counter:
    ...     def __init__(self):
    ...         self.total = 0
    ...     def add(self, x):
    ...         self.total += x
    ...         return self.total
    >>> counter = Counter()
    >>> [counter.add(jnp.int32(2)).item() for _ in range(2)]
    [2, 4]
    """

    @functools.wraps(cls, updated=())
    class Colocated:
        def __init__(self, *args: Any, **kwargs: Any):
            made = functools.cache(lambda: cls(*args, **kwargs))
            for name, method in inspect.getmembers(cls, inspect.isfunction):
                if name not in ("__init__", "__del__", "__reduce__", "__reduce_ex__"):
                    setattr(self, name, colocated_python(_late_method(made, name, method)))

    return Colocated


def _late_method(made: Callable[[], Any], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(made(), name)(*args, **kwargs)

    return call
