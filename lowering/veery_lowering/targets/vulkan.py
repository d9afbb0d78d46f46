"""Vulkan GPUs."""

from __future__ import annotations

from veery_lowering.targets import COMMON_FLAGS, Flags, Target, Traits

# The compiler's own default (vp_android_baseline_2022) stores 8 and 16-bit data wrongly and has no float64.
_DEFAULT_CHIP = "ampere"
# The compiler dies on names that it does not know.
_CHIPS = frozenset(
    "ampere ada turing rdna2 rdna3 rdna4 valhall valhall4 valhall4_1 adreno apple m1 rtx2080 rtx3070 rtx3080 rtx4080"
    " rtx4090 a100 rx6800 rx6800xt rx7800xt rx7900xtx".split()
)


def target(chip: str) -> Target:
    """The Vulkan target of a chip or architecture, "ampere" by default."""
    chip = chip or _DEFAULT_CHIP
    if chip not in _CHIPS:
        raise ValueError(f"compile: unknown Vulkan chip {chip!r}; known are {', '.join(sorted(_CHIPS))}")
    flags: Flags = (*COMMON_FLAGS, "--iree-hal-target-device=vulkan", f"--iree-vulkan-target={chip}")

    def attempts(traits: Traits) -> list[Flags]:
        return [flags]

    return Target(f"vulkan:{chip}", "vulkan", attempts)
