"""What the GPUs of the tests can do."""

from __future__ import annotations

from typing import Any


def has(gpu: Any, feature: str) -> bool:
    """Whether a GPU computes in "fp16", "fp64" or "int64", as all of CUDA do."""
    return gpu.platform == "cuda" or feature in gpu.target
