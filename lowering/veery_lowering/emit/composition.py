"""Primitives that StableHLO has no operation for: calls of their NumPy references, or their compositions of others."""

from __future__ import annotations

from typing import Any

from veery_lowering.emit.registry import Context, Value
from veery_lowering.host import HostReference


def on_host(ctx: Context, *operands: Value, pure: bool = True, **params: Any) -> list[Value]:
    """Call the primitive's reference while the program runs; calls that are pure may be merged or dropped."""
    return ctx.host_call(HostReference(ctx.definition, tuple(params.items())), operands, ctx.avals_out, pure)


def composed(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    """Call the function that the primitive is composed as."""
    closed = ctx.definition.composed(ctx.avals_in, tuple(params.items()))
    return ctx.call(closed, *operands, name=ctx.primitive)
