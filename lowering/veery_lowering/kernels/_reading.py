"""What the kernels need to know of StableHLO's operations."""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._lifetimes import UPDATES, around, unshaped, uses
from veery_lowering.mlir import ir


def integers(attribute: Any) -> list[int]:
    """The numbers of an attribute."""
    return list(ir.DenseI64ArrayAttr(attribute))


def counted_axis(iota: Any) -> int:
    """The axis along which an operation `iota` counts."""
    return int(ir.IntegerAttr(iota.attributes["iota_dimension"]).value)


def static_shape(value: Any) -> tuple[int, ...]:
    """The shape of a value; raises Unfit where it is not known."""
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise Unfit("a dynamic shape")
    return tuple(type_.shape)


def detail_of(op: Any) -> str:
    """Of a comparison, which; of `reduce_precision`, the bits of exponent and mantissa; "" of other operations."""
    if op.name == "stablehlo.reduce_precision":
        return ",".join(str(ir.IntegerAttr(op.attributes[f"{part}_bits"]).value) for part in ("exponent", "mantissa"))
    if op.name != "stablehlo.compare":
        return ""
    if "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"]):
        raise Unfit("compare")
    return hlo.direction_of(op)


def read_first(loop: Any) -> None:
    """Have parts of arrays be read before the arrays are overwritten where they can be, in a loop and all in it."""
    for region in loop.regions:
        block = region.blocks[0]
        for op in [op.operation for op in block.operations]:
            read_first(op)
            if op.name in UPDATES:
                _read_before(op, block)


def _read_before(write: Any, block: Any) -> None:
    """Move what reads parts of what is overwritten in front of that, with what it needs."""
    for reader in _readers(write, block):
        if reader.name not in _PARTS or reader.is_before_in_block(write):
            continue
        order = [op.operation for op in block.operations]
        between = order[order.index(write) :]
        needed = {reader}
        for op in reversed(between):
            if op in needed:
                needed |= {x.owner.operation for x in op.operands if not isinstance(x.owner, ir.Block)}
        moved = [op for op in between if op in needed]
        if write not in moved and not any(op.regions for op in moved):
            for op in moved:
                op.move_before(write)


def _readers(write: Any, block: Any) -> list[Any]:
    """The operations of a block that read, or in which something reads, what one of them overwrites."""
    found = (around(use.owner.operation, block) for use in uses(unshaped(write.operands[0])))
    return [op for op in found if op is not None and op != write]


_PARTS = frozenset(("stablehlo.dynamic_slice", "stablehlo.gather", "stablehlo.slice"))


def is_added(value: Any) -> bool:
    """Whether a value is a product to which something is added: what is computed together is rounded once.

    What parts them gives other bits, so that random numbers would depend on what else is computed.
    """
    if not value.owner.name.endswith(("multiply", "negate")) or hlo.dtype_of(value).kind in "biu":
        return False
    return any(use.owner.name.endswith(("add", "subtract", "negate")) for use in value.uses)
