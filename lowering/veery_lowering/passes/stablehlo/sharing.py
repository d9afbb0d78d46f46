"""Copy what branches and loops hand on if something else has it, too.

Problem: what a branch or a loop gives is, if that is what it was given, in the same memory. IREE 3.13 frees it with its
last use under one name, though it is needed under the other ("transient buffer has not been committed", or memory that
is something else by then), and updates it in place. Example: of `z = x * 3` and `y = cond(p, lambda: z, lambda: x)` the
program `(y * 2, z)` failed, and in `(y.at[1].set(7), z)` both had the 7. Fix: it is copied, unless it is made where it
is handed on, and that once. Test: tests/lowering/test_sharing.py.
"""

from __future__ import annotations

import itertools
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._pieces import BRANCHING
from veery_lowering.mlir import base_name, ir, operations, terminator
from veery_lowering.passes.stablehlo.aliasing import masked_copy
from veery_lowering.passes.stablehlo.updates import is_there_again, readers, viewed
from veery_lowering.stablehlo import Value

_FIRST_LIMIT = -(1 << 20)  # of the masks: `part_updates` has those above


def part_shared(module: Any) -> None:
    """Copy what operations with regions are given or give, in place, where it is a second name of a value."""
    limits = itertools.count(_FIRST_LIMIT, -1)
    for op in operations(module):
        name = base_name(op.name)
        if name not in BRANCHING:
            continue
        if name == "while":
            _part(op, op, limits)
        for region in op.regions:
            if name != "while" or region == op.regions[1]:
                _part(op, terminator(region.blocks[0]), limits)


def _part(op: Any, handing: Any, limits: Any) -> None:
    """Copy operands of what begins a loop, which is `op`, or ends a trip or a branch of it."""
    seen = []
    for i, x in enumerate(handing.operands):
        value = viewed(x)[0]
        # Of equal elements no copy can be made, which would be folded: see `carry_in_place`.
        if hlo.splat_of(value) is None and (value in seen or _is_shared(value, op, handing)):
            with handing.location, ir.InsertionPoint(handing):
                handing.operands[i] = masked_copy(x, next(limits))
        seen.append(value)


def _is_shared(value: Value, op: Any, handing: Any) -> bool:
    """Whether something else may have a value that a loop begins with, or that is handed on."""
    if handing == op:
        return is_there_again(op, value) or not all(_is_in(reader, op) for reader in readers(value))
    # What a branch does not make is freed behind it even where nothing else reads it: it may be what a loop carries.
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    return bool(block != handing.block)


def _is_in(inner: Any, op: Any) -> bool:
    """Whether an operation is another one, or in it."""
    while inner != op:
        if inner.parent is None:
            return False
        inner = inner.parent.operation
    return True
