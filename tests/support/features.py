"""What the GPUs of the tests can do."""

from __future__ import annotations

from typing import Any


def has(gpu: Any, feature: str) -> bool:
    """Whether a GPU computes in "fp16", "fp64" or "int64", as all of CUDA do."""
    return gpu.platform == "cuda" or feature in gpu.target


def rounds_each(gpu: Any) -> bool:
    """Whether a product and a sum are known to be rounded one after the other: NVIDIA's driver rounds once."""
    return "llvmpipe" in gpu.device_kind
