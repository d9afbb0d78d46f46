"""The stages of compilation, each to be looked at: Traced (a jaxpr), Lowered (StableHLO), Compiled (a program)."""

from veery._api.stages import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    CompiledMemoryStats as CompiledMemoryStats,
    Lowered as Lowered,
    Traced as Traced,
)
from veery._core.absent import attributes as _attributes

__getattr__, __dir__ = _attributes(__name__)
