"""Meshes of devices, and the one in whose context programs run."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from veery._api import platforms
from veery._core.config import config
from veery._core.mesh import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    AbstractMesh,
    AxisType,
    Mesh,
    context,
    using,
)
from veery._core.trace import trace_state_clean


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any],
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the first devices.

    Args:
        axis_shapes: the sizes of the axes.
        axis_names: their names.
        axis_types: an AxisType for each; Explicit by default.
        devices: where to take devices from; by default those of the default platform.

    Raises:
        ValueError: there are too few devices, or not as many names or types as axes.

    >>> import veery
    >>> veery.make_mesh((1, 1), ("data", "model")).shape_tuple
    (('data', 1), ('model', 1))
    """
    try:
        shape = tuple(int(size) for size in axis_shapes)
    except (TypeError, ValueError):
        raise ValueError(
            f"`axis_shapes` passed to `make_mesh` should be a sequence of ints. Got {axis_shapes!r}"
        ) from None
    found = list(devices) if devices is not None else platforms.devices()
    needed = math.prod(shape)
    if len(found) < needed:
        raise ValueError(
            f"Number of devices {len(found)} must be >= the product of mesh_shape {shape}. One process shows several "
            f"CPU devices with VEERY_NUM_CPU_DEVICES={needed} in the environment, or with "
            f"config.update('jax_num_cpu_devices', {needed}) before their first use."
        )
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(axis_names)
    array = np.empty(needed, dtype=object)
    array[:] = found[:needed]
    return Mesh(array.reshape(shape), axis_names, axis_types)


class set_mesh:  # noqa: N801  JAX's name
    """Make a mesh the one that axis names refer to: from now on in this thread, or within a `with` block.

    Args:
        mesh: a Mesh; None for none.

    Raises:
        ValueError: it is no Mesh, or a function is being traced.

    >>> import veery
    >>> with veery.set_mesh(veery.make_mesh((1,), ("x",))):
    ...     veery.sharding.get_mesh().axis_names
    ('x',)
    """

    def __init__(self, mesh: Mesh | None):
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}")
        if not trace_state_clean():
            raise ValueError("`set_mesh` can only be used outside of `jax.jit`.")
        self.mesh = mesh
        self._previous = config._mesh
        abstract = None if mesh is None else mesh.abstract_mesh
        config.set_mesh(context()._replace(concrete=mesh, abstract=abstract))

    def __enter__(self) -> Mesh | None:
        return self.mesh

    def __exit__(self, *error: Any) -> None:
        config.set_mesh(self._previous)


@contextlib.contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """A context in which axis names refer to an abstract mesh.

    Args:
        mesh: the mesh.

    Raises:
        ValueError: it is no AbstractMesh.
    """
    if not isinstance(mesh, AbstractMesh):
        raise ValueError(f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh)}")
    with using(abstract=mesh):
        yield


def get_mesh() -> Mesh:
    """The mesh of `set_mesh`; an empty one where none is set.

    Raises:
        ValueError: a function is being traced.
    """
    if not trace_state_clean():
        raise ValueError(
            "`get_mesh` can only be used outside of `jax.jit`. Maybe you want `jax.sharding.get_abstract_mesh()`?"
        )
    return context().concrete or EMPTY_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The mesh of the context without its devices, within traced functions too; an empty one where none is set.

    >>> get_abstract_mesh().empty
    True
    """
    return context().abstract or EMPTY_ABSTRACT_MESH
