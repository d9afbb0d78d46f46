"""Identities that mean something to transformations only."""

from __future__ import annotations

from veery_lowering.emit.registry import Context, Value, rule


@rule("stop_gradient", any_shape=True)
def _stop_gradient(ctx: Context, x: Value) -> Value:
    return x
