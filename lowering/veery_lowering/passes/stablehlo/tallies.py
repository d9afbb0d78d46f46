"""Do scatters as reductions over their updates, of which each element of the result has one.

Problem: of scatters whose rows may be written several times IREE 3.13 makes code for one thread of a GPU. Example: the
sums of 1000 segments of 100,000 numbers take 5.6 ms on an H200. Fix: each element of the result is what the operand has
there with all updates of its row, in a tree; or the last of them, where updates replace. That is more work for as many
threads as there are elements. As before, results are the same in each call, which they are not where threads add to
memory as they come. Test: tests/lowering/test_tallies.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, operations
from veery_lowering.stablehlo import Value
from veery_lowering.types import is_static

_FEWEST = 1 << 9  # updated elements: one thread writes them in 30 us
_ROWS = 1 << 14  # of more, one thread is faster
_MOST = 1 << 32  # comparisons
_THREADS = 1 << 16  # that have something to do at a time
_LEAST = 64  # updates that one looks through


class _Combination(NamedTuple):
    combine: Callable[[Value, Value], Value]
    neutral: Callable[[np.dtype[Any]], Any]


def _least(dtype: np.dtype[Any]) -> Any:
    return False if dtype.kind == "b" else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _largest(dtype: np.dtype[Any]) -> Any:
    return True if dtype.kind == "b" else np.inf if dtype.kind == "f" else np.iinfo(dtype).max


# By StableHLO's operation, with what changes nothing of each dtype.
COMBINATIONS = {
    "add": _Combination(hlo.add, lambda dtype: -0.0 if dtype.kind == "f" else 0),
    "multiply": _Combination(hlo.multiply, lambda dtype: 1),
    "maximum": _Combination(hlo.maximum, _least),
    "minimum": _Combination(hlo.minimum, _largest),
    "and": _Combination(hlo.and_, lambda dtype: True if dtype.kind == "b" else _all_bits(dtype)),
    "or": _Combination(hlo.or_, lambda dtype: 0),
}


def _all_bits(dtype: np.dtype[Any]) -> Any:
    return -1 if dtype.kind == "i" else np.iinfo(dtype).max


def reduce_scatters(module: ir.Module) -> None:
    """Rewrite scatters of many updates to few rows, in place."""
    for op in [op for op in operations(module.operation) if op.name == "stablehlo.scatter"]:
        if not ir.BoolAttr(op.attributes["unique_indices"]).value and len(op.operands) == 3:
            with ir.InsertionPoint(op), op.location:
                _reduce(op)


def _reduce(op: Any) -> None:
    rows, points, updates = op.operands  # [N, R], [P, 1] and [P, R], as the rules write them
    shapes = [hlo.shape_of(x) for x in op.operands]
    if [len(shape) for shape in shapes] != [2, 2, 2] or not all(is_static(n) for shape in shapes for n in shape):
        return
    (count, row), (number, _) = shapes[0], shapes[1]
    if number * row < _FEWEST or count > _ROWS or number * count * row > _MOST:
        return
    names = [base_name(each.operation.name) for each in op.regions[0].blocks[0].operations]
    arguments = list(op.regions[0].blocks[0].arguments)
    (returned,) = list(op.regions[0].blocks[0].operations)[-1].operands
    if names == ["return"] and returned == arguments[1]:
        found = _last(rows, points, updates)
    elif len(names) == 2 and names[0] in COMBINATIONS and hlo.dtype_of(rows).kind in "fiub":
        found = _combined(COMBINATIONS[names[0]], rows, points, updates)
    else:
        return
    op.results[0].replace_all_uses_with(found)
    op.erase()


def _parts(count: int, row: int, number: int) -> tuple[int, int]:
    """In how many parts the updates are looked through, and how long each is: threads look through one in turn."""
    parts = min(max(1, _THREADS // (count * row)), math.ceil(number / _LEAST))
    return parts, math.ceil(number / parts)


def _in_parts(x: Value, fill: Any, parts: int, length: int) -> Value:
    """[P, ...] as [length, parts, ...], with more elements where there are too few; threads read what lies together."""
    number, *rest = hlo.shape_of(x)
    none = [0] * len(rest)
    filled = hlo.pad(x, hlo.constant(fill, hlo.dtype_of(x)), [0, *none], [parts * length - number, *none])
    return hlo.reshape(filled, (length, parts, *rest))


def _hits(points: Value, shape: tuple[int, ...]) -> Value:
    """Which update belongs to which row, as [N, length, parts] and further axes; none belongs to the row -1."""
    length, parts = shape[1:3]
    places = _in_parts(hlo.reshape(points, (hlo.shape_of(points)[0],)), -1, parts, length)
    rows = hlo.iota(hlo.dtype_of(points), shape, 0)
    return hlo.compare(rows, hlo.broadcast_in_dim(places, shape, (1, 2)), "EQ")


def _combined(how: _Combination, rows: Value, points: Value, updates: Value) -> Value:
    count, row = hlo.shape_of(rows)
    dtype = hlo.dtype_of(rows)
    fill = np.asarray(how.neutral(dtype)).astype(dtype)
    neutral = hlo.constant(fill)
    parts, length = _parts(count, row, hlo.shape_of(points)[0])
    shape = (count, length, parts, row)
    spread = hlo.broadcast_in_dim(_in_parts(updates, fill, parts, length), shape, (1, 2, 3))
    taken = hlo.select(_hits(points, shape), spread, hlo.broadcast_in_dim(neutral, shape, ()))
    total = hlo.reduce(hlo.reduce(taken, neutral, (1,), how.combine), neutral, (1,), how.combine)
    return how.combine(rows, total)


def _last(rows: Value, points: Value, updates: Value) -> Value:
    count, row = hlo.shape_of(rows)
    number = hlo.shape_of(points)[0]
    parts, length = _parts(count, 1, number)
    shape = (count, length, parts)
    none = hlo.constant(np.int32(-1))
    order = hlo.broadcast_in_dim(hlo.reshape(hlo.iota(np.int32, (length * parts,), 0), (length, parts)), shape, (1, 2))
    numbered = hlo.select(_hits(points, shape), order, hlo.broadcast_in_dim(none, shape, ()))
    last = hlo.reduce(hlo.reduce(numbered, none, (1,), hlo.maximum), none, (1,), hlo.maximum)
    written = hlo.compare(last, hlo.full(0, (count,), np.int32), "GE")
    place = hlo.reshape(hlo.maximum(last, hlo.full(0, (count,), np.int32)), (count, 1))
    values = hlo.gather(
        updates,
        place,
        offset_dims=(1,),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, row),
    )
    return hlo.select(hlo.broadcast_in_dim(written, (count, row), (0,)), values, rows)
