"""Join very many arrays in two steps.

Problem: a kernel joins 64 parts at most, and IREE 3.13 makes a dispatch of each part. Example: `jnp.stack` of 100
elements, each times a number, is 99 dispatches, which take 1.1 s to compile. Fix: as many as a kernel may hold are
joined at a time, where the copy is small. Test: tests/lowering/test_joins.py.
"""

from __future__ import annotations

import math
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations

# Parts that are joined at a time, and elements that are copied once more, at most.
_MOST_PARTS = 64
_MOST_COPIED = 1 << 16


def part_joins(module: Any) -> None:
    """Join the parts of small arrays in two steps where they are many, in place."""
    for op in operations(module):
        if op.name == "stablehlo.concatenate" and len(op.operands) > _MOST_PARTS and _is_small(op.results[0]):
            parts, axis = list(op.operands), ir.IntegerAttr(op.attributes["dimension"]).value
            with op.location, ir.InsertionPoint(op):
                while len(parts) > _MOST_PARTS:
                    some = [parts[i : i + _MOST_PARTS] for i in range(0, len(parts), _MOST_PARTS)]
                    parts = [hlo.optimization_barrier([hlo.concatenate(each, axis)])[0] for each in some]
                op.results[0].replace_all_uses_with(hlo.concatenate(parts, axis))
            op.erase()


def _is_small(value: Any) -> bool:
    return bool(value.type.has_static_shape) and math.prod(value.type.shape) <= _MOST_COPIED
