"""The CPU: IREE's llvm-cpu backend, tuned for this machine, or for another one."""

from __future__ import annotations

import functools
import platform

from veery_lowering.mlir import bundled_linker
from veery_lowering.store.machine import cpu_features
from veery_lowering.targets.fusion import DATA_TILING, NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION, fusion_flags
from veery_lowering.targets.target import COMMON_FLAGS, SYNCHRONOUS, Flags, Target, Traits
from veery_lowering.targets.tiling import gains_from_tiling

_FLAGS: Flags = (
    *COMMON_FLAGS,
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)

_HOST: Flags = ("--iree-llvmcpu-target-cpu=host",)

# Code for these calls the C library, which only a library made by the system-style link may do.
_LIBM = frozenset(
    [
        *((f"stablehlo.{name}", "float64") for name in "sine cosine tan tanh remainder atan2".split()),
        *((f"chlo.{name}", "float64") for name in "lgamma digamma asin acos atan tan polygamma".split()),
        *(
            (f"stablehlo.{name}", "complex128")
            for name in "sine cosine tan tanh exponential exponential_minus_one log log_plus_one logistic power atan2"
            " sqrt rsqrt cbrt".split()
        ),
        *((f"chlo.{name}", "complex128") for name in "asin acos atan asinh acosh atanh sinh cosh tan square".split()),
    ]
)

# The options that the short pipeline (compiler/short.py) was shown right for.
_SHORT = frozenset((*_FLAGS, *_HOST, SYNCHRONOUS, DATA_TILING, NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION))

# What the levels of x86-64 add to each other, in the words of Linux.
_LEVELS = {
    "x86-64": "",
    "x86-64-v2": "cx16 lahf_lm pni popcnt ssse3 sse4_1 sse4_2",
    "x86-64-v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}
_TRIPLES = {"linux": "linux-gnu", "windows": "pc-windows-msvc", "macos": "apple-darwin", "android": "linux-android"}
_MACHINES = {"x86_64": "x86-64", "aarch64": "generic", "riscv64": "generic-rv64"}


def target(chip: str) -> Target:
    """The target of a processor: "" for this machine's own, with all of its features, else code for others.

    Args:
        chip: "generic" (any CPU of this machine's architecture), a level of x86-64 such as "x86-64-v3", or an
            architecture and operating system, with a processor if wanted: "aarch64-linux", "aarch64-linux:neoverse-n1".
    """
    if not chip:
        return Target("cpu", "cpu", functools.partial(_attempts, _HOST), cpu_features(), _compiles_shortly)
    flags, machine = _other(chip)
    return Target(f"cpu:{chip}", "cpu", functools.partial(_attempts, flags), machine)


def _other(chip: str) -> tuple[Flags, str]:
    """Flags for a processor that is named, and its architecture and features."""
    system, here = platform.system().lower(), platform.machine().lower()
    if chip == "generic":
        return (f"--iree-llvmcpu-target-cpu={_MACHINES.get(here, 'generic')}",), f"{system} {here}"
    if chip in _LEVELS:
        names = list(_LEVELS)
        features = " ".join(_LEVELS[name] for name in names[: names.index(chip) + 1])
        triple = () if here in ("x86_64", "amd64") else (f"--iree-llvmcpu-target-triple=x86_64-{_TRIPLES['linux']}",)
        return (*triple, f"--iree-llvmcpu-target-cpu={chip}"), " ".join(["linux", "x86_64", *features.split()])
    where, _, processor = chip.partition(":")
    machine, _, system = where.partition("-")
    if machine not in _MACHINES or system not in _TRIPLES:
        raise ValueError(
            f"compile: unknown CPU {chip!r}; known are generic, {', '.join(_LEVELS)}, and an architecture "
            f"({', '.join(_MACHINES)}) with a system ({', '.join(_TRIPLES)}) such as aarch64-linux, "
            "perhaps followed by a processor: aarch64-linux:neoverse-n1"
        )
    flags: Flags = (
        f"--iree-llvmcpu-target-triple={machine}-{_TRIPLES[system]}",
        f"--iree-llvmcpu-target-cpu={processor or _MACHINES[machine]}",
    )
    if machine == "riscv64" and not processor:  # the generic one has no floating point
        flags += ("--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+c", "--iree-llvmcpu-target-abi=lp64d")
    return flags, f"{system} {machine}"


def _attempts(processor: Flags, traits: Traits) -> list[Flags]:
    flags = (*_FLAGS, *processor, *fusion_flags(traits.is_rowwise))
    if not _LIBM.isdisjoint(traits.operations):
        flags = (
            *flags,
            "--iree-llvmcpu-link-embedded=false",
            f"--iree-llvmcpu-system-linker-path={bundled_linker()} -flavor gnu",
        )
    # In which operand k comes last is known only when dispatches are formed, where each product is asked again.
    is_tiled = any(gains_from_tiling(product, transposed=True) for product in traits.products)
    return [(*flags, DATA_TILING), flags] if is_tiled else [flags]


def _compiles_shortly(flags: Flags) -> bool:
    return (platform.system(), platform.machine()) == ("Linux", "x86_64") and _SHORT.issuperset(flags)
