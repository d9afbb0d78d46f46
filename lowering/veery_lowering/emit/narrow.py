"""Integers of less than a byte are computed with as bytes, and wrapped to their bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value
from veery_lowering.types import SUB_BYTE, physical_dtype

# What moves values that are wrapped already, or has functions in it whose equations wrap theirs.
_WRAPPED = frozenset(
    (
        "broadcast_in_dim reshape squeeze transpose concatenate pad rev split copy slice optimization_barrier "
        "dynamic_slice dynamic_update_slice gather select_n stop_gradient sort max min clamp "
        "jit remat2 custom_jvp_call custom_vjp_call custom_vmap_call linear_call cond while scan"
    ).split()
)
# What looks at all bits of its first operand, of which those of a negative number go on to the left.
_OF_BITS = frozenset(("shift_right_logical", "clz"))


def bits_alone(ctx: Context, operands: Sequence[Value]) -> list[Value]:
    """The operands, without the signs in the rest of their bytes where an operation would count these."""
    if ctx.primitive not in _OF_BITS or not _is_narrow(ctx.avals_in[0]):
        return list(operands)
    first, *rest = operands
    return [hlo.and_(first, hlo.full_like(first, (1 << _width(ctx.avals_in[0])) - 1)), *rest]


def wrapped(ctx: Context, results: Sequence[Value]) -> list[Value]:
    """The results, those below a byte reduced to their bits."""
    if ctx.primitive in _WRAPPED:
        return list(results)
    return [_wrap(x, aval, ctx) if _is_narrow(aval) else x for x, aval in zip(results, ctx.avals_out)]


def _wrap(x: Value, aval: Any, ctx: Context) -> Value:
    rest = 8 - _width(aval)
    if ctx.primitive == "clz":
        x = hlo.subtract(x, hlo.full_like(x, rest))
    if physical_dtype(aval.dtype).name.startswith("u"):
        return hlo.and_(x, hlo.full_like(x, 0xFF >> rest))
    return hlo.shift_right_arithmetic(hlo.shift_left(x, hlo.full_like(x, rest)), hlo.full_like(x, rest))


def _is_narrow(aval: Any) -> bool:
    return hasattr(aval, "dtype") and physical_dtype(aval.dtype).name in SUB_BYTE


def _width(aval: Any) -> int:
    """The number of bits of an element."""
    return int(physical_dtype(aval.dtype).name.lstrip("uint"))
