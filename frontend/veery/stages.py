"""The stages of compilation, each to be looked at: Traced (a jaxpr), Lowered (StableHLO), Compiled (a program)."""

from typing import Any, Protocol, runtime_checkable

from veery._api.stages import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    CompiledMemoryStats as CompiledMemoryStats,
    Lowered as Lowered,
    Traced as Traced,
)
from veery._core.absent import attributes as _attributes

CompilerOptions = dict[str, str | bool]


@runtime_checkable
class Wrapped(Protocol):
    """A function that `veery.jit` gives."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, compiled."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace it."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower it."""


__getattr__, __dir__ = _attributes(__name__)
