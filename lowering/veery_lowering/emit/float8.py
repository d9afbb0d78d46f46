"""Floats of 8 bits are computed with in float32.

IREE's own arithmetic on them is wrong in places: of float8_e4m3fn's two NaNs it takes one for -480, infinities of
types that have none come out as NaN, nothing that is no NaN counts as finite, and `sign` does not compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from veery_lowering.emit.registry import Context, Value
from veery_lowering.emit.rules.convert import convert_dtype, from_float4, is_float4, is_float8, to_float4
from veery_lowering.types import physical_dtype

# What moves values, looks at their bits or calls functions.
_ON_ANY_DTYPE = frozenset(
    (
        "broadcast_in_dim reshape squeeze transpose concatenate pad rev iota split copy slice "
        "optimization_barrier dynamic_slice dynamic_update_slice gather scatter select_n stop_gradient "
        "convert_element_type bitcast_convert_type reduce_precision nextafter "
        "pure_callback io_callback ffi_call debug_callback debug_print call_module exchange "
        "jit remat2 custom_jvp_call custom_vjp_call custom_vmap_call custom_partitioning linear_call custom_lin "
        "custom_linear_solve pvary "
        "cond while scan reduce reduce_window platform_index name check dce_sink"
    ).split()
)

# What looks at the values of some of these, so that it cannot have the bits in the place of floats of 4 bits.
_NOT_ON_4_BITS = frozenset(("iota", "gather", "scatter", "reduce_precision"))


def computes_in_float8(ctx: Context) -> bool:
    """Whether an equation computes with floats of 8 bits, or of 4."""
    if ctx.primitive in _NOT_ON_4_BITS:
        return any(is_float4(aval.dtype) for aval in (*ctx.avals_in, *ctx.avals_out))
    return ctx.primitive not in _ON_ANY_DTYPE and any(map(_is_narrow, ctx.avals_in))


def in_float32(lower: Callable[..., Any], ctx: Context, operands: Sequence[Value]) -> list[Value]:
    """Lower an equation with float32 in the place of float8, and convert its results back."""
    wide = replace(ctx, avals_in=tuple(map(_widened, ctx.avals_in)), avals_out=tuple(map(_widened, ctx.avals_out)))
    widened = [_to_float32(x, a.dtype) if _is_narrow(a) else x for x, a in zip(operands, ctx.avals_in)]
    produced = lower(wide, *widened)
    results = produced if isinstance(produced, (list, tuple)) else [produced]
    return [_of_float32(x, a.dtype) if _is_narrow(a) else x for x, a in zip(results, ctx.avals_out, strict=True)]


def _to_float32(x: Value, dtype: Any) -> Value:
    return from_float4(x) if is_float4(dtype) else convert_dtype(x, np.float32)


def _of_float32(x: Value, dtype: Any) -> Value:
    return to_float4(x) if is_float4(dtype) else convert_dtype(x, dtype)


def _is_narrow(aval: Any) -> bool:
    return is_float8(physical_dtype(aval.dtype))


def _widened(aval: Any) -> Any:
    return aval.update(dtype=np.dtype(np.float32)) if _is_narrow(aval) else aval
