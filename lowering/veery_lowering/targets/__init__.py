"""What each target lacks or does badly, and the compiler options that are chosen for it and for a program."""

from __future__ import annotations

from collections.abc import Callable

from veery_lowering.errors import UnknownTargetError
from veery_lowering.targets import cpu, cuda, vulkan, xla
from veery_lowering.targets.target import (
    GOAL_FLAGS as GOAL_FLAGS,
    Flags as Flags,
    Product as Product,
    Target as Target,
    Traits as Traits,
)

XLA_PLATFORMS = ("tpu", "rocm", "metal")


def resolve(name: str) -> Target:
    """The target of a name: "cpu", "cpu:x86-64-v3", "cpu:aarch64-linux", "vulkan", "vulkan:rdna3", "cuda:sm_89", ...

    JAX's platforms that XLA alone compiles for ("tpu", "rocm", "metal") are XLA's devices of that kind.

    Raises UnknownTargetError for an unknown name.
    """
    backend, _, chip = name.partition(":")
    makers: dict[str, Callable[[str], Target]] = {
        "cpu": cpu.target,
        "vulkan": vulkan.target,
        "cuda": cuda.target,
        "xla": xla.target,
    }
    if name in XLA_PLATFORMS:
        return xla.target(name)
    if backend not in makers:
        known = f"cpu[:processor], vulkan[:chip], cuda[:chip], xla[:kind], {', '.join(XLA_PLATFORMS)}"
        raise UnknownTargetError(f"compile: unknown target {name!r}; expected {known}")
    try:
        return makers[backend](chip)
    except ValueError as error:
        raise UnknownTargetError(str(error)) from None
