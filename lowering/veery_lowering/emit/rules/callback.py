"""Python functions that programs call while they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery_lowering.emit.registry import Context, Value, rule


@rule("pure_callback")
def _pure_callback(ctx: Context, *operands: Value, callback: Any, **_: Any) -> Sequence[Value]:
    return ctx.host_call(callback.typed(ctx.avals_out), operands, ctx.avals_out)


@rule("io_callback")
def _io_callback(ctx: Context, *operands: Value, callback: Any, **_: Any) -> Sequence[Value]:
    return ctx.host_call(callback.typed(ctx.avals_out), operands, ctx.avals_out, pure=False)


@rule("debug_callback")
@rule("debug_print")
def _debug_callback(ctx: Context, *operands: Value, callback: Any, **_: Any) -> Sequence[Value]:
    return ctx.host_call(callback, operands, (), pure=False)
