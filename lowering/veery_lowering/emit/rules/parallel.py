"""Exchanges between the programs of several devices: calls of Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering.emit.registry import Context, Value, rule


@rule("exchange")
def _exchange(ctx: Context, *operands: Value, function: Callable[..., Any], out_avals: Sequence[Any]) -> list[Value]:
    # Declared pure, since effects of all programs share one thread, where devices would wait for each other for ever.
    # A program makes them in order; equal ones are merged alike on all devices.
    return ctx.host_call(function, operands, ctx.avals_out, pure=True)
