"""Builders of operations between the devices that run a program together, by their numbers: replicas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veery_lowering.mlir import ir
from veery_lowering.stablehlo._build import (
    Body,
    Value,
    dtype_of,
    fill_region,
    integer,
    one,
    operation,
    scalar_type,
    shape_of,
)
from veery_lowering.types import tensor_type

Groups = Sequence[Sequence[int]]


def _table(rows: Groups) -> ir.Attribute:
    table = np.asarray(rows, np.int64).reshape(len(rows), -1)
    return ir.DenseElementsAttr.get(table, type=tensor_type(table.shape, np.int64))


def all_reduce(x: Value, groups: Groups, body: Body) -> Value:
    """The values of a group's replicas, folded elementwise by a function of two scalars."""
    made = operation("stablehlo.all_reduce", [x], [x.type], {"replica_groups": _table(groups)}, regions=1)
    fill_region(made.regions[0], [scalar_type(x)] * 2, body)
    return made.results[0]


def all_gather(x: Value, groups: Groups, dimension: int) -> Value:
    """The values of a group's replicas, joined along a dimension."""
    shape = list(shape_of(x))
    shape[dimension] *= len(groups[0])
    attributes = {"replica_groups": _table(groups), "all_gather_dim": integer(dimension)}
    return operation("stablehlo.all_gather", [x], [tensor_type(shape, dtype_of(x))], attributes).results[0]


def reduce_scatter(x: Value, groups: Groups, dimension: int, body: Body) -> Value:
    """As `all_reduce`, of which each replica gets its part along a dimension."""
    shape = list(shape_of(x))
    shape[dimension] //= len(groups[0])
    attributes = {"replica_groups": _table(groups), "scatter_dimension": integer(dimension)}
    made = operation("stablehlo.reduce_scatter", [x], [tensor_type(shape, dtype_of(x))], attributes, regions=1)
    fill_region(made.regions[0], [scalar_type(x)] * 2, body)
    return made.results[0]


def all_to_all(x: Value, groups: Groups, dimension: int) -> Value:
    """Parts along a dimension, as many as a group has replicas: part i goes to replica i, and is joined there."""
    attributes = {
        "replica_groups": _table(groups),
        "split_dimension": integer(dimension),
        "concat_dimension": integer(dimension),
        "split_count": integer(len(groups[0])),
    }
    return operation("stablehlo.all_to_all", [x], [x.type], attributes).results[0]


def collective_permute(x: Value, pairs: Groups) -> Value:
    """The value of the replica from which a pair (source, target) leads here; zeros where none does."""
    return one("stablehlo.collective_permute", [x], x.type, {"source_target_pairs": _table(pairs)})


def replica_id() -> Value:
    """The number of this replica, a rank-0 uint32."""
    return operation("stablehlo.replica_id", [], [tensor_type((), np.uint32)]).results[0]
