"""Collectives as exchanges between the programs of several devices.

Each device runs the same program in a thread of its own. Collectives become calls of Python functions that exchange
values between those threads; everything else is compiled as usual. The devices are the positions of one or several
named axes, row by row; those that differ along a collective's axis alone take part in it together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import provided
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, NamedAxisEffect, map_jaxprs, memoized
from veery._core.primitive import Primitive

Axes = tuple[tuple[Any, int], ...]  # names and sizes


@functools.lru_cache(maxsize=4096)
def _peers(rank: int, sizes: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """The devices that differ from this one along an axis alone, and its place among them."""
    stride = math.prod(sizes[axis + 1 :])
    place = rank // stride % sizes[axis]
    first = rank - place * stride
    return tuple(range(first, first + sizes[axis] * stride, stride)), place


class Exchange:
    """A collective along an axis as a function of one device's values.

    Args:
        name: of the collective.
        params: its parameters.
        sizes: the sizes of all axes.
        axis: which of them it is along.
    """

    def __init__(self, name: str, params: dict[str, Any], sizes: tuple[int, ...], axis: int):
        self.__name__ = name
        self.params = params
        # From the values of all devices along the axis, and this one's place, to this device's result.
        self.combine: Callable[[list[np.ndarray], int], Any] = _exchanges[name](**params)
        self.sizes = sizes
        self.axis = axis

    def __call__(self, *operands: np.ndarray) -> Any:
        spmd = provided.backend.exchanges()
        members, place = _peers(spmd.rank(), self.sizes, self.axis)
        values = spmd.exchange(operands[0], members) if operands else []
        return np.asarray(self.combine(values, place))


def _members(rank: int, groups: Any, size: int) -> list[int]:
    """The positions of this device's group, in order."""
    return list(range(size)) if groups is None else list(next(g for g in groups if rank in g))


def _reducer(combine: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Any]:
    def make(*, axis_size: int, axis_index_groups: Any, **_: Any) -> Callable[[list[np.ndarray], int], Any]:
        def reduce(values: list[np.ndarray], rank: int) -> np.ndarray:
            chosen = np.stack([values[i] for i in _members(rank, axis_index_groups, axis_size)])
            return combine(chosen).astype(chosen.dtype)

        return reduce

    return make


def _all_gather(*, all_gather_dimension: int, axis_size: int, axis_index_groups: Any, **_: Any) -> Any:
    return lambda values, rank: np.stack(
        [values[i] for i in _members(rank, axis_index_groups, axis_size)], all_gather_dimension
    )


def _reduce_scatter(*, scatter_dimension: int, axis_size: int, axis_index_groups: Any, **_: Any) -> Any:
    def combine(values: list[np.ndarray], rank: int) -> np.ndarray:
        members = _members(rank, axis_index_groups, axis_size)
        total = np.sum([values[i] for i in members], axis=0, dtype=values[0].dtype)
        return np.take(total, members.index(rank), scatter_dimension)

    return combine


def _all_to_all(*, split_axis: int, concat_axis: int, axis_size: int, axis_index_groups: Any, **_: Any) -> Any:
    def combine(values: list[np.ndarray], rank: int) -> np.ndarray:
        members = _members(rank, axis_index_groups, axis_size)
        here = members.index(rank)
        return np.stack([np.take(values[i], here, split_axis) for i in members], concat_axis)

    return combine


def _ppermute(*, perm: Sequence[tuple[int, int]], **_: Any) -> Any:
    source_of = {destination: origin for origin, destination in perm}
    return lambda values, rank: values[source_of[rank]] if rank in source_of else np.zeros_like(values[rank])


_exchanges: dict[str, Callable[..., Any]] = {
    "psum": _reducer(lambda x: x.sum(0)),
    "psum_invariant": _reducer(lambda x: x.sum(0)),
    "pmax": _reducer(lambda x: x.max(0)),
    "pmin": _reducer(lambda x: x.min(0)),
    "all_gather": _all_gather,
    "all_gather_invariant": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "ppermute": _ppermute,
    "axis_index": lambda **_: lambda values, rank: np.int32(rank),
}

exchange_p = Primitive(
    "exchange",
    multiple_results=True,
    abstract_eval=lambda *avals, function, out_avals: list(out_avals),
    effects=lambda *avals, **_: set(),
)


def between_devices(jaxpr: Jaxpr, axes: Axes) -> Jaxpr:
    """The jaxpr with the collectives along these axes, at any depth, as exchanges between devices."""
    names, sizes = tuple(name for name, _ in axes), tuple(size for _, size in axes)
    inside = lambda closed: ClosedJaxpr(between_devices(closed.jaxpr, axes), closed.consts)
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _exchanges and eqn.params.get("axis_name") in names:
            function = Exchange(eqn.primitive.name, eqn.params, sizes, names.index(eqn.params["axis_name"]))
            params = {"function": function, "out_avals": tuple(v.aval for v in eqn.outvars)}
            eqns.append(eqn.replace(primitive=exchange_p, params=params))
        else:
            params = {key: map_jaxprs(value, inside) for key, value in eqn.params.items()}
            eqns.append(eqn.replace(params=params))
    effects = jaxpr.effects - {NamedAxisEffect(name) for name in names}
    return jaxpr.replace(eqns=eqns, effects=effects)


@memoized
def device_program(closed: ClosedJaxpr, axes: Axes) -> ClosedJaxpr:
    """What each device runs."""
    return ClosedJaxpr(between_devices(closed.jaxpr, axes), closed.consts)
