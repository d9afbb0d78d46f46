"""The stages of compilation, each to be looked at: Traced (a jaxpr), Lowered (StableHLO), Compiled (a program)."""

from veery._api.stages import Compiled as Compiled
from veery._api.stages import CompiledMemoryStats as CompiledMemoryStats
from veery._api.stages import Lowered as Lowered
from veery._api.stages import Traced as Traced
