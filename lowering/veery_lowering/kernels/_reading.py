"""What the kernels need to know of StableHLO's operations."""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.mlir import ir


def integers(attribute: Any) -> list[int]:
    """The numbers of an attribute."""
    return list(ir.DenseI64ArrayAttr(attribute))


def static_shape(value: Any) -> tuple[int, ...]:
    """The shape of a value; raises Unfit where it is not known."""
    if not isinstance(value.type, ir.RankedTensorType) or not value.type.has_static_shape:
        raise Unfit("a dynamic shape")
    return tuple(hlo.shape_of(value))


def detail_of(op: Any) -> str:
    """Of a comparison, which; of `reduce_precision`, the bits of exponent and mantissa; "" of other operations."""
    if op.name == "stablehlo.reduce_precision":
        return ",".join(str(ir.IntegerAttr(op.attributes[f"{part}_bits"]).value) for part in ("exponent", "mantissa"))
    if op.name != "stablehlo.compare":
        return ""
    if "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"]):
        raise Unfit("compare")
    return hlo.direction_of(op)


def read_later(write: Any) -> bool:
    """Whether what is overwritten here is read afterwards: it would have to be copied first."""
    operations = list(write.operation.block.operations)
    place = operations.index(write)
    later = [use.owner for use in write.operands[0].uses if use.owner != write]
    return any(op not in operations[:place] for op in later)
