"""Keep scatters from writing outside of their operands.

Problem: StableHLO drops what is scattered to a place that is none; IREE 3.13 writes it there, in memory of others.
Example: `x.at[i].set(u)` with an index beyond the end of x. Fix: what is to be dropped repeats an update that is not.
That takes a reduction and several dispatches, which kernels can do without, so that it is done for the scatters that
are left to IREE. Test: tests/lowering/test_gather_scatter.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.stablehlo import Value

_OURS = "veery.drops"  # of scatters of rows, of which those with the number -1 are dropped


def mark_dropping(scatter: Any) -> None:
    """Say of a scatter that rows of it may have the number -1."""
    scatter.attributes[_OURS] = ir.BoolAttr.get(True)  # portable artifacts have no units


def drops_rows(op: Any) -> bool:
    """Whether an operation is a scatter of which rows may have the number -1."""
    return op.name == "stablehlo.scatter" and _OURS in op.attributes


def redirect_dropped(module: Any) -> None:
    """Have the scatters that were marked write nothing outside, in place."""
    for op in operations(module):
        if drops_rows(op):
            with ir.InsertionPoint(op), op.location:
                points, updates = map(_before_barrier, op.operands[1:])
                count, _ = hlo.shape_of(points)
                flat = hlo.reshape(points, (count,))
                redirected = redirect(op.operands[0], flat, updates, hlo.compare(flat, hlo.full_like(flat, 0), "GE"))
                op.operands[1], op.operands[2] = hlo.optimization_barrier(
                    [hlo.reshape(redirected[0], (count, 1)), redirected[1]]
                )


def redirect(rows: Value, points: Value, updates: Value, valid: Value) -> tuple[Value, Value]:
    """Points [P] and updates [P, R], to replace rows, among which those that are not valid change nothing.

    They repeat the last one that is valid, which is the last to write its row anyway; if there is none, all write what
    row 0 holds. So nothing of the operand's size is copied.
    """
    count, row = hlo.shape_of(updates)
    dtype = hlo.dtype_of(points)
    order = hlo.iota(np.int32, (count,), 0)
    minus_one = hlo.full(-1, (count,), np.int32)
    last = hlo.reduce(hlo.select(valid, order, minus_one), hlo.constant(np.int32(-1)), (0,), hlo.maximum)
    zero = hlo.constant(np.int32(0))
    some = hlo.compare(last, zero, "GE")
    last = hlo.maximum(last, zero)
    point = hlo.reshape(hlo.dynamic_slice(points, [last], (1,)), ())
    point = hlo.select(some, point, hlo.constant(np.zeros((), dtype)))
    update = hlo.dynamic_slice(updates, [last, zero], (1, row))
    first_row = hlo.slice(rows, (0, 0), (1, row))
    update = hlo.select(hlo.broadcast_in_dim(some, (1, row), ()), update, first_row)
    wide = hlo.broadcast_in_dim(valid, (count, row), (0,))
    return (
        hlo.select(valid, points, hlo.broadcast_in_dim(point, (count,), ())),
        hlo.select(wide, updates, hlo.broadcast_in_dim(update, (count, row), (0, 1))),
    )


def _before_barrier(value: Value) -> Value:
    """What a barrier was given: what is computed of it gets one of its own."""
    if maker(value) != "stablehlo.optimization_barrier":
        return value
    return value.owner.operands[ir.OpResult(value).result_number]
