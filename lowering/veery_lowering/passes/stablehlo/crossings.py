"""Compute a result first where one expression reads it in two ways.

Problem: IREE 3.13 puts a reduction or a product and the expression that reads it into one dispatch. Each tile of the
expression computes the tile of the reduction that it reads first; what it reads in another way (a transpose, another
broadcast) is another tile, which is not computed yet. Example: `v[:, None] - v[None]` of `v = x.sum(1)`, `y + y.T` of a
softmax, and `y[:3] + y.T[:3]`; the distances `(x * x).sum(1)[:, None] + (x * x).sum(1)[None] - 2 * x @ x.T` were wrong
in all sizes. Fix: a barrier behind the result, so that all of it is computed before. Cost: a dispatch where the program
was wrong, and nothing elsewhere, because an expression that reads a result in one way stays with it. Test:
tests/combinations/test_reads.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering.mlir import base_name, operations, sizes
from veery_lowering.passes.stablehlo.barriers import behind_barrier

_SUMMING = frozenset("reduce dot dot_general convolution reduce_window select_and_scatter".split())
_ELEMENTWISE = frozenset(
    "abs add and atan2 bitcast_convert cbrt ceil clamp compare complex convert cosine count_leading_zeros divide"
    " exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply negate"
    " not or popcnt power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select shift_left"
    " shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh uniform_dequantize uniform_quantize"
    " xor".split()
)
_PARTS = frozenset("concatenate dynamic_slice dynamic_update_slice gather pad reverse slice".split())

# For each axis of a result the axis of the expression that runs along it; None where there is a single place, and where
# that cannot be said so the operation that moved it.
Way = tuple[int | str | None, ...]
# By result (the first of its operation): the way in which a value reads it.
Reads = dict[Any, Way]

_SLICES = frozenset(("dynamic_slice", "slice"))  # which IREE may take of what is read, instead of the result


def part_crossed_reads(module: Any) -> None:
    """Put barriers behind results that an expression reads in two ways, in place."""
    blocks = [block for op in operations(module) for region in op.regions for block in region.blocks]
    for root in [root for block in blocks for root in _crossed(block)]:
        behind_barrier(root.owner)


def _crossed(block: Any) -> list[Any]:
    """The results of a block that are read in two ways."""
    reads: dict[Any, Reads] = {}
    found: list[Any] = []
    for number, view in enumerate(block.operations):
        op = view.operation
        name = _name_of(op)
        if name in _SUMMING:
            for x in op.results:
                reads[x] = {op.results[0]: _whole(x)}
        elif name in _ELEMENTWISE:
            reads[op.results[0]] = _joined([reads.get(x, {}) for x in op.operands], found)
        elif name in ("broadcast_in_dim", "transpose", "reshape"):
            moved = _moved(op, f"{name} {number}")
            given = reads.get(op.operands[0], {})
            reads[op.results[0]] = {root: tuple(moved(axis) for axis in way) for root, way in given.items()}
        elif name in _PARTS:  # of which IREE may compute no more than that
            (x,) = op.results
            given = reads.get(op.operands[0], {}) if name in _SLICES else {}
            parted = {root: way for root, way in given.items() if not _is_narrowed(op, way)}
            reads[x] = {x: _whole(x), **parted} if any(reads.get(y) for y in op.operands) else {}
    return found


def _whole(x: Any) -> Way:
    return tuple(None if n == 1 else axis for axis, n in enumerate(sizes(x)))


def _is_narrowed(part: Any, way: Way) -> bool:
    """Whether a part has a single place along an axis that a result runs along."""
    given, made = sizes(part.operands[0]), sizes(part.results[0])
    return any(isinstance(axis, int) and made[axis] == 1 != given[axis] for axis in way)


def _joined(operands: Sequence[Reads], found: list[Any]) -> Reads:
    joined: Reads = {}
    for given in operands:
        for root, way in given.items():
            if joined.setdefault(root, way) != way and root not in found:
                found.append(root)
    return joined


def _moved(op: Any, label: str) -> Callable[[int | str | None], int | str | None]:
    """Where an operation puts an axis of its operand."""
    (out,) = op.results
    old, new = sizes(op.operands[0]), sizes(out)
    if label.startswith("broadcast_in_dim"):
        place = list(op.attributes["broadcast_dimensions"])
        return lambda axis: place[axis] if isinstance(axis, int) else axis
    if label.startswith("transpose"):
        permutation = list(op.attributes["permutation"])
        return lambda axis: permutation.index(axis) if isinstance(axis, int) else axis
    kept, left = ([i for i, n in enumerate(given) if n != 1] for given in (old, new))
    if [old[i] for i in kept] == [new[i] for i in left]:
        new_axis = dict(zip(kept, left))
        return lambda axis: new_axis.get(axis) if isinstance(axis, int) else axis
    return lambda axis: None if axis is None else f"{label}, {axis}"


def is_elementwise(op: Any) -> bool:
    """Whether an operation computes each element of its result from those in the same place."""
    return _name_of(op) in _ELEMENTWISE


def _name_of(op: Any) -> str:
    if op.name.startswith("chlo."):
        return "add" if len(op.results) == 1 else ""
    return base_name(op.name)
