"""Functions on the host that programs call while they run: those in Python, and those of compiled libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery_lowering.emit.composition import on_host
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.errors import LoweringError


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


@rule("ffi_call")
def _ffi_call(ctx: Context, *operands: Value, **params: Any) -> Sequence[Value]:
    if ctx.hardware != "cpu":
        raise LoweringError(
            f"foreign functions are called on the CPU, and {params['target_name']} is called by a program for "
            f"{ctx.hardware}: give its arguments to a CPU device, or call it in a `pure_callback`"
        )
    return on_host(ctx, *operands, pure=not params["has_side_effect"], **params)
