"""What of a value XLA knows when it compiles."""

from __future__ import annotations

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker
from veery_lowering.stablehlo import Value

_FAR = 100  # operations that are looked at
_OPAQUE = ("func.call", "stablehlo.while", "stablehlo.case", "stablehlo.if", "stablehlo.composite")
# Where these are of 32 bits or fewer, their operands were looked at when they were written.
_LOOKED_AT = ("stablehlo.exponential", "stablehlo.exponential_minus_one", "stablehlo.logistic", "chlo.cosh")
_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")


def may_hold_constant_nan(x: Value) -> bool:
    """Whether XLA may find a NaN among the constants that a value is made of, or compute one from them.

    Only what is made of a program's arguments by operations, without calls and loops, is known to hold none.
    """
    waiting, seen = [x], {x}
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if hlo.dtype_of(value).kind in "biu":
            continue
        if isinstance(owner, ir.Block):
            if not _is_entry(owner):
                return True
            continue
        operation = owner.operation
        if operation.name == "stablehlo.constant":
            if _holds_nan(operation.attributes["value"]):
                return True
            continue
        if operation.name in _LOOKED_AT and hlo.dtype_of(value) != np.float64:
            continue
        operands = [*operation.operands]
        computes = operands and operation.name not in _MOVES and all(map(_is_constant, operands))
        if operation.name in _OPAQUE or computes or len(seen) > _FAR:
            return True
        new = [operand for operand in operands if operand not in seen]
        seen.update(new)
        waiting += new
    return False


def _is_constant(x: Value) -> bool:
    """Whether a value is a constant, or one with other dimensions."""
    while (name := maker(x)) in _MOVES:
        x = x.owner.operation.operands[0]
    return name in ("stablehlo.constant", "stablehlo.iota")


def _is_entry(block: ir.Block) -> bool:
    """Whether the arguments of a block are the program's."""
    function = block.owner.operation
    return function.name == "func.func" and str(ir.StringAttr(function.attributes["sym_name"]).value) == "main"


def _holds_nan(value: ir.Attribute) -> bool:
    """Whether a constant holds a NaN; also of those that are not looked into."""
    if isinstance(value, ir.DenseIntElementsAttr):
        return False
    if not isinstance(value, ir.DenseFPElementsAttr):
        return True
    if value.is_splat:
        return bool(np.isnan(ir.FloatAttr(value.get_splat_value()).value))
    kind = ir.RankedTensorType(value.type).element_type
    return not isinstance(kind, (ir.F32Type, ir.F64Type)) or bool(np.isnan(np.asarray(value)).any())
