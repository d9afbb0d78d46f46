"""What IREE 3.13 makes of constants and should not."""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, operations


def leave_unreversed(module: Any) -> None:
    """Take a constant of equal elements for its reverse, in place.

    IREE does not see that they are the same, and fails where slices of the reverse are padded.
    """
    for op in operations(module):
        if op.name == "stablehlo.reverse" and _is_splat(op.operands[0]):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _is_splat(value: Any) -> bool:
    owner = value.owner
    is_constant = not isinstance(owner, ir.Block) and owner.name == "stablehlo.constant"
    return is_constant and ir.DenseElementsAttr(owner.attributes["value"]).is_splat
