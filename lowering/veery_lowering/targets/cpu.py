"""The CPU: IREE's llvm-cpu backend, tuned for this machine."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from veery_lowering.mlir import bundled_linker
from veery_lowering.targets import COMMON_FLAGS, Flags, Product, Target, Traits

_FLAGS: Flags = (
    *COMMON_FLAGS,
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)

# Measured against the plain flags (times relative to JAX, same run): product of 1024 from 3.2 to 1.2, of 2048 from
# 4.2 to 1.1, but a 4096 matrix-vector product from 2 to 17 and a sum of 3M elements from 2.0 to 3.5.
_DATA_TILING: Flags = ("--iree-dispatch-creation-data-tiling=true",)
_TILED_FLOPS = 2 * 192**3
_TILED_SIDE = 64

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


def target(chip: str) -> Target:
    """The CPU target; `chip` must be empty."""
    if chip:
        raise ValueError(f"compile: target 'cpu' takes no chip, got {chip!r}")
    return Target("cpu", "cpu", _attempts, cpu_features())


def _attempts(traits: Traits) -> list[Flags]:
    flags = _FLAGS
    if not _LIBM.isdisjoint(traits.operations):
        flags = (
            *flags,
            "--iree-llvmcpu-link-embedded=false",
            f"--iree-llvmcpu-system-linker-path={bundled_linker()} -flavor gnu",
        )
    return [(*flags, *_DATA_TILING), flags] if _gains_from_tiling(traits.products) else [flags]


def _gains_from_tiling(products: tuple[Product, ...]) -> bool:
    """Whether large matrix-matrix products, and no large thin ones, make up the contractions."""

    def flops(p: Product) -> int:
        return 2 * p.batch * p.m * p.n * p.k

    wide = [p for p in products if min(p.m, p.n, p.k) >= _TILED_SIDE]
    thin = sum(flops(p) for p in products if min(p.m, p.n, p.k) < _TILED_SIDE)
    # A thin product costs 17 times more with tiling, a wide one 3 times less.
    return any(flops(p) >= _TILED_FLOPS for p in wide) and sum(map(flops, wide)) > 32 * thin


@cache
def cpu_features() -> str:
    """What code for this machine's CPU may depend on: architecture and feature list, as one line of text."""
    features: list[str] = []
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                features = sorted(value.split())
                break
    except OSError:
        features = [platform.processor()]
    return " ".join([platform.system().lower(), platform.machine().lower(), *features])
