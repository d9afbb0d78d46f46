"""Lowering of jaxprs to StableHLO and their compilation by IREE.

The door: `compile(closed_jaxpr, ...) -> Program`, and `lower(closed_jaxpr, ...) -> Lowered` for looking at the module.
Importing it does not load IREE's compiler, and neither does finding a compiled program on disk.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from veery_lowering import addresses, host
from veery_lowering.compiler import isolation, steps, tuning
from veery_lowering.errors import CacheWarning, CompileError, LoweringError
from veery_lowering.program import STATIC, HostCall, Options, Program, Symbols, place_of
from veery_lowering.store import executables, links
from veery_lowering.store.cache import CacheInfo, CacheSettings, configure_cache, disk_cache

if TYPE_CHECKING:
    from veery_lowering.emit.foreign import Foreign, ForeignByTarget
    from veery_lowering.lowered import Lowered, lower
    from veery_lowering.passes.effects import pass_report
    from veery_lowering.reading import read_module

__all__ = [
    "CacheInfo",
    "CacheWarning",
    "CacheSettings",
    "CompileError",
    "HostCall",
    "Lowered",
    "LoweringError",
    "Options",
    "Program",
    "Foreign",
    "ForeignByTarget",
    "addresses",
    "cache_info",
    "clear_cache",
    "compile",
    "configure_cache",
    "disk_cache",
    "executables",
    "host",
    "lower",
    "pass_report",
    "read_module",
    "steps",
    "tuning",
]

# Where the names are that need the compiler: loading it takes 0.1 s.
_COMPILER = {
    "Foreign": "emit.foreign",
    "ForeignByTarget": "emit.foreign",
    "Lowered": "lowered",
    "lower": "lowered",
    "pass_report": "passes.effects",
    "read_module": "reading",
}


def __getattr__(name: str) -> Any:
    if name in _COMPILER:
        return getattr(importlib.import_module(f"veery_lowering.{_COMPILER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compile(
    closed_jaxpr: Any,
    *,
    name: str = "main",
    target: str = "cpu",
    options: Options | None = None,
    donated: Sequence[bool] = (),
    symbols: Any = STATIC,
) -> Program:
    """Lower and compile a closed jaxpr, unless its program is on disk; see `lower` and `Lowered.compile`."""
    options = options or Options()
    symbols = Symbols(*symbols)
    linked = options.cache and not symbols.sources
    link = links.key(closed_jaxpr, target, donated, options) if linked else None
    program = links.follow(link, name, place_of(closed_jaxpr.jaxpr), options, closed_jaxpr) if link else None
    if program is None:
        if options.isolation == "always":
            isolation.start()  # it gets ready while this process does
        from veery_lowering.lowered import lower

        steps.begin(steps.LOWERING)
        choices = dict(donated=donated, options=options, symbols=symbols)
        lowered = lower(closed_jaxpr, name=name, target=target, **choices)
        steps.begin(steps.SEARCHING)
        program = lowered.compile()
        if link:
            links.make(link, program, closed_jaxpr)
    return program


def cache_info() -> CacheInfo:
    """The state of the folder of compiled programs."""
    return disk_cache().info()


def clear_cache() -> None:
    """Remove all compiled programs from the folder."""
    disk_cache().clear()
