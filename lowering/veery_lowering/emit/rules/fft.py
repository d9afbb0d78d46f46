"""Discrete Fourier transforms: of SciPy's library by a call of the host on the CPU; products of matrices elsewhere.

IREE's own transform takes 26 times as long as JAX's, and is for powers of two and single precision alone.
"""

from __future__ import annotations

from veery_lowering.emit.composition import composed, on_host
from veery_lowering.emit.registry import rule

rule("fft", target="cpu")(on_host)
rule("fft")(composed)
