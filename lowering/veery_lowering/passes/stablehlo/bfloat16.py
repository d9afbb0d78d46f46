"""Round each result of bfloat16.

Problem: IREE 3.13 computes what it fuses of bfloat16 in float32, and rounds only what it writes to memory
(`ConvertBf16ArithToF32Pass`), also where the program converts. A value that is computed in two places then differs from
itself. Example: the gradient of `(a * b + a).max(1)` asks where `a * b + a` is the maximum; it is nowhere, and all of
the gradient is nan. Fix: it is computed in float32, and rounded by its bits; a gelu of
1000x1000 takes 1.3 ms instead of 0.6. On processors without an instruction
for it, the conversion of integers to bfloat16, also by way of float32, would call a function that does not exist. Test:
tests/lowering/test_bfloat16.py.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.stablehlo import Value

# The results of others are whole numbers, or among the numbers that they are given.
_ROUNDED = frozenset(
    f"stablehlo.{name}"
    for name in "add atan2 cbrt convert cosine divide exponential exponential_minus_one log log_plus_one logistic"
    " multiply power remainder rsqrt sine sqrt subtract tan tanh".split()
)
# Those through which float32 is passed on, since what is converted between operations is not computed with them.
_PASSED_ON = frozenset(
    f"stablehlo.{name}"
    for name in "abs broadcast_in_dim clamp maximum minimum negate reshape select slice transpose".split()
)
_READ = frozenset(("stablehlo.compare", "stablehlo.convert"))
# In other regions stands what IREE has its own code for, such as the sum of a reduction.
_BLOCKS = frozenset(("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if"))


def round_bfloat16(module: Any) -> None:
    """Compute the elementwise operations on bfloat16 in float32, and round what they give, in place."""
    wide: dict[Value, Value] = {}  # as float32, of values of bfloat16
    made: list[Any] = []
    for op in operations(module):
        if op.parent is None or op.parent.name not in _BLOCKS or len(op.results) != 1:
            continue
        (result,) = op.results
        with ir.InsertionPoint(op), op.location:
            if op.name in _ROUNDED and _is_bfloat16(result):
                # Of a bool zeros and ones are selected (products.py).
                if hlo.dtype_of(op.operands[0]) != np.bool_:
                    rounded = _rounded(_computed(op, wide))
                    narrow = hlo.convert(rounded, ml_dtypes.bfloat16)
                    wide[narrow] = rounded
                    made.append(narrow.owner)
                    result.replace_all_uses_with(narrow)
                    op.erase()
            elif wide.keys().isdisjoint(op.operands):
                continue
            elif op.name in _PASSED_ON and _is_bfloat16(result):
                wide[result] = _computed(op, wide)
                made.append(wide[result].owner)
            elif op.name in _READ:
                for i, x in enumerate(op.operands):
                    op.operands[i] = _widened(x, wide)
    for op in reversed(made):
        if not list(op.results[0].uses):
            op.erase()


def _computed(op: Any, wide: dict[Value, Value]) -> Value:
    """What an operation gives for float32."""
    operands = [_widened(x, wide) for x in op.operands]
    if op.name == "stablehlo.convert":
        return hlo.convert(operands[0], np.float32)
    attributes = {name: op.attributes[name] for name in op.attributes}
    type_ = ir.RankedTensorType.get(op.results[0].type.shape, ir.F32Type.get())
    return ir.Operation.create(op.name, [type_], operands, attributes).results[0]


def _rounded(x: Value) -> Value:
    """float32 as the nearest number that bfloat16 has."""
    if not any(size == ir.ShapedType.get_dynamic_size() for size in ir.RankedTensorType(x.type).shape):
        return hlo.reduce_precision(x, 8, 7)
    # Of a size that is not known IREE's compiler ends the process ("could not reify").
    bits = hlo.bitcast_convert(x, np.uint32)
    odd = hlo.and_(hlo.shift_right_logical(bits, hlo.full_like(bits, 16)), hlo.full_like(bits, 1))
    nearest = hlo.add(bits, hlo.add(odd, hlo.full_like(bits, 0x7FFF)))
    quiet = hlo.or_(bits, hlo.full_like(bits, 0x400000))
    kept = hlo.select(hlo.compare(x, x, "EQ"), nearest, quiet)
    return hlo.bitcast_convert(hlo.and_(kept, hlo.full_like(kept, 0xFFFF0000)), np.float32)


def _widened(x: Value, wide: dict[Value, Value]) -> Value:
    if x in wide:
        return wide[x]
    return hlo.convert(x, np.float32) if _is_bfloat16(x) else x


def _is_bfloat16(x: Value) -> bool:
    return isinstance(x.type, ir.RankedTensorType) and isinstance(x.type.element_type, ir.BF16Type)
