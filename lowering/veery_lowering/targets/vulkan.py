"""Vulkan GPUs: the device at hand by its properties, or a chip by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from veery_lowering.errors import CompileError
from veery_lowering.targets.fusion import NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION
from veery_lowering.targets.target import COMMON_FLAGS, Flags, Target, Traits

# The compiler's own default (vp_android_baseline_2022) stores 8 and 16-bit data wrongly and has no float64.
_DEFAULT_CHIP = "ampere"
# The compiler dies on names that it does not know.
_CHIPS = frozenset(
    "ampere ada turing rdna2 rdna3 rdna4 valhall valhall4 valhall4_1 adreno apple m1 rtx2080 rtx3070 rtx3080 rtx4080"
    " rtx4090 a100 rx6800 rx6800xt rx7800xt rx7900xtx".split()
)
_MOBILE = frozenset("valhall valhall4 valhall4_1 adreno apple m1".split())
_FLAGS: Flags = (*COMMON_FLAGS, NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION)
# The features that devices may lack, with the dtypes that need them. IREE's emulation of 64-bit integers splits random
# keys wrongly, so it is not relied on.
_WIDE = {"fp64": ("float64", "complex128"), "int64": ("int64", "uint64"), "fp16": ("float16",)}
_FLOATS = {"fp16": 16, "fp32": 32, "fp64": 64}
_SPIRV = {"1.0": "1.0", "1.1": "1.3", "1.2": "1.5"}
_FIELDS = frozenset("vulkan compute storage subgroup operations threads sizes counts memory nan".split())


def target(chip: str) -> Target:
    """The Vulkan target of a chip or architecture ("ampere" by default), or of a device described by its properties.

    A description is what the runtime says of a device: "vulkan=1.3,compute=fp32+int32,storage=b32,subgroup=8,...".
    """
    chip = chip or _DEFAULT_CHIP
    missing: frozenset[str] = frozenset()
    keeps_nan = frozenset(_FLOATS) if chip not in _MOBILE else frozenset()
    if "=" in chip:
        fields = _fields(chip)
        device = f"--iree-hal-target-device=device={_device(fields)}"
        missing = frozenset(_WIDE) - frozenset(fields["compute"].split("+"))
        keeps_nan = frozenset(fields["nan"].split("+"))
        flags: Flags = (*_FLAGS, device)
    elif chip in _CHIPS:
        flags = (*_FLAGS, "--iree-hal-target-device=device=vulkan", f"--iree-vulkan-target={chip}")
    else:
        raise ValueError(f"compile: unknown Vulkan chip {chip!r}; known are {', '.join(sorted(_CHIPS))}")

    def attempts(traits: Traits) -> list[Flags]:
        for feature, dtypes in _WIDE.items():
            for operation, dtype in sorted(traits.operations):
                if feature in missing and dtype in dtypes:
                    raise CompileError(
                        f"compile: this Vulkan device cannot compute with {dtype} (it lacks {feature}), which "
                        f"{operation} needs; use narrower types or a CPU device"
                    )
        return [flags]

    kept = tuple(bits for name, bits in _FLOATS.items() if name in keeps_nan)
    return Target(f"vulkan:{chip}", "vulkan", attempts, keeps_nan=kept)


def _fields(description: str) -> dict[str, str]:
    fields = dict(part.partition("=")[::2] for part in description.split(","))
    if set(fields) != _FIELDS or not all(re.fullmatch(r"[a-z0-9+.]+", value) for value in fields.values()):
        raise ValueError(f"compile: {description!r} does not describe a Vulkan device")
    return fields


def _device(fields: Mapping[str, str]) -> str:
    """The device as IREE's attribute.

    With a named chip instead, sums were NaN or a fraction of the sum wherever the chip's subgroup size is not the
    device's (llvmpipe has 8). Cooperative matrices are left out: no driver at hand has them, and the compiler
    fails on bfloat16 products for them.
    """
    lists = {key: "|".join(fields[key].split("+")) for key in ("compute", "storage", "operations")}
    sizes, counts = (", ".join(fields[key].split("x")) for key in ("sizes", "counts"))
    gpu = (
        f'#iree_gpu.target<arch = "generic", features = "spirv:v{_SPIRV.get(fields["vulkan"], "1.6")},cap:Shader",'
        f" wgp = <compute = {lists['compute']}, storage = {lists['storage']}, subgroup = {lists['operations']},"
        f" subgroup_size_choices = [{fields['subgroup']}], max_workgroup_sizes = [{sizes}],"
        f" max_thread_count_per_workgroup = {fields['threads']}, max_workgroup_memory_bytes = {fields['memory']},"
        f" max_workgroup_counts = [{counts}]>>"
    )
    executable = f'#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {{iree_codegen.target_info = {gpu}}}>'
    return f'#hal.device.target<"vulkan", [{executable}]>'
