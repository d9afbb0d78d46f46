"""Where arrays are wanted: shardings of any form, as users give them for arguments, results and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veery import _distributed
from veery._core import tree, tree_errors
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of
from veery._core.dtypes import float0
from veery._core.layout import Format, sharding_of
from veery._core.memory import space_of
from veery._core.mesh import AbstractMesh
from veery._core.partition_spec import PartitionSpec
from veery._core.sharding import Sharding
from veery._core.trace import Tracer
from veery.lax._placement import check_fits, device_put_p, resolved, sharding_constraint_p


@dataclass(frozen=True, eq=False)
class JitShardings:
    """What `jit` was told about where its arguments and results are.

    Attributes:
        ins: a pytree prefix of the tuple of arguments, or a sharding for all; None where nothing is said.
        outs: a pytree prefix of the output; likewise.
        entered: whether PartitionSpecs may refer to the mesh of `with mesh:`, as in `pjit`.
    """

    ins: Any
    outs: Any
    entered: bool = False

    def of_arguments(self, args: tuple, kwargs: dict[str, Any], leaves: list[Any]) -> list[Any]:
        """A sharding for each leaf of the arguments, or None.

        Raises:
            ValueError: the shardings are no prefix of the arguments, or there are keyword arguments.
        """
        if self.ins is None:
            return [None] * len(leaves)
        if kwargs:
            raise ValueError("pjit does not support kwargs when in_shardings is specified.")
        ins = tuple(self.ins) if isinstance(self.ins, list) else self.ins
        if _is_place(ins):
            ins = (ins,) * len(args)
        _check_is_prefix(ins, args)
        found = tree.broadcast_optional(ins, args)
        return [self._ready(place, x, "in_shardings") for place, x in zip(found, leaves)]

    def of_results(self, out_tree: Any, outs: list[Any]) -> list[Any]:
        """A sharding for each result, or None.

        Raises:
            ValueError: the shardings are no prefix of the output.
        """
        if self.outs is None:
            return [None] * len(outs)
        found = tree.flatten_axes("pjit out_shardings", out_tree, self.outs)
        return [self._ready(place, x, "out_shardings") for place, x in zip(found, outs)]

    def placed_arguments(self, args: tuple, kwargs: dict[str, Any], leaves: list[Any], name: str) -> list[Any]:
        """The leaves of the arguments where they are wanted.

        Raises:
            ValueError: an array was put elsewhere by the user, or its shape does not fit.
        """
        shardings = self.of_arguments(args, kwargs, leaves)
        return [x if s is None else _placed_argument(x, s, name) for x, s in zip(leaves, shardings)]

    def placed_results(self, out_tree: Any, outs: list[Any], name: str) -> list[Any]:
        """The results where they are wanted.

        Raises:
            ValueError: a shape does not fit.
        """
        shardings = self.of_results(out_tree, outs)
        return [x if s is None else _placed(x, s, f"pjit outputs of {name}") for x, s in zip(outs, shardings)]

    def _ready(self, place: Any, x: Any, what: str) -> Any:
        name = "pjit" if self.entered else "jit"
        return resolved(sharding_of(place, aval_of(x).ndim), f"{name} {what}", self.entered)


def _is_place(x: Any) -> bool:
    return isinstance(x, (Sharding, PartitionSpec, Format))


def check_leaves(places: Any, what: str) -> None:
    """Raise TypeError unless the leaves of a pytree are shardings, PartitionSpecs, Formats or None."""
    for leaf in tree.tree_leaves(places):
        if not _is_place(leaf):
            raise TypeError(
                f"{what} leaf specifications are expected to be PartitionSpec instances or None, but got {leaf}"
            )


def _check_is_prefix(ins: Any, args: tuple) -> None:
    must = (
        "pjit in_shardings specification must be a tree prefix of the positional arguments tuple. In particular, pjit "
        "in_shardings must either be a Sharding, a PartitionSpec, or a tuple of length equal to the number of "
        "positional arguments."
    )
    if not isinstance(ins, tuple):
        raise ValueError(f"{must} But pjit in_shardings is not a tuple: got {type(ins)} instead.")
    if len(ins) != len(args):
        raise ValueError(
            f"{must} But pjit in_shardings is the wrong length: got a tuple or list of length {len(ins)} for an args "
            f"tuple of length {len(args)}."
        )
    for error in tree_errors.prefix_errors(ins, args, is_leaf=lambda x: x is None):
        raise error("pjit in_shardings")


def _placed(x: Any, sharding: Any, what: str) -> Any:
    check_fits(sharding, aval_of(x), what)
    if isinstance(x, Tracer):
        kind = sharding.memory_kind
        if kind is not None and space_of(kind) is not x.aval.memory_space:
            x = device_put_p.bind(x, sharding=space_of(kind))
        return sharding_constraint_p.bind(x, sharding=sharding)
    if aval_of(x).dtype == float0:  # which lives on no device
        return x
    return _distributed.place(x, sharding)


def _placed_argument(x: Any, sharding: Any, name: str) -> Any:
    if isinstance(x, ArrayImpl) and sharding.memory_kind not in (None, x.sharding.memory_kind):
        raise ValueError(
            f"Memory kinds passed to jax.jit does not match memory kind on the respective arg. Got jit memory kind: "
            f"{sharding.memory_kind}, arg memory kind: {x.sharding.memory_kind} for arg type: "
            f"{x.aval.str_short(short_dtypes=False)}"
        )
    if isinstance(x, ArrayImpl) and x._committed and not _agrees(x, sharding):
        raise ValueError(
            f"Sharding passed to jit does not match the sharding on the respective arg. Got jit sharding: {sharding},\n"
            f"arg sharding: {x.sharding} for arg type: {x.aval.str_short(short_dtypes=False)}"
        )
    return _placed(x, sharding, f"pjit arguments of {name}")


def _agrees(x: ArrayImpl, sharding: Any) -> bool:
    if isinstance(getattr(sharding, "mesh", None), AbstractMesh):
        return getattr(x.sharding, "spec", None) == sharding.spec
    return x.sharding.is_equivalent_to(sharding, x.ndim)
