"""Which fusions of IREE are asked for: those with which it makes right programs.

With aggressive fusion a dispatch may hold several reductions. IREE 3.13 makes wrong numbers of that where they do not
run along the same axes, or where what is reduced from rows is read along columns: each row computes its own part of a
sum that belongs to others. Examples are a matrix of which rows and columns are normalised in turn, a contrastive loss,
`d[:, None] * a * d` with `d = a.sum(1) ** -0.5` (tests/lowering/test_fusion.py).

What is reduced along the same axes of one shape alone is right, and gains: a logsumexp of 150x1000 takes 0.4 of the
time without, a layernorm of 300x700 0.3, a softmax 1.3. Elsewhere it brings as much as it costs: a step of two layers
takes 0.7 of the time without, the gradient of a convolution 0.9, a transformer's gradient 1.5, an n-body gradient 2.

For GPUs it is off, and multi-use fusion for Vulkan. Fused with what else reads its result, a product is read before it
is written, so that a gradient of two dense layers was wrong by a tenth on Vulkan, and not by the same on each call; for
CUDA what is elementwise alone is fused with several that read it (compiler/dispatches.py): a step of a Metropolis walk
is 15 dispatches for 47. On CUDA softmax takes as long with aggressive fusion, logsumexp 1.2 times as long.
"""

from __future__ import annotations

import math
from typing import Any

from veery_lowering.mlir import ir, operations

# Operations in which axes change places or are read in part.
_MOVING = frozenset(
    f"stablehlo.{name}"
    for name in "transpose reverse dot dot_general convolution gather fft slice dynamic_slice dynamic_update_slice "
    "concatenate pad dynamic_broadcast_in_dim dynamic_reshape real_dynamic_slice dynamic_gather dynamic_pad".split()
)

NO_MULTI_USE_FUSION = "--iree-dispatch-creation-fuse-multi-use=false"
NO_AGGRESSIVE_FUSION = "--iree-dispatch-creation-enable-aggressive-fusion=false"
DATA_TILING = "--iree-dispatch-creation-data-tiling=true"


def fusion_flags(rowwise: bool) -> tuple[str, ...]:
    """The options of fusion for a program that is row-wise or is not."""
    return () if rowwise else (NO_AGGRESSIVE_FUSION,)


def is_rowwise(module: ir.Module) -> bool:
    """Whether the reductions of a module are of one shape along the same axes, and rows meet their own results alone.

    That is so if its other operations are elementwise, or give the results of rows the shape of rows again.
    """
    found = operations(module.operation)
    rows = {_rows(op) for op in found if op.name == "stablehlo.reduce"}
    if len(rows) != 1:
        return False
    ((shape, reduced),) = rows
    kept = [axis for axis in range(len(shape)) if axis not in reduced]
    if not kept:
        return False
    single = tuple(1 if axis in reduced else n for axis, n in enumerate(shape))
    results = (tuple(shape[axis] for axis in kept), single)
    return all(_stays(op, shape, results, kept) for op in found)


def _rows(op: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return _shape(op.operands[0]), tuple(op.attributes["dimensions"])


def _stays(op: Any, shape: tuple[int, ...], results: tuple[tuple[int, ...], ...], kept: list[int]) -> bool:
    """Whether an operation leaves values in their rows."""
    if op.name in _MOVING or (op.name.startswith("stablehlo.") and len(op.regions) and op.name != "stablehlo.reduce"):
        return False
    if op.name == "stablehlo.reshape":
        return all(_shape(x) in results or math.prod(_shape(x)) == 1 for x in (op.operands[0], op.results[0]))
    if op.name == "stablehlo.broadcast_in_dim" and math.prod(_shape(op.operands[0])) != 1:
        place = list(op.attributes["broadcast_dimensions"])
        return place == (list(range(len(shape))) if len(_shape(op.operands[0])) == len(shape) else kept)
    return True


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(x.type).shape)
