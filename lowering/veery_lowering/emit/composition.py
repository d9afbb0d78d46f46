"""Primitives that StableHLO has no operation for: calls of their NumPy references, or their compositions of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering.emit.registry import Context, Value


@dataclass(frozen=True)
class HostReference:
    """A primitive's NumPy reference with its parameters."""

    primitive: Any
    params: tuple[tuple[str, Any], ...]

    @property
    def __name__(self) -> str:  # of the function, for messages
        return str(self.primitive.name)

    def __call__(self, *operands: np.ndarray) -> list[np.ndarray]:
        out = self.primitive.reference(*operands, **dict(self.params))
        return list(out) if self.primitive.multiple_results else [out]


def on_host(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    """Call the primitive's reference while the program runs."""
    return ctx.host_call(HostReference(ctx.definition, tuple(params.items())), operands, ctx.avals_out)


def composed(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    """Call the function that the primitive is composed as."""
    closed = ctx.definition.composed(ctx.avals_in, tuple(params.items()))
    return ctx.call(closed, *operands, name=ctx.primitive)
