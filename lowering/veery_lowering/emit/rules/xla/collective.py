"""Collectives as XLA's own, between the replicas of one program; IREE's devices exchange values through the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.elementwise import add, maximum, minimum

Groups = list[list[int]]

_FOLDS: dict[str, Callable[[Value, Value], Value]] = {
    "psum": add,
    "psum_invariant": add,
    "pmax": maximum,
    "pmin": minimum,
}


@rule("exchange", target="xla")
def _exchange(ctx: Context, *operands: Value, function: Any, out_avals: Sequence[Any]) -> list[Value]:
    """`function` tells which collective it is, its parameters, and along which of the axes of the devices."""
    name, params = function.__name__, function.params
    size = function.sizes[function.axis]
    along = _along(function.sizes, function.axis)
    if name == "axis_index":
        stride = math.prod(function.sizes[function.axis + 1 :])
        place = hlo.divide(hlo.replica_id(), hlo.constant(np.uint32(stride)))
        return [hlo.convert(hlo.remainder(place, hlo.constant(np.uint32(size))), np.int32)]
    (x,) = operands
    if name == "ppermute":
        pairs = [(members[source], members[target]) for members in along for source, target in params["perm"]]
        return [hlo.collective_permute(x, pairs) if pairs else hlo.full_like(x, 0)]
    places = params["axis_index_groups"]
    groups = [[members[i] for i in group] for members in along for group in places] if places else along
    return [_collective(name, x, groups, params)]


def _collective(name: str, x: Value, groups: Groups, params: dict[str, Any]) -> Value:
    if name in _FOLDS:
        return hlo.all_reduce(x, groups, _FOLDS[name])
    if name in ("all_gather", "all_gather_invariant"):
        shape = hlo.shape_of(x)
        gathered = hlo.all_gather(hlo.reshape(x, (1, *shape)), groups, 0)
        return _moved(gathered, 0, params["all_gather_dimension"])
    if name == "reduce_scatter":
        axis = params["scatter_dimension"]
        part = hlo.reduce_scatter(x, groups, axis, add)
        return hlo.reshape(part, [n for i, n in enumerate(hlo.shape_of(part)) if i != axis])
    assert name == "all_to_all", name
    return _moved(hlo.all_to_all(x, groups, params["split_axis"]), params["split_axis"], params["concat_axis"])


def _along(sizes: tuple[int, ...], axis: int) -> Groups:
    """The devices, row by row, in groups of those that differ along an axis alone."""
    numbers = np.moveaxis(np.arange(math.prod(sizes)).reshape(sizes), axis, -1)
    found: Groups = numbers.reshape(-1, sizes[axis]).tolist()
    return found


def _moved(x: Value, source: int, destination: int) -> Value:
    order = [i for i in range(len(hlo.shape_of(x))) if i != source]
    order.insert(destination, source)
    return x if order == sorted(order) else hlo.transpose(x, order)
