"""Calls of StableHLO modules that were made elsewhere."""

from __future__ import annotations

from typing import Any

from veery_lowering.emit import foreign
from veery_lowering.emit.registry import Context, Value, rule


@rule("call_module", any_shape=True)
def _call_module(ctx: Context, *operands: Value, module: Any, types: Any) -> list[Value]:
    if isinstance(module, foreign.ForeignByTarget):
        module = module.choose(ctx.target, ctx.hardware)
    return foreign.call(ctx.emitter, module, operands, ctx.avals_out)
