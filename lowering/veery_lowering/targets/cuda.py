"""NVIDIA GPUs through CUDA (PTX: code for an older architecture runs on newer ones)."""

from __future__ import annotations

from veery_lowering.targets.fusion import NO_AGGRESSIVE_FUSION
from veery_lowering.targets.target import COMMON_FLAGS, Flags, Target

CUDA = "--iree-hal-target-device=cuda"
_DEFAULT_CHIP = "sm_80"
# sm_90 is in the compiler's help and fails for every module (`missing GPU target in #hal.executable.target`).
_CHIPS = frozenset("sm_75 sm_80 sm_86 sm_89 turing ampere ada".split())


def target(chip: str) -> Target:
    """The CUDA target of an architecture, "sm_80" by default."""
    chip = chip or _DEFAULT_CHIP
    if chip not in _CHIPS:
        raise ValueError(f"compile: unknown CUDA architecture {chip!r}; known are {', '.join(sorted(_CHIPS))}")
    flags: Flags = (*COMMON_FLAGS, NO_AGGRESSIVE_FUSION, CUDA, f"--iree-cuda-target={chip}")
    return Target(f"cuda:{chip}", "cuda", lambda traits: [flags])
