"""Identities that mean something to transformations only."""

from __future__ import annotations

from typing import Any

from veery_lowering.emit.registry import Context, Value, rule


@rule("pvary", any_shape=True)
@rule("stop_gradient", any_shape=True)
def _identity(ctx: Context, x: Value, **_: Any) -> Value:
    return x
