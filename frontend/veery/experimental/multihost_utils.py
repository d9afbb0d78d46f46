"""What several processes tell each other. There is one, so each function is what it does among one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from veery import _distributed
from veery._core import tree
from veery._core.absent import attributes as _attributes
from veery._core.array import ArrayImpl
from veery._core.mesh import Mesh
from veery._core.partition_spec import PartitionSpec as PartitionSpec
from veery._core.sharding import NamedSharding

P = PartitionSpec


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here.

    Args:
        name: of this place in the program.
    """


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The arrays of the first process, as NumPy arrays.

    Args:
        in_tree: a pytree of arrays.
        is_source: whether this process is the one; accepted for compatibility.
    """
    return tree.tree_map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The arrays of all processes, as NumPy arrays.

    Args:
        in_tree: a pytree of arrays.
        tiled: whether they are joined along their leading axis instead of stacked along a new one.
    """
    return tree.tree_map(lambda x: np.asarray(x) if tiled else np.asarray(x)[None], in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same values.

    Args:
        in_tree: a pytree of arrays.
        fail_message: what to say if they do not.
    """


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes agreed to save their state at this step: nothing preempts one."""
    return False


@contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """A context with those of some devices that work: all."""
    yield list(devices)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays laid out over a mesh, of what this process has of them.

    Args:
        local_inputs: a pytree of arrays.
        global_mesh: the mesh.
        pspecs: a PartitionSpec for all, or a pytree prefix of them.

    Raises:
        ValueError: a shape cannot be laid out like this, or a spec is None.

    >>> import veery, numpy as np
    >>> host_local_array_to_global_array(np.ones(2), veery.make_mesh((1,), ("x",)), P("x")).sharding.spec
    P('x',)
    """
    leaves, treedef = tree.tree_flatten(local_inputs)
    specs = _specs("input pspecs", treedef, pspecs)
    return tree.tree_unflatten(
        treedef, [_distributed.place(x, NamedSharding(global_mesh, spec)) for x, spec in zip(leaves, specs)]
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """What this process has of arrays that are laid out over a mesh: the whole.

    Args:
        global_inputs: a pytree of arrays.
        global_mesh: the mesh.
        pspecs: a PartitionSpec for all, or a pytree prefix of them.

    Raises:
        ValueError: a shape cannot be laid out like this, or a spec is None.
    """
    leaves, treedef = tree.tree_flatten(global_inputs)
    specs = _specs("output pspecs", treedef, pspecs)
    is_laid_out = lambda x: isinstance(x, ArrayImpl) and _distributed.layout_of(x) is not None
    placed = lambda x, spec: x if is_laid_out(x) else _distributed.place(x, NamedSharding(global_mesh, spec))
    return tree.tree_unflatten(treedef, list(map(placed, leaves, specs)))


def _specs(what: str, treedef: Any, pspecs: Any) -> list[PartitionSpec]:
    found = tree.flatten_axes(what, treedef, pspecs)
    if any(spec is None for spec in found):
        raise ValueError("`None` is not a valid input to the pspecs argument. Please use jax.sharding.PartitionSpec()")
    return found


__getattr__, __dir__ = _attributes(__name__)
