"""XLA, through PJRT plugins: a module is handed over as it is, and compiled when a device loads it."""

from __future__ import annotations

import re

from veery_lowering.targets.target import Flags, Target, Traits


def target(hardware: str) -> Target:
    """The target of XLA's devices of a kind, in XLA's words: "cpu" (the default), "cuda", "rocm", "tpu"."""
    hardware = hardware or "cpu"
    if not re.fullmatch(r"[\w.-]+", hardware):
        raise ValueError(
            f"compile: unknown kind of XLA's devices {hardware!r}; expected xla:cpu, xla:cuda, xla:tpu, ..."
        )

    def attempts(traits: Traits) -> list[Flags]:
        return []

    return Target(f"xla:{hardware}", "xla", attempts, hardware=hardware)
