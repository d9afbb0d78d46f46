"""Write the updates of a scatter by parts.

Problem: one invocation does all updates in order, and llvmpipe ends the loops of a shader after 65535 rounds in all.
Fix: a loop of the program writes a part in each trip. Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import body_of, part_of, replace
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

_MOST_UPDATES = 1 << 14


def split_scatters(module: ir.Module) -> None:
    """Rewrite scatters of many elements, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.scatter":
            with ir.InsertionPoint(op), op.location:
                _split(op)


def _split(operation: Any) -> None:
    """The updates of a scatter of rows (as the rules write it), which one invocation does in order, by parts."""
    rows, points, updates = operation.operands
    count, row = hlo.shape_of(updates)
    part = max(1, _MOST_UPDATES // row) if is_static(row) else 1
    if is_static(count) and is_static(row) and count <= part:
        return
    body = body_of(operation)
    unique = ir.BoolAttr(operation.attributes["unique_indices"]).value

    def write(into: Value, where: Value, what: Value) -> Value:
        (result,) = hlo.scatter(
            [into],
            where,
            [what],
            body,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            unique_indices=unique,
        )
        return result

    if not (is_static(count) and is_static(row)):
        return replace(operation, [_scatter_in_turn(write, rows, points, updates, part)])
    whole, zero, one = count // part, hlo.constant(np.int32(0)), hlo.constant(np.int32(1))

    def step(i: Value, into: Value) -> list[Value]:
        start = hlo.multiply(i, hlo.constant(np.int32(part)))
        where = hlo.dynamic_slice(points, [start, zero], (part, 1))
        what = hlo.dynamic_slice(updates, [start, zero], (part, row))
        return [hlo.add(i, one), write(into, where, what)]

    limit = hlo.constant(np.int32(whole))
    _, rows = hlo.while_([zero, rows], lambda i, _: hlo.compare(i, limit, "LT"), step)
    done = whole * part
    if done < count:
        rows = write(rows, hlo.slice(points, (done, 0), (count, 1)), hlo.slice(updates, (done, 0), (count, row)))
    replace(operation, [rows])


def _scatter_in_turn(
    write: Callable[[Value, Value, Value], Value], rows: Value, points: Value, updates: Value, part: int
) -> Value:
    """A symbolic number of updates, or rows of symbolic length, by parts."""
    count = hlo.shape_of(updates)[0]
    limit, step = hlo.scalar_of_size(count, np.int32), hlo.constant(np.int32(part))

    def turn(start: Value, into: Value) -> list[Value]:
        at = hlo.Index.of_scalar(start)
        size = (hlo.Index.of(count) - at).min(part)
        return [hlo.add(start, step), write(into, part_of(points, 0, at, size), part_of(updates, 0, at, size))]

    zero = hlo.constant(np.int32(0))
    _, result = hlo.while_([zero, rows], lambda start, _: hlo.compare(start, limit, "LT"), turn)
    return result
