"""What is asked of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import veery
from veery_lowering.passes.simplification import inlined


def how_many(fuse: Callable[..., int], fun: Callable[..., Any], *args: Any, **options: Any) -> int:
    """How many kernels a pass makes in a function of arguments like these; options are the pass's."""
    counts: list[int] = []
    inlined(veery.jit(fun).lower(*args)._lowered.module, lambda module: counts.append(fuse(module, **options)))
    return counts[0]
