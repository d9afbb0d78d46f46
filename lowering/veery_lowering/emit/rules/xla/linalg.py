"""Linear algebra and Fourier transforms: XLA's own, LAPACK by a call of the host on CPUs, or loops and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.composition import composed, on_host
from veery_lowering.emit.registry import Context, Value, lookup, rule
from veery_lowering.host import NOT_OF_XLA

_HOST_ONLY = frozenset(("eig", "schur"))  # not composed for other devices


def _by_lapack(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    return on_host(ctx, *operands, **params) if ctx.hardware == "cpu" else composed(ctx, *operands, **params)


def _only_by_lapack(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    general = lookup(ctx.primitive, "any")
    assert general is not None
    chosen: Callable[..., Any] = on_host if ctx.hardware == "cpu" else general
    result: list[Value] = chosen(ctx, *operands, **params)
    return result


for _name in NOT_OF_XLA:
    rule(_name, target="xla")(_only_by_lapack if _name in _HOST_ONLY else _by_lapack)


@rule("fft", target="xla")
def _fft(ctx: Context, x: Value, *, fft_type: Any, fft_lengths: Any) -> Value:
    """XLA transforms up to three axes at once, the last ones; more are transformed in turn."""
    kind = str(getattr(fft_type, "name", fft_type)).upper()
    lengths = [int(n) for n in fft_lengths]
    out = ctx.avals_out[0]
    if 0 in out.shape or 0 in ctx.avals_in[0].shape:
        return hlo.full(0, out.shape, out.dtype)
    if np.dtype(out.dtype).itemsize and len(lengths) <= 3:
        return hlo.fft(x, kind, lengths)
    general = lookup("fft", "any")
    assert general is not None
    result: Value = general(ctx, x, fft_type=fft_type, fft_lengths=fft_lengths)
    return result
